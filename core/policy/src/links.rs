//! Paths as systems and tools see them: links, `..`, the home directory, the files of processes, and names with a meaning.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf, Prefix, PrefixComponent};

pub(crate) use kimi_agent_protocol::place::normalized;

/// The target of a path through files of processes.
#[derive(Debug)]
pub(crate) struct OfProcess {
    /// The path for the process that is meant, as far as it is known.
    pub(crate) path: PathBuf,
    /// It leads through a link of the process that is not known, so it may be any path.
    pub(crate) is_any: bool,
}

/// Follows a path through `/proc` and `/dev/fd` as the process that works in `work_dir` does. Returns nothing if it leads elsewhere.
/// The links of these folders belong to the process that opens the path, so the system cannot be asked.
pub(crate) fn of_process(path: &Path, work_dir: &Path) -> Option<OfProcess> {
    /// No system follows more links.
    const MAX_LINKS: usize = 40;
    // Shells on Windows have these folders, too, whatever the drive is.
    let parts = path.components().rev().filter(|part| !matches!(part, Component::Prefix(_)));
    let mut rest: Vec<OsString> = parts.map(|part| part.as_os_str().to_owned()).collect();
    let (mut place, mut links) = (PathBuf::new(), 0);
    let (mut is_passed, mut is_any) = (false, false);
    while let Some(part) = rest.pop() {
        let name = part.to_str().unwrap_or_default();
        let is_process = place.starts_with("/proc");
        is_passed |= is_process;
        match name {
            "." => {}
            ".." => {
                place.pop();
            }
            "fd" | "stdin" | "stdout" | "stderr" if place == Path::new("/dev") => {
                is_passed = true;
                place = PathBuf::from("/proc/self/fd");
                if name != "fd" {
                    place.push(["stdin", "stdout", "stderr"].iter().position(|known| *known == name)?.to_string());
                }
            }
            "cwd" if is_process => place = work_dir.to_owned(),
            "root" if is_process => place = PathBuf::from("/"),
            "exe" if is_process => is_any = true,
            "thread-self" if is_process => place = PathBuf::from("/proc/self/task/self"),
            _ if is_process && ["fd", "map_files"].iter().any(|folder| place.ends_with(folder)) => {
                // The standard streams are no files of the call.
                let is_stream = matches!(name, "0" | "1" | "2") && rest.is_empty();
                is_any |= !is_stream;
                place = if is_stream { place.join(part) } else { PathBuf::from("/") };
            }
            _ if is_process => place.push(part),
            _ => {
                let next = place.join(&part);
                match next.read_link().ok().filter(|_| cfg!(unix)) {
                    Some(_) if links == MAX_LINKS => return None,
                    Some(target) => {
                        links += 1;
                        rest.extend(target.components().rev().map(|part| part.as_os_str().to_owned()));
                    }
                    None => place = next,
                }
            }
        }
    }
    (is_passed || place.starts_with("/proc")).then_some(OfProcess { path: place, is_any })
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

/// The path in an address of a file, such as `file:///etc/passwd` or `file:notes.txt`, without its escapes.
pub(crate) fn file_of_address(text: &str) -> Option<String> {
    let text = text.trim_start();
    let (scheme, rest) = text.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let path = match rest.strip_prefix("//") {
        // The machine does not matter.
        Some(rest) => &rest[rest.find('/')?..],
        None => rest,
    };
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let path = crate::host::unescaped(path).unwrap_or_else(|| path.to_owned());
    let is_drive = path.get(2..3) == Some(":") && path.starts_with('/');
    Some(path[usize::from(is_drive && cfg!(windows))..].to_owned()).filter(|path| !path.is_empty())
}

/// The paths that an address of any scheme may name, such as `workspace:///secrets/key`, without their escapes.
pub(crate) fn paths_of_address(text: &str) -> Vec<String> {
    /// Longer words before `:` are no scheme.
    const MAX_SCHEME: usize = 32;
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let Some((scheme, rest)) = text.trim_start().split_once(':') else { return Vec::new() };
    let is_drive = cfg!(windows) && scheme.len() == 1;
    if scheme.is_empty() || scheme.len() > MAX_SCHEME || is_drive || !scheme.chars().all(is_of_scheme) {
        return Vec::new();
    }
    let path = rest.split(['?', '#']).next().unwrap_or(rest);
    let path = crate::host::unescaped(path).unwrap_or_else(|| path.to_owned());
    let path = path.trim_start_matches('/');
    if path.is_empty() { Vec::new() } else { vec![path.to_owned(), format!("/{path}")] }
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

    #[cfg(unix)]
    #[test]
    fn links_of_process_lead_to_its_own_files() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/fd", &link)?;
        let link = link.display().to_string();
        for (path, leads_to, is_any) in [
            ("/proc/self/cwd/a/../b", "/work/b", false),
            ("/dev/fd/../cwd/b", "/work/b", false),
            ("/proc/thread-self/../../cwd/b", "/work/b", false),
            ("/proc/self/root/proc/7/cwd/b", "/work/b", false),
            ("/proc/self/root/etc/b", "/etc/b", false),
            ("/proc/self/fd/9/b", "/b", true),
            ("/dev/fd/9", "/", true),
            ("/dev/stdin", "/proc/self/fd/0", false),
            ("/proc/cpuinfo", "/proc/cpuinfo", false),
            (&*format!("{link}/../cwd/b"), "/work/b", false),
        ] {
            let found = of_process(Path::new(path), Path::new("/work")).map(|found| (found.path, found.is_any));
            assert_eq!(found, Some((PathBuf::from(leads_to), is_any)), "{path}");
        }
        for path in ["/work/proc/self", "/dev/null", "/work/../dev/tty"] {
            assert!(of_process(Path::new(path), Path::new("/work")).is_none(), "{path}");
        }
        Ok(())
    }

    #[test]
    fn address_of_file_names_its_path() {
        for (text, path) in [
            ("file:///etc/passwd", Some("/etc/passwd")),
            ("FILE://localhost/etc/pass%77d", Some("/etc/passwd")),
            (" file:/etc/passwd?x#L1", Some("/etc/passwd")),
            ("file:notes.txt", Some("notes.txt")),
            ("file:", None),
            ("file://host", None),
            ("https://example.com/x", None),
            ("notes.txt", None),
        ] {
            assert_eq!(file_of_address(text).as_deref(), path, "{text}");
        }
    }

    #[test]
    fn address_of_any_scheme_names_paths() {
        for text in ["x:///secrets/key", "workspace:secrets/key", "X+y.z://secrets/%6bey?a#b", "a:////secrets/key"] {
            assert_eq!(paths_of_address(text), ["secrets/key", "/secrets/key"], "{text}");
        }
        for text in ["secrets/key", "x:", ":x", "a b:c", "x:///"] {
            assert!(paths_of_address(text).is_empty(), "{text}");
        }
    }

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
