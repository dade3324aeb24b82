//! Files as content parts. The bindings use this, too.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result, invalid_option};
use crate::image::media_type;
use crate::messages::{ContentPart, ResourcePart};
use crate::place::file_url;

/// The name in errors: the function that programs call in every language.
const NAME: &str = "file";

/// The limit of a file's text in a part, in bytes. The part of a larger file is a link.
const MAX_TEXT: u64 = 1 << 20;

impl ContentPart {
    /// Makes a part from a file, for a prompt. Agents get it in the form that they take: its text, or a link to it.
    ///
    /// The file is read at once. The part has the text of a file of UTF-8 with at most 1 MiB. The part of another file is a link.
    /// A relative path is relative to the current directory of the program.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there is no such file, if it can't be read, or is not a regular file.
    ///
    /// ```no_run
    /// # use kimi_agent_protocol as kimi_agent;
    /// # struct Session;
    /// # impl Session { fn prompt(&self, parts: Vec<kimi_agent::wire::ContentPart>) -> kimi_agent::Result<()> { Ok(drop(parts)) } }
    /// # fn example(session: &Session) -> kimi_agent::Result<()> {
    /// use kimi_agent::wire::ContentPart;
    /// let turn = session.prompt(vec![ContentPart::text("Review this file."), ContentPart::file("src/main.rs")?])?;
    /// # drop(turn);
    /// # Ok(())
    /// # }
    /// ```
    pub fn file(path: impl AsRef<Path>) -> Result<Self> {
        let given = path.as_ref();
        let failed = |error: std::io::Error| invalid(cannot_read(given, &error));
        let path = absolute(given).map_err(failed)?;
        // Opening a named pipe would wait for a writer.
        let metadata = std::fs::metadata(&path).map_err(failed)?;
        if !metadata.is_file() {
            let kind = if metadata.is_dir() { "a directory" } else { "not a regular file" };
            return Err(invalid(format!("\"{}\" is {kind}; pass the path of a file", given.display())));
        }
        let (Some(text), Some(name)) = (path.to_str(), path.file_name().and_then(|name| name.to_str())) else {
            return Err(invalid(format!("the path \"{}\" is not UTF-8; rename the file", given.display())));
        };
        let mut bytes = Vec::new();
        File::open(&path).and_then(|file| file.take(MAX_TEXT + 1).read_to_end(&mut bytes)).map_err(failed)?;
        let mut part = ResourcePart::new(file_url(text));
        part.name = Some(name.to_owned());
        part.size = i64::try_from(metadata.len()).ok();
        part.mime_type =
            if bytes.starts_with(b"%PDF-") { Some("application/pdf") } else { media_type(&bytes) }.map(str::to_owned);
        let is_text = bytes.len() as u64 <= MAX_TEXT && !bytes.contains(&0);
        part.text = Some(bytes).filter(|_| is_text).and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(part.into())
    }
}

/// Returns the absolute path. Its `..` are resolved, because readers of URLs resolve them without regard to links.
fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    if !path.components().any(|each| each == Component::ParentDir) {
        return Ok(path);
    }
    std::fs::canonicalize(path)
}

fn invalid(reason: String) -> Error {
    invalid_option(NAME, reason)
}

fn cannot_read(path: &Path, error: &std::io::Error) -> String {
    let text = path.to_string_lossy();
    if text.contains("://") {
        let url: String = text.chars().take(80).collect();
        return format!("{url:?} is a URL, not a path; make the part with `resource(uri)`");
    }
    if error.kind() != ErrorKind::NotFound {
        return format!("the file \"{text}\" cannot be read: {error}");
    }
    let found = match std::env::current_dir() {
        Ok(current) if path.is_relative() => format!(" in {}", current.display()),
        _ => String::new(),
    };
    format!("there is no file \"{text}\"{found}; pass the path of a file")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(path: impl AsRef<Path>) -> ResourcePart {
        match ContentPart::file(path) {
            Ok(ContentPart::Resource(part)) => part,
            other => panic!("{other:?}"),
        }
    }

    fn reason(path: impl AsRef<Path>) -> String {
        match ContentPart::file(path) {
            Err(Error::InvalidOption { option, reason }) => {
                assert_eq!(option, "file");
                reason
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_of_small_file_is_in_its_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.md");
        std::fs::write(&path, "# Ü\n").unwrap();
        let made = part(&path);
        assert!(made.uri.starts_with("file:///") && made.uri.ends_with("/a%20b.md"), "{}", made.uri);
        assert_eq!((made.name.as_deref(), made.text.as_deref(), made.size), (Some("a b.md"), Some("# Ü\n"), Some(5)));
        assert_eq!((made.problem(), &made.data, &made.mime_type), (None, &None, &None));
        std::fs::create_dir(folder.path().join("x")).unwrap();
        assert_eq!(part(folder.path().join("x/../a b.md")).text, made.text);
        std::fs::write(&path, "").unwrap();
        assert_eq!(part(&path).text.as_deref(), Some(""));
    }

    #[test]
    fn large_or_binary_file_is_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let limit = usize::try_from(MAX_TEXT).unwrap();
        for (bytes, has_text, media_type) in [
            (vec![b'x'; limit], true, None),
            (vec![b'x'; limit + 1], false, None),
            (b"a\0b".to_vec(), false, None),
            (b"\xff\xfe".to_vec(), false, None),
            (b"\x89PNG\r\n\x1a\n\0".to_vec(), false, Some("image/png")),
            (b"%PDF-1.7 \xff".to_vec(), false, Some("application/pdf")),
        ] {
            std::fs::write(&path, &bytes).unwrap();
            let made = part(&path);
            assert_eq!((made.text.is_some(), made.mime_type.as_deref()), (has_text, media_type), "{:?}", &bytes[..2]);
            assert_eq!((made.data, made.size), (None, i64::try_from(bytes.len()).ok()));
        }
    }

    #[test]
    fn unusable_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.md");
        assert_eq!(reason(&path), format!("there is no file \"{}\"; pass the path of a file", path.display()));
        assert!(reason("no such file.md").contains(".md\" in "));
        assert!(reason("").starts_with("the file \"\" cannot be read"));
        let text = reason(folder.path());
        assert!(text.ends_with("is a directory; pass the path of a file"), "{text}");
        let text = reason("https://example.org/a.md");
        assert_eq!(text, "\"https://example.org/a.md\" is a URL, not a path; make the part with `resource(uri)`");
    }

    #[cfg(unix)]
    #[test]
    fn device_and_name_without_utf_8_are_refused() {
        use std::os::unix::ffi::OsStrExt;
        assert_eq!(reason("/dev/null"), "\"/dev/null\" is not a regular file; pass the path of a file");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(std::ffi::OsStr::from_bytes(b"a\xff"));
        if std::fs::write(&path, "x").is_ok() {
            assert!(reason(&path).ends_with("is not UTF-8; rename the file"));
        }
    }
}
