//! The map between the paths of the program and those of the agent.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The program sees this before a path that only the agent has, for example `place:/etc/passwd`. Such a text is never an absolute
/// path of this machine.
pub const FOREIGN: &str = "place:";
/// The agent sees this before a path that only the program has.
const OF_PROGRAM: &str = "host:";

/// A directory of this machine, and its path in the place of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// Absolute, without `.` and `..`.
    host: PathBuf,
    /// The names of the folders of the agent's path.
    inside: Vec<String>,
}

/// The directories that the program and the agent share, each with its path on both sides. The agent's paths are those of a POSIX
/// system. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMap(Arc<Vec<Mount>>);

/// A path of the agent, as a policy reads it.
#[derive(Debug, PartialEq, Eq)]
pub enum Resolved<'a> {
    /// The text names this path of the program.
    Known(Cow<'a, str>),
    /// Only the agent has the path.
    Foreign,
    /// It may be any path, also one of the program.
    Unknown,
}

impl PathMap {
    /// Makes a map of absolute paths of this machine and absolute paths of the agent.
    ///
    /// # Errors
    /// Returns why a path cannot be mapped.
    pub fn new(mounts: impl IntoIterator<Item = (PathBuf, String)>) -> Result<Self, String> {
        let mut all: Vec<Mount> = Vec::new();
        for (host, path) in mounts {
            let inside = names(&path).filter(|_| !path.contains('\0'));
            let inside = inside
                .ok_or_else(|| format!("expected an absolute path of the agent, such as \"/work\", got {path:?}"))?;
            let inside: Vec<String> = inside.into_iter().map(str::to_owned).collect();
            let host = normalized_absolute(&host).filter(|host| host.to_str().is_some());
            let host = host.ok_or_else(|| "expected an absolute path of this machine in Unicode".to_owned())?;
            if all.iter().any(|known| known.inside == inside) {
                return Err(format!("two directories have the path {path:?} in it"));
            }
            all.push(Mount { host, inside });
        }
        // The longest path of the agent counts, as for nested mounts.
        all.sort_by_key(|mount| std::cmp::Reverse(mount.inside.len()));
        Ok(Self(all.into()))
    }

    /// Returns the directories of this machine.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|mount| &*mount.host)
    }

    /// Returns the path of this machine for an absolute path of the agent. `None` if the agent alone has the path.
    pub fn to_program(&self, path: &str) -> Option<String> {
        self.host_of(&names(path)?)
    }

    fn host_of(&self, names: &[&str]) -> Option<String> {
        let mount = self.0.iter().find(|mount| starts_with(names, &mount.inside))?;
        let rest = &names[mount.inside.len()..];
        // On Windows such a name leads elsewhere.
        if cfg!(windows) && rest.iter().any(|name| name.contains(['\\', ':'])) {
            return None;
        }
        let mut path = mount.host.clone();
        path.extend(rest);
        path.into_os_string().into_string().ok()
    }

    /// Returns the agent's path for an absolute path of this machine. `None` if the path is in none of the shared directories.
    pub fn to_agent(&self, path: &Path) -> Option<String> {
        let path = normalized_absolute(path)?;
        let mut mounts: Vec<&Mount> = self.0.iter().filter(|mount| path.starts_with(&mount.host)).collect();
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.host.components().count()));
        mounts.into_iter().find_map(|mount| {
            let rest = path.strip_prefix(&mount.host).ok()?;
            let rest = rest.components().map(|name| name.as_os_str().to_str());
            let names: Vec<&str> = mount.inside.iter().map(|name| Some(&**name)).chain(rest).collect::<Option<_>>()?;
            // Another directory can be mounted over this part.
            (self.host_of(&names).as_deref() == path.to_str()).then(|| format!("/{}", names.join("/")))
        })
    }

    /// Returns a path of the agent as the program sees it. A relative path is relative to the working directory on both sides.
    pub fn shown(&self, path: &str) -> String {
        let is_plain =
            is_below(path) && !path.starts_with(['/', '\\', '~']) && !path.starts_with(FOREIGN) && !has_drive(path);
        if is_plain {
            return path.to_owned();
        }
        self.to_program(path).unwrap_or_else(|| format!("{FOREIGN}{path}"))
    }

    /// Returns a path of the program as the agent has to get it: the reverse of [`shown`](Self::shown).
    pub fn told(&self, path: &str) -> String {
        if let Some(path) = path.strip_prefix(FOREIGN) {
            return path.to_owned();
        }
        if !Path::new(path).is_absolute() {
            return path.to_owned();
        }
        self.to_agent(Path::new(path)).unwrap_or_else(|| format!("{OF_PROGRAM}{path}"))
    }

    /// Returns a file URL of the agent as the program sees it. Other texts stay.
    pub(super) fn shown_url(&self, url: &str) -> String {
        match path_of_url(url) {
            None => url.to_owned(),
            Some(None) => format!("{FOREIGN}{url}"),
            Some(Some(path)) => {
                self.to_program(&path).map_or_else(|| format!("{FOREIGN}{url}"), |path| file_url(&path))
            }
        }
    }

    /// Returns a file URL of the program as the agent has to get it. Other texts stay.
    pub(super) fn told_url(&self, url: &str) -> String {
        if let Some(url) = url.strip_prefix(FOREIGN) {
            return url.to_owned();
        }
        let Some(path) = path_of_url(url) else { return url.to_owned() };
        let path = path.map(|path| if has_drive(&path[1..]) { path[1..].to_owned() } else { path });
        let told = path.and_then(|path| self.to_agent(Path::new(&path)));
        told.map_or_else(|| format!("{OF_PROGRAM}{url}"), |path| file_url(&path))
    }

    /// Reads a word of a tool call, which may be a path or a glob of the agent. A relative path stays: it is relative to the working
    /// directory, or to a directory that was resolved before.
    pub fn resolve<'a>(&self, text: &'a str) -> Resolved<'a> {
        const WILDCARDS: [char; 7] = ['*', '?', '[', '{', '(', '$', '`'];
        let is_url = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"));
        let marked = text.strip_prefix('@').unwrap_or(text);
        if !marked.starts_with('/') {
            return match text.starts_with('~') || is_url {
                true if text.contains(WILDCARDS) || is_url => Resolved::Unknown,
                true => Resolved::Foreign,
                false => Resolved::Known(text.into()),
            };
        }
        // Links can make something else of a folder above.
        if marked.len() != text.len() || !is_free_of_parents(text) {
            return Resolved::Unknown;
        }
        match self.to_program(text) {
            Some(path) if text.ends_with('/') && !path.ends_with('/') => Resolved::Known((path + "/").into()),
            Some(path) => Resolved::Known(path.into()),
            None if text.contains(WILDCARDS) => Resolved::Unknown,
            None => Resolved::Foreign,
        }
    }
}

/// Returns the names of an absolute path of the agent, without `.` and `..`.
fn names(path: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    for name in path.strip_prefix('/')?.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    Some(names)
}

fn starts_with(names: &[&str], start: &[String]) -> bool {
    names.len() >= start.len() && names.iter().zip(start).all(|(name, expected)| name == expected)
}

fn is_free_of_parents(path: &str) -> bool {
    path.split(['/', '\\']).all(|name| name != "..")
}

/// Whether a relative path never leaves its directory.
fn is_below(path: &str) -> bool {
    let mut depth = 0_usize;
    for name in path.split(['/', '\\']) {
        match name {
            "" | "." => {}
            ".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return false,
            },
            _ => depth += 1,
        }
    }
    true
}

fn has_drive(path: &str) -> bool {
    let mut characters = path.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic()) && characters.next() == Some(':')
}

/// Removes `.` and `..` from a path of this machine, without looking at the files.
pub fn normalized(path: &Path) -> PathBuf {
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

/// Returns an absolute path without `.` and `..`.
fn normalized_absolute(path: &Path) -> Option<PathBuf> {
    path.is_absolute().then(|| normalized(path))
}

/// Returns the path of a file URL: `None` for another text, and no path if the URL has none that can be read.
fn path_of_url(url: &str) -> Option<Option<String>> {
    let is_file = url.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"));
    if !is_file {
        return None;
    }
    let rest = &url[5..];
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let is_here = host.is_empty() || host.eq_ignore_ascii_case("localhost");
            if is_here { path } else { "" }
        }
        None => rest,
    };
    Some(percent_decoded(path).filter(|path| path.starts_with('/')))
}

/// Decodes escapes such as `%20`. `None` for an invalid one, and for what is not UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// Returns the URL of an absolute path.
pub fn file_url(path: &str) -> String {
    let path = if cfg!(windows) { path.replace('\\', "/") } else { path.to_owned() };
    let mut url = String::from(if path.starts_with('/') { "file://" } else { "file:///" });
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' | b':' => {
                url.push(char::from(byte))
            }
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn map(mounts: &[(&str, &str)]) -> PathMap {
        PathMap::new(mounts.iter().map(|(host, inside)| (PathBuf::from(host), (*inside).to_owned()))).unwrap()
    }

    #[test]
    fn shared_paths_are_translated_both_ways() {
        let map = map(&[("/home/ada/app", "/work"), ("/srv/data", "/work/data"), ("/opt/tools", "/tools")]);
        for (host, inside) in [
            ("/home/ada/app", "/work"),
            ("/home/ada/app/src/a.rs", "/work/src/a.rs"),
            ("/srv/data/x", "/work/data/x"),
            ("/opt/tools/bin", "/tools/bin"),
        ] {
            assert_eq!(map.to_program(inside).as_deref(), Some(host));
            assert_eq!(map.to_agent(Path::new(host)).as_deref(), Some(inside));
            assert_eq!((map.shown(inside), map.told(host)), (host.to_owned(), inside.to_owned()));
        }
        assert_eq!(map.to_program("/work//./src/../b").as_deref(), Some("/home/ada/app/b"));
        assert_eq!(map.to_agent(Path::new("/home/ada/app/x/../y")).as_deref(), Some("/work/y"));
        // Another directory is mounted there.
        assert_eq!(map.to_agent(Path::new("/home/ada/app/data/x")), None);
    }

    #[test]
    fn foreign_paths_are_marked_and_restored() {
        let map = map(&[("/home/ada/app", "/work")]);
        for path in [
            "/etc/passwd",
            "/workers",
            "/work/../etc",
            "/",
            "../up",
            "a/../../b",
            "~/x",
            "place:/etc/x",
            "C:\\x",
            "\\\\a\\b",
        ] {
            let shown = map.shown(path);
            assert_eq!(shown, format!("place:{path}"));
            assert!(!Path::new(&shown).is_absolute());
            assert_eq!(map.told(&shown), path);
        }
        for path in ["src/a.rs", "a/../b", ".", "", "placed"] {
            assert_eq!((map.shown(path), map.told(path)), (path.to_owned(), path.to_owned()));
        }
        assert_eq!(map.told("/etc/passwd"), "host:/etc/passwd");
    }

    #[test]
    fn file_urls_are_translated() {
        let map = map(&[("/home/ada/my app", "/work")]);
        for (inside, host) in [
            ("file:///work/a%20b", "file:///home/ada/my%20app/a%20b"),
            ("file://localhost/work", "file:///home/ada/my%20app"),
            ("file:/work", "file:///home/ada/my%20app"),
            ("file:///etc/x", "place:file:///etc/x"),
            ("file:///%zz", "place:file:///%zz"),
            ("file://server/work", "place:file://server/work"),
            ("https://example.com/work", "https://example.com/work"),
        ] {
            assert_eq!(map.shown_url(inside), host);
        }
        assert_eq!(map.told_url("file:///home/ada/my%20app/x"), "file:///work/x");
        assert_eq!(map.told_url("file:///etc/passwd"), "host:file:///etc/passwd");
        assert_eq!(map.told_url("place:file:///etc/x"), "file:///etc/x");
    }

    #[test]
    fn words_of_calls_are_known_foreign_or_unknown() {
        let map = map(&[("/home/ada/app", "/work")]);
        for (text, known) in [
            ("/work/src", "/home/ada/app/src"),
            ("/work/src/", "/home/ada/app/src/"),
            ("/work/*.rs", "/home/ada/app/*.rs"),
            ("src/../x", "src/../x"),
            ("$X/y", "$X/y"),
        ] {
            assert_eq!(map.resolve(text), Resolved::Known(known.into()));
        }
        for text in ["/etc/passwd", "/home/ada/app/x", "~", "~/.ssh/id", "/workers/x"] {
            assert_eq!(map.resolve(text), Resolved::Foreign, "{text}");
        }
        for text in
            ["/wor*/x", "/work/../etc", "/work/a/../b", "/$X/y", "~$X", "file:///work/x", "@/work/x", "/{work,etc}"]
        {
            assert_eq!(map.resolve(text), Resolved::Unknown, "{text}");
        }
    }

    #[test]
    fn paths_that_cannot_be_mapped_are_refused() {
        let of = |host: &str, inside: &str| PathMap::new([(PathBuf::from(host), inside.to_owned())]);
        assert!(of("/a", "work").unwrap_err().contains("got \"work\""));
        assert!(of("a", "/work").unwrap_err().contains("of this machine"));
        let two = PathMap::new([("/a".into(), "/w".to_owned()), ("/b".into(), "/w/".to_owned())]);
        assert!(two.unwrap_err().contains("two directories"));
    }
}
