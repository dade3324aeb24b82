//! File URLs, which programs may pass instead of paths.

use std::path::PathBuf;

use kimi_agent_protocol::place::percent_decoded;

/// Returns the path of a text, which is a path or a file URL such as `file:///srv/project`. The error says why a file URL has no
/// path here.
pub(super) fn path_of(text: String) -> Result<PathBuf, String> {
    let is_url = text.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("file://"));
    if !is_url {
        return Ok(text.into());
    }
    let rest = &text[7..];
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) || path.is_empty() {
        return Err(format!("expected a file URL of this machine, such as \"file:///srv/project\", got {text:?}"));
    }
    let path = percent_decoded(path).ok_or_else(|| format!("the file URL {text:?} has an invalid escape"))?;
    let is_drive = cfg!(windows) && path.as_bytes().get(2) == Some(&b':');
    Ok(if is_drive { path[1..].into() } else { path.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Result<String, String> {
        path_of(text.to_owned()).map(|path| path.to_str().unwrap().to_owned())
    }

    #[test]
    fn file_urls_become_paths() {
        for (url, expected) in [
            ("file:///srv/a%20b/%C3%A4", "/srv/a b/ä"),
            ("FILE://localhost/srv", "/srv"),
            ("/srv/file:///x", "/srv/file:///x"),
            ("file:x", "file:x"),
            ("a%20b", "a%20b"),
        ] {
            assert_eq!(path(url).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn file_url_without_path_here_is_refused() {
        for url in ["file://", "file://server/share", "file:///%zz", "file:///%ff", "file:///%2"] {
            assert!(path(url).is_err(), "{url}");
        }
    }
}
