/** Decides which images are shown. */

/** A raster image in a data URI. SVG is a document with scripts and links, so it is not shown. */
const RASTER = /^data:image\/(?:png|jpe?g|gif|webp|bmp|avif);base64,[A-Za-z0-9+/]+={0,2}$/;

/** The media type of a data URI, without its data. */
export function mediaTypeOf(url: string): string | undefined {
  return /^data:([\w.+-]+\/[\w.+-]+)/i.exec(url.slice(0, 200))?.[1]?.toLowerCase();
}

/** Returns whether an address is a raster image that the page contains. Nothing is ever loaded from another place. */
export function isShownImage(url: string): boolean {
  return RASTER.test(url);
}
