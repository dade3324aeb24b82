//! Paths as systems and tools see them: links, `..`, the home directory, the files of processes, and names with a meaning.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf, Prefix, PrefixComponent};

/// The path that `/proc/…/cwd` and `/proc/…/root` lead to, for the process that is meant.
pub(crate) fn of_process(path: &Path, work_dir: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix("/proc").ok()?;
    let parts: Vec<Component<'_>> = rest.components().collect();
    let place = parts.iter().position(|part| matches!(part.as_os_str().to_str(), Some("cwd" | "root" | "fd")))?;
    let below: PathBuf = parts[place + 1..].iter().collect();
    match parts[place].as_os_str().to_str() {
        Some("cwd") => Some(normalized(&work_dir.join(below))),
        _ => Some(normalized(&Path::new("/").join(below))),
    }
}

/// Whether the path names something of the process that opens it.
pub(crate) fn is_descriptor(path: &Path) -> bool {
    ["/dev/fd", "/dev/stdin", "/proc"].iter().any(|folder| path.starts_with(folder))
}

pub(crate) fn slashed(path: &Path) -> String {
    let text = path.to_string_lossy();
    if !cfg!(windows) {
        return text.into_owned();
    }
    let plain = text.strip_prefix(r"\\?\UNC\").map(|share| format!(r"\\{share}"));
    plain.unwrap_or_else(|| text.trim_start_matches(r"\\?\").to_owned()).replace('\\', "/")
}

/// The path below the home directory that `~` or `~/…` names.
pub(crate) fn expand_home(text: &str) -> Option<PathBuf> {
    let rest = text.strip_prefix('~')?;
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
    let home = std::env::var_os(if cfg!(windows) { "USERPROFILE" } else { "HOME" }).filter(|home| !home.is_empty())?;
    Some(Path::new(&home).join(rest))
}

/// Whether the path leads to a share or a device, unless the working directory is there, too.
pub(crate) fn is_remote(path: &Path, work_dir: &Path) -> bool {
    prefix(path).is_some_and(|own| {
        !matches!(own.kind(), Prefix::Disk(_) | Prefix::VerbatimDisk(_)) && prefix(work_dir) != Some(own)
    })
}

fn prefix(path: &Path) -> Option<PrefixComponent<'_>> {
    match path.components().next() {
        Some(Component::Prefix(prefix)) => Some(prefix),
        _ => None,
    }
}

/// Removes `.` and `..` without looking at the files.
pub(crate) fn normalized(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Follows the links of the part that exists. Returns nothing if a link leads nowhere, or if the path cannot be read.
pub(crate) fn follow(path: &Path) -> Option<PathBuf> {
    let is_missing = |error: std::io::Error| (error.kind() == std::io::ErrorKind::NotFound).then_some(());
    if let Some(found) =
        path.canonicalize().map_or_else(|error| is_missing(error).map(|()| None), |found| Some(Some(found)))?
    {
        return Some(normalized(&found));
    }
    let parts: Vec<Component<'_>> = path.components().collect();
    let beginning = |length: usize| parts[..length].iter().collect::<PathBuf>();
    // Between these lengths, the first part is missing: a search by halves looks at few of them.
    let (mut known, mut missing) = (1, parts.len());
    let mut found = beginning(known).canonicalize().ok()?;
    while missing - known > 1 {
        let middle = known.midpoint(missing);
        match beginning(middle).canonicalize() {
            Ok(place) => (known, found) = (middle, place),
            Err(error) => {
                is_missing(error)?;
                missing = middle;
            }
        }
    }
    if beginning(missing).symlink_metadata().is_ok() {
        return None;
    }
    Some(normalized(&parts[known..].iter().fold(found, |path, part| path.join(part))))
}

/// Whether a name in a folder is a link, or what it is cannot be known.
pub(crate) fn is_link(name: &str, folder: &Path) -> bool {
    /// No system has longer names.
    const MAX_NAME: usize = 255;
    if name.chars().count() > MAX_NAME || name.contains('\0') {
        return false;
    }
    match folder.join(name).symlink_metadata() {
        Ok(found) => found.is_symlink(),
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidFilename),
    }
}

/// Whether tools could understand the text as another path: variables, globs, addresses, other systems' separators.
pub(crate) fn is_strange(text: &str) -> bool {
    text.trim() != text
        || (text.starts_with('~') && expand_home(text).is_none())
        || text.contains(['$', '`', '*', '?', '%', '"', '\''])
        || (cfg!(unix) && text.contains([':', '\\']))
        || (cfg!(windows) && is_strange_on_windows(text))
        || text.chars().any(is_invisible)
}

/// Whether Windows opens another file than the text names: streams of a file, paths relative to a drive, devices, and
/// names that end with dots or spaces.
fn is_strange_on_windows(text: &str) -> bool {
    let (drive, rest) = match text.split_once(':') {
        Some((drive, rest)) if drive.len() == 1 && drive.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            (drive, rest)
        }
        _ => ("", text),
    };
    rest.contains([':', '<', '>', '|'])
        || (!drive.is_empty() && !rest.starts_with(['/', '\\']))
        || rest.split(['/', '\\']).any(|name| {
            let is_dots = matches!(name, "." | "..");
            (!is_dots && name.ends_with(['.', ' '])) || is_device(name)
        })
}

/// Whether Windows takes a name for a device, in any folder and with any extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let port = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    matches!(&*stem, "CON" | "PRN" | "AUX" | "NUL")
        || port.is_some_and(|port| {
            matches!(port, "¹" | "²" | "³") || (port.len() == 1 && port.as_bytes()[0].is_ascii_digit())
        })
}

fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_special_on_windows_is_strange() {
        for text in [
            "C:notes.txt",
            "c:",
            "notes.txt:stream",
            r"C:\work\notes.txt:stream",
            "notes.txt::$DATA",
            ".git::$INDEX_ALLOCATION/config",
            "notes.txt.",
            "notes.txt ",
            "src./a.py",
            r"src \a.py",
            "...",
            "NUL",
            "nul.txt",
            "src/Com1",
            r"src\lpt9.log",
            "con .txt",
            "COM²",
            r"\\.\C:\work\notes.txt",
            r"\\?\C:\work\notes.txt",
            "a|b",
            "ab:/notes.txt",
            "ü:/notes.txt",
        ] {
            assert!(is_strange_on_windows(text) || is_strange(text), "{text}");
        }
        for text in [
            r"C:\work\notes.txt",
            "c:/work/notes.txt",
            r"src\a.py",
            "../a",
            "./a/.",
            ".env",
            "a b.txt",
            "console.rs",
            "com10",
            "nullable.rs",
            r"\\server\share\a",
            "PROGRA~1",
            "",
        ] {
            assert!(!is_strange_on_windows(text), "{text}");
        }
    }
}
