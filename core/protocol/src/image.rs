//! Images as content parts: detects the media type and makes a `data:` URL. The bindings use this, too.

use std::fmt::Write;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use base64::Engine;

use crate::error::invalid_option;
use crate::error::{Error, Result};
use crate::messages::ContentPart;

/// The name in errors: the function that programs call in every language.
const NAME: &str = "image";
const KNOWN: &str = "PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF or HEIC";
/// The number of bytes that are enough to detect the type.
const HEAD: usize = 64;

impl ContentPart {
    /// Makes an image part from a file, which is read at once and travels inside the prompt as a `data:` URL.
    ///
    /// The media type is found out from the first bytes, not from the name: PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF and HEIC are
    /// recognized. A model may accept fewer types.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there is no such file, if it can't be read, is a directory or empty, or is not an image of
    /// a known type.
    ///
    /// ```no_run
    /// # use kimi_agent_protocol as kimi_agent;
    /// # struct Session;
    /// # impl Session { fn prompt(&self, parts: Vec<kimi_agent::wire::ContentPart>) -> kimi_agent::Result<()> { Ok(drop(parts)) } }
    /// # fn example(session: &Session) -> kimi_agent::Result<()> {
    /// use kimi_agent::wire::ContentPart;
    /// let turn = session.prompt(vec![ContentPart::text("What is wrong here?"), ContentPart::image_file("screenshot.png")?])?;
    /// # drop(turn);
    /// # Ok(())
    /// # }
    /// ```
    pub fn image_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let shown = || format!("\"{}\"", path.display());
        let failed = |error: std::io::Error| invalid(cannot_read(path, &error));
        // Opening a named pipe would wait for a writer.
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(invalid(format!("{} is a directory; pass the path of an image file", shown())));
        }
        if !metadata.is_file() {
            return Err(invalid(format!("{} is not a regular file; pass the path of an image file", shown())));
        }
        let mut file = File::open(path).map_err(failed)?;
        let mut bytes = Vec::with_capacity(HEAD);
        // A large file that is not an image is not read completely.
        (&mut file).take(HEAD as u64).read_to_end(&mut bytes).map_err(failed)?;
        let media_type = recognized(&bytes, || format!("the file {}", shown()))?;
        file.read_to_end(&mut bytes).map_err(failed)?;
        Ok(Self::image_url(data_url(media_type, &bytes)))
    }

    /// Makes an image part from the bytes of an image file, which travel inside the prompt as a `data:` URL.
    ///
    /// The same types are recognized as by [`ContentPart::image_file`].
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there are no bytes, or if they are not an image of a known type.
    ///
    /// ```
    /// # use kimi_agent_protocol as kimi_agent;
    /// use kimi_agent::wire::ContentPart;
    /// let part = ContentPart::image_bytes(b"GIF89a\x01\0\x01\0\0\0\0;")?;
    /// assert_eq!(part, ContentPart::image_url("data:image/gif;base64,R0lGODlhAQABAAAAADs="));
    /// # Ok::<(), kimi_agent::Error>(())
    /// ```
    pub fn image_bytes(bytes: impl AsRef<[u8]>) -> Result<Self> {
        let bytes = bytes.as_ref();
        let media_type = recognized(bytes, || "the value".to_owned())?;
        Ok(Self::image_url(data_url(media_type, bytes)))
    }
}

fn invalid(reason: String) -> Error {
    invalid_option(NAME, reason)
}

fn cannot_read(path: &Path, error: &std::io::Error) -> String {
    let text = path.to_string_lossy();
    if text.starts_with("data:") || text.contains("://") {
        let url: String = text.chars().take(60).collect();
        return format!("\"{url}\" is a URL, not a path; make an ImageURLPart of it");
    }
    if error.kind() != ErrorKind::NotFound {
        return format!("the file \"{text}\" cannot be read: {error}");
    }
    let found = match std::env::current_dir() {
        Ok(current) if path.is_relative() => format!(" in {}", current.display()),
        _ => String::new(),
    };
    format!("there is no file \"{text}\"{found}; pass the path of an image file, or its bytes")
}

/// Returns the media type, by the first bytes.
fn recognized(bytes: &[u8], subject: impl Fn() -> String) -> Result<&'static str> {
    if bytes.is_empty() {
        return Err(invalid(format!("{} is empty; expected {KNOWN}", subject())));
    }
    media_type(bytes).ok_or_else(|| {
        let hint = if is_svg(bytes) { "; an SVG drawing has to be converted, for example to PNG" } else { "" };
        let mut start = String::new();
        for byte in bytes.iter().take(8) {
            // Writing to a string does not fail.
            let _ = write!(start, " {byte:02x}");
        }
        invalid(format!("{} is not an image of a known type: it starts with{start}; expected {KNOWN}{hint}", subject()))
    })
}

/// Returns the media type of an image, by its first bytes.
pub(crate) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let brand = bytes.get(4..8).filter(|kind| kind == b"ftyp").and_then(|_| bytes.get(8..12));
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] => Some("image/bmp"),
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => Some("image/tiff"),
        _ => match brand? {
            b"avif" | b"avis" => Some("image/avif"),
            b"heic" | b"heix" | b"hevc" | b"hevx" | b"heim" | b"heis" => Some("image/heic"),
            b"mif1" | b"msf1" => Some("image/heif"),
            _ => None,
        },
    }
}

fn is_svg(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]).into_owned();
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with("<svg") || text.starts_with("<?xml")
}

fn data_url(media_type: &str, bytes: &[u8]) -> String {
    let mut url = format!("data:{media_type};base64,");
    url.reserve(bytes.len().div_ceil(3) * 4);
    base64::engine::general_purpose::STANDARD.encode_string(bytes, &mut url);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(made: Result<ContentPart>) -> String {
        match made {
            Err(Error::InvalidOption { option, reason }) => {
                assert_eq!(option, "image");
                reason
            }
            other => panic!("{other:?}"),
        }
    }

    fn type_of(bytes: &[u8]) -> Option<String> {
        let ContentPart::ImageUrl(part) = ContentPart::image_bytes(bytes).ok()? else { return None };
        let (head, _) = part.image_url.url.strip_prefix("data:")?.split_once(";base64,")?;
        Some(head.to_owned())
    }

    #[test]
    fn media_type_is_recognized_by_first_bytes() {
        let samples: [(&[u8], &str); 10] = [
            (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
            (b"GIF87a\0\0", "image/gif"),
            (b"GIF89a\0\0", "image/gif"),
            (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
            (b"BM\x46\0\0\0\0\0\0\0\x36", "image/bmp"),
            (b"II*\0\x08", "image/tiff"),
            (b"\0\0\0\x20ftypavif\0\0", "image/avif"),
            (b"\0\0\0\x18ftypheic\0\0", "image/heic"),
            (b"\0\0\0\x18ftypmif1\0\0", "image/heif"),
        ];
        for (bytes, expected) in samples {
            assert_eq!(type_of(bytes).as_deref(), Some(expected));
        }
        for other in [&b"BM is no bitmap"[..], b"RIFF\x24\0\0\0WAVEfmt ", b"\0\0\0\x18ftypisom", b"GIF"] {
            assert_eq!(type_of(other), None, "{other:?}");
        }
    }

    #[test]
    fn image_bytes_without_image_are_refused() {
        assert_eq!(reason(ContentPart::image_bytes(b"")), format!("the value is empty; expected {KNOWN}"));
        let text = reason(ContentPart::image_bytes(b"hello, world"));
        assert!(text.starts_with("the value is not an image of a known type: it starts with 68 65 6c 6c 6f 2c 20 77;"));
        assert!(reason(ContentPart::image_bytes(b"\n<svg xmlns=")).ends_with("converted, for example to PNG"));
    }

    #[test]
    fn image_file_type_ignores_file_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picture.txt");
        let bytes: Vec<u8> = b"\x89PNG\r\n\x1a\n".iter().copied().chain((0..=255).cycle().take(5000)).collect();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(ContentPart::image_file(&path).unwrap(), ContentPart::image_bytes(&bytes).unwrap());
    }

    #[test]
    fn unusable_image_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picture.png");
        let shown = path.display().to_string();
        let text = reason(ContentPart::image_file(&path));
        assert_eq!(text, format!("there is no file \"{shown}\"; pass the path of an image file, or its bytes"));
        assert!(reason(ContentPart::image_file("no such picture.png")).contains(".png\" in "));
        let text = reason(ContentPart::image_file(folder.path()));
        assert!(text.ends_with("is a directory; pass the path of an image file"), "{text}");
        std::fs::write(&path, b"").unwrap();
        let text = reason(ContentPart::image_file(&path));
        assert_eq!(text, format!("the file \"{shown}\" is empty; expected {KNOWN}"));
        std::fs::write(&path, b"%PDF-1.7").unwrap();
        let text = reason(ContentPart::image_file(&path));
        assert!(text.starts_with(&format!("the file \"{shown}\" is not an image of a known type")), "{text}");
        let text = reason(ContentPart::image_file("https://example.org/picture.png"));
        assert_eq!(text, "\"https://example.org/picture.png\" is a URL, not a path; make an ImageURLPart of it");
    }

    #[cfg(unix)]
    #[test]
    fn device_as_image_file_is_refused() {
        let text = reason(ContentPart::image_file("/dev/null"));
        assert_eq!(text, "\"/dev/null\" is not a regular file; pass the path of an image file");
    }
}
