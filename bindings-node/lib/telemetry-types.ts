/** The details of the option `telemetry`. They name no type of `@opentelemetry/api`, which programs without telemetry do not need. */

/** Makes tracers: a `TracerProvider` of `@opentelemetry/api`. */
export interface TracerSource {
  /**
   * Returns a tracer.
   *
   * @param name - The name of the instrumentation scope: `kimi-agent`.
   * @param version - The version of this package.
   * @param options - The schema of the names.
   * @returns The tracer.
   */
  getTracer(name: string, version?: string, options?: object): object;
}

/** Makes meters: a `MeterProvider` of `@opentelemetry/api`. */
export interface MeterSource {
  /**
   * Returns a meter.
   *
   * @param name - The name of the instrumentation scope: `kimi-agent`.
   * @param version - The version of this package.
   * @param options - The schema of the names.
   * @returns The meter.
   */
  getMeter(name: string, version?: string, options?: object): object;
}

/**
 * Details of the option `telemetry`. `telemetry: true` is the same as `telemetry: {}`, and `telemetry: provider` is the same
 * as details with this provider. All of them need `@opentelemetry/api`.
 */
export interface TelemetryOptions {
  /** The provider of the tracer. Default: the global provider. */
  tracerProvider?: TracerSource | undefined;
  /** The provider of the meter. Default: the global provider. */
  meterProvider?: MeterSource | undefined;
  /**
   * Whether prompts, answers, arguments and results of tools are recorded. Default: the environment variable
   * `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` decides, else they are not.
   */
  captureContent?: boolean | undefined;
}
