//! Export of spans and metrics over OTLP, in builds with the feature `otel`.

use kimi_agent_proxy::ProxyOptions;

use crate::failure::Failure;

#[cfg(feature = "otel")]
pub(crate) use exporters::{end, export};

/// Refuses telemetry, which this build does not have.
///
/// # Errors
/// Always.
#[cfg(not(feature = "otel"))]
pub(crate) fn export(_: ProxyOptions) -> Result<ProxyOptions, Failure> {
    let problem =
        "this build cannot export telemetry; install one with `cargo install kimi-agent-command --features otel`";
    Err(Failure::wrong("--otel", problem))
}

/// Does nothing in this build.
#[cfg(not(feature = "otel"))]
pub(crate) fn end() {}

#[cfg(feature = "otel")]
mod exporters {
    use std::io::Write as _;
    use std::sync::OnceLock;

    use kimi_agent_client::Telemetry;
    use opentelemetry_otlp::{MetricExporter, Protocol, SpanExporter, WithExportConfig as _};
    use opentelemetry_sdk::metrics::SdkMeterProvider;
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::{Failure, ProxyOptions};

    /// The exporters of this process.
    static EXPORTERS: OnceLock<(SdkTracerProvider, SdkMeterProvider)> = OnceLock::new();

    /// Starts the exporters, and lets sessions report to them. The variables `OTEL_…` say where to.
    ///
    /// # Errors
    /// A variable is wrong.
    pub(crate) fn export(options: ProxyOptions) -> Result<ProxyOptions, Failure> {
        let wrong = |error: &dyn std::fmt::Display| Failure::wrong("--otel", error);
        let spans = SpanExporter::builder().with_http().with_protocol(Protocol::HttpJson);
        let spans = spans.build().map_err(|error| wrong(&error))?;
        let metrics = MetricExporter::builder().with_http().with_protocol(Protocol::HttpJson);
        let metrics = metrics.build().map_err(|error| wrong(&error))?;
        let (tracer, meter) = EXPORTERS.get_or_init(|| {
            let tracer = SdkTracerProvider::builder().with_batch_exporter(spans).build();
            (tracer, SdkMeterProvider::builder().with_periodic_exporter(metrics).build())
        });
        Ok(options.telemetry(Telemetry::new().tracer_provider(tracer).meter_provider(meter)))
    }

    /// Exports the rest.
    pub(crate) fn end() {
        let Some((tracer, meter)) = EXPORTERS.get() else { return };
        for outcome in [tracer.shutdown(), meter.shutdown()] {
            if let Err(error) = outcome {
                writeln!(std::io::stderr(), "kimi-agent: telemetry was not exported completely: {error}").ok();
            }
        }
    }
}
