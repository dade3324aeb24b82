//! The agent's program, and where it is.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::invalid_option;
use crate::{Error, Result};

const VARIABLE: &str = "KIMI_AGENT_EXECUTABLE";
const DEFAULT: &str = "kimi";

/// The agent's program, with its first arguments if it has any: what the `executable` option takes. A name without a
/// directory is looked for on PATH.
///
/// ```
/// use kimi_agent::Executable;
/// let plain = Executable::from("/opt/kimi/bin/kimi");
/// let module = Executable::from(["python3", "-m", "kimi_cli"]);
/// assert_eq!(plain.program(), Some("/opt/kimi/bin/kimi".as_ref()));
/// assert_eq!(module.args(), ["-m", "kimi_cli"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable(Vec<OsString>);

impl Executable {
    /// The program; none in an empty list, which is no valid option.
    pub fn program(&self) -> Option<&OsStr> {
        self.0.first().map(OsString::as_os_str)
    }

    /// The first arguments.
    pub fn args(&self) -> &[OsString] {
        self.0.get(1..).unwrap_or_default()
    }
}

macro_rules! from_one {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Executable {
            fn from(program: $ty) -> Self {
                Self(vec![program.into()])
            }
        }
    )*};
}

from_one!(&str, String, &String, &OsStr, OsString, &Path, PathBuf, &PathBuf);

impl From<&Executable> for Executable {
    fn from(executable: &Executable) -> Self {
        executable.clone()
    }
}

impl<W: Into<OsString>> From<Vec<W>> for Executable {
    fn from(words: Vec<W>) -> Self {
        Self(words.into_iter().map(Into::into).collect())
    }
}

impl<W: Into<OsString>, const N: usize> From<[W; N]> for Executable {
    fn from(words: [W; N]) -> Self {
        Self(words.into_iter().map(Into::into).collect())
    }
}

/// What the look-up depends on beside the option.
pub(super) struct Surroundings<'a> {
    /// The `env` option.
    pub(super) env: &'a [(OsString, OsString)],
    /// This program's environment.
    pub(super) host: &'a dyn Fn(&str) -> Option<OsString>,
}

/// Finds the program: its absolute path, and its first arguments.
pub(super) fn resolve(option: Option<&Executable>, around: &Surroundings<'_>) -> Result<(PathBuf, Vec<OsString>)> {
    let (program, args, source) = match option {
        Some(executable) => match executable.program() {
            Some(program) => (program.to_owned(), executable.args().to_vec(), "the `executable` option"),
            None => {
                return Err(invalid_option(
                    "executable",
                    "the list is empty; expected the program, and its first arguments",
                ));
            }
        },
        None => match (around.host)(VARIABLE).filter(|value| !value.is_empty()) {
            Some(value) => {
                let (program, args) = from_variable(value)?;
                (program, args, "$KIMI_AGENT_EXECUTABLE")
            }
            None => (DEFAULT.into(), Vec::new(), ""),
        },
    };
    let shown = Path::new(&program).display();
    // Where a search by the default name fails, people want to know the ways out.
    let (from, hint) = match source {
        "" => (
            String::new(),
            "; install Kimi Code or kimi-cli (a release up to 1.51), or name the program in the `executable` option or in \
             $KIMI_AGENT_EXECUTABLE",
        ),
        source => (format!(" (from {source})"), ""),
    };
    if has_directory(&program) {
        let path = std::path::absolute(&program)
            .map_err(|error| Error::Spawn(format!("can't start the agent: {shown}{from}: {error}")))?;
        return match look_at(&path) {
            Found::Program(path) => Ok((path, args)),
            Found::Missing => {
                let hint = one_text(&program, option.is_some());
                Err(Error::Spawn(format!("can't start the agent: {}{from} does not exist{hint}", path.display())))
            }
            Found::Refused(why) => Err(Error::Spawn(format!("can't start the agent: {}{from} {why}", path.display()))),
        };
    }
    let path = search_path(around);
    let mut refused = Vec::new();
    let mut places = Vec::new();
    for place in path.iter().flat_map(std::env::split_paths) {
        // An empty entry means the current directory, which is no place to take programs from.
        if place.as_os_str().is_empty() {
            continue;
        }
        let Ok(candidate) = std::path::absolute(place.join(&program)) else { continue };
        match look_at(&candidate) {
            Found::Program(path) => return Ok((path, args)),
            Found::Missing => {}
            Found::Refused(why) => refused.push(format!("{} {why}", candidate.display())),
        }
        places.push(place.display().to_string());
    }
    let whose = match around.env.iter().any(|(name, _)| is_path(name)) {
        true => "the PATH of the `env` option",
        false => "PATH",
    };
    let places = match (refused.is_empty(), places.is_empty()) {
        (false, _) => format!("on {whose} there is only what can't be run: {}", refused.join(", ")),
        (true, true) => format!("{whose} is empty"),
        (true, false) => format!("not found on {whose}: {}", places.join(", ")),
    };
    let hint = match one_text(&program, option.is_some()) {
        words if words.is_empty() => hint.to_owned(),
        words => words,
    };
    Err(Error::Spawn(format!("can't start the agent: `{shown}`{from}: {places}{hint}")))
}

/// The value of the variable: a program, or a JSON list of a program and its first arguments.
fn from_variable(value: OsString) -> Result<(OsString, Vec<OsString>)> {
    let Some(list) = value.to_str().filter(|text| text.trim_start().starts_with('[')) else {
        return Ok((value, Vec::new()));
    };
    let words: Option<Vec<String>> = serde_json::from_str(list).ok();
    match words.as_deref() {
        Some([program, args @ ..]) if !program.is_empty() => {
            Ok((program.into(), args.iter().map(Into::into).collect()))
        }
        _ => Err(Error::Spawn(format!(
            "can't start the agent: ${VARIABLE} begins with `[` and is not a JSON list of a program and its arguments, \
             such as [\"python3\", \"-m\", \"kimi_cli\"]"
        ))),
    }
}

/// What to do where a program does not exist whose name is a whole command line.
fn one_text(program: &OsStr, is_option: bool) -> String {
    let words: Vec<&str> = program.to_str().unwrap_or_default().split_whitespace().collect();
    if words.len() < 2 {
        return String::new();
    }
    let list = serde_json::to_string(&words).unwrap_or_default().replace("\",\"", "\", \"");
    let place = if is_option { "as `executable`" } else { "in $KIMI_AGENT_EXECUTABLE" };
    format!("; one text names one program, without arguments: pass a list {place}, {list}")
}

fn has_directory(program: &OsStr) -> bool {
    Path::new(program).components().count() > 1
        || program.to_string_lossy().contains(std::path::MAIN_SEPARATOR)
        || Path::new(program).is_absolute()
}

fn is_path(name: &OsStr) -> bool {
    if cfg!(windows) { name.eq_ignore_ascii_case("PATH") } else { name == "PATH" }
}

fn search_path(around: &Surroundings<'_>) -> Option<OsString> {
    let option = around.env.iter().rev().find(|(name, _)| is_path(name)).map(|(_, value)| value.clone());
    option.or_else(|| (around.host)("PATH"))
}

enum Found {
    Program(PathBuf),
    Missing,
    Refused(&'static str),
}

#[cfg(unix)]
fn look_at(path: &Path) -> Found {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Found::Refused("is a directory"),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Found::Refused("is in a directory that may not be entered");
        }
        Err(_) => return Found::Missing,
    }
    match rustix::fs::access(path, rustix::fs::Access::EXEC_OK) {
        Ok(()) => Found::Program(path.to_owned()),
        Err(_) => Found::Refused("is not executable (its file mode does not allow it)"),
    }
}

#[cfg(windows)]
fn look_at(path: &Path) -> Found {
    // Programs are named with or without their suffix; `.cmd` is what npm and pipx may leave.
    let suffixes = ["exe", "cmd", "bat", "com"];
    if path.is_dir() {
        return Found::Refused("is a directory");
    }
    if path.extension().is_some() && path.is_file() {
        return Found::Program(path.to_owned());
    }
    for suffix in suffixes {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(suffix);
        let candidate = PathBuf::from(name);
        if candidate.is_file() {
            return Found::Program(candidate);
        }
    }
    if path.is_file() { Found::Refused("is no program") } else { Found::Missing }
}
