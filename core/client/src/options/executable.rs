//! The agent's program, and the search for it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kimi_agent_protocol::place::PathMap;

use super::Dialect;
use super::kimi_code::is_kimi;
use crate::dialect::{INSTALL_KIMI_CLI, INSTALL_KIMI_CODE, KnownAgent};
use crate::error::invalid_option;
use crate::private::PrivateDir;
use crate::{Error, Result};

const VARIABLE: &str = "KIMI_AGENT_EXECUTABLE";
const DEFAULT: &str = "kimi";

/// The agent's program, with its first arguments if it has any: the value of the option `executable`. A name without a
/// directory is searched on PATH.
///
/// ```
/// use kimi_agent::Executable;
/// let plain = Executable::from("/opt/kimi/bin/kimi");
/// let module = Executable::from(["python3", "-m", "kimi_cli"]);
/// assert_eq!(plain.program(), Some("/opt/kimi/bin/kimi".as_ref()));
/// assert_eq!(module.args(), ["-m", "kimi_cli"]);
/// ```
#[derive(Clone, Debug)]
pub struct Executable {
    words: Vec<OsString>,
    /// The folder of a file that an argument names, such as the script of a scripted agent. It is deleted with its last owner.
    _file: Option<Arc<PrivateDir>>,
    /// Why the agent cannot run, for example because its script is wrong.
    problem: Option<Arc<str>>,
}

impl PartialEq for Executable {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for Executable {}

impl Executable {
    /// Returns the program. `None` for an empty list, which is not a valid option.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Executable;
    /// assert_eq!(Executable::from(["kimi", "--verbose"]).program(), Some("kimi".as_ref()));
    /// ```
    pub fn program(&self) -> Option<&OsStr> {
        self.words.first().map(OsString::as_os_str)
    }

    /// Returns the first arguments.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::Executable;
    /// assert_eq!(Executable::from(["kimi", "--verbose"]).args(), ["--verbose"]);
    /// ```
    pub fn args(&self) -> &[OsString] {
        self.words.get(1..).unwrap_or_default()
    }

    fn of(words: Vec<OsString>) -> Self {
        Self { words, _file: None, problem: None }
    }

    /// Makes the executable of a scripted agent. It keeps the folder of the script.
    #[cfg(feature = "testing")]
    pub(crate) fn scripted(words: Vec<OsString>, file: Option<Arc<PrivateDir>>, problem: Option<Arc<str>>) -> Self {
        Self { words, _file: file, problem }
    }

    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

macro_rules! from_one {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Executable {
            fn from(program: $ty) -> Self {
                Self::of(vec![program.into()])
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
        Self::of(words.into_iter().map(Into::into).collect())
    }
}

impl<W: Into<OsString>, const N: usize> From<[W; N]> for Executable {
    fn from(words: [W; N]) -> Self {
        Self::of(words.into_iter().map(Into::into).collect())
    }
}

/// The environment of the search.
pub(super) struct Surroundings<'a> {
    /// The `env` option.
    pub(super) env: &'a [(OsString, OsString)],
    /// This program's environment.
    pub(super) host: &'a dyn Fn(&str) -> Option<OsString>,
    /// The `dialect` option, for the advice on what to install.
    pub(super) dialect: Dialect,
    /// The paths of an agent that has others than this program.
    pub(super) paths: Option<&'a PathMap>,
}

/// Finds the program. Returns its absolute path, and its first arguments.
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
    if let Some(paths) = around.paths {
        // Only the place knows its programs.
        let inside = paths.to_agent(Path::new(&program)).map(PathBuf::from);
        return Ok((inside.unwrap_or_else(|| program.into()), args));
    }
    let shown = Path::new(&program).display();
    let from = if source.is_empty() { String::new() } else { format!(" (from {source})") };
    let advice = || match one_text(&program, option.is_some()) {
        words if words.is_empty() => install(Path::new(&program), around.dialect, source.is_empty()),
        words => words,
    };
    if has_directory(&program) {
        let path = std::path::absolute(&program)
            .map_err(|error| Error::Spawn(format!("can't start the agent: {shown}{from}: {error}")))?;
        return match look_at(&path) {
            Found::Program(path) => Ok((path, args)),
            Found::Missing => {
                let advice = advice();
                Err(Error::Spawn(format!("can't start the agent: {}{from} does not exist{advice}", path.display())))
            }
            Found::Refused(why) => Err(Error::Spawn(format!("can't start the agent: {}{from} {why}", path.display()))),
        };
    }
    let path = search_path(around);
    let mut refused = Vec::new();
    let mut places = Vec::new();
    for place in path.iter().flat_map(std::env::split_paths) {
        // An empty entry means the current directory, from which no program must be started.
        if place.as_os_str().is_empty() {
            continue;
        }
        let shown = place.display().to_string();
        // A PATH often names a directory twice.
        if places.contains(&shown) {
            continue;
        }
        let Ok(candidate) = std::path::absolute(place.join(&program)) else { continue };
        match look_at(&candidate) {
            Found::Program(path) => return Ok((path, args)),
            Found::Missing => {}
            Found::Refused(why) => refused.push(format!("{} {why}", candidate.display())),
        }
        places.push(shown);
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
    Err(Error::Spawn(format!("can't start the agent: `{shown}`{from}: {places}{}", advice())))
}

/// Finds the program of a command that an agent runs in `folder`. Parts of PATH that are not absolute are skipped. Returns the
/// reason if there is none.
pub(crate) fn find_command(
    program: &OsStr,
    folder: &Path,
    env: &[(OsString, OsString)],
) -> std::result::Result<PathBuf, &'static str> {
    let path = env.iter().rev().find(|(name, _)| is_path(name)).map(|(_, value)| value.clone());
    let path = path.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let places: Vec<PathBuf> = match has_directory(program) {
        true => vec![folder.to_owned()],
        false => std::env::split_paths(&path).filter(|place| place.is_absolute()).collect(),
    };
    let mut reason = "not found";
    for place in places {
        match look_at(&place.join(program)) {
            Found::Program(found) => return Ok(found),
            Found::Refused(why) => reason = why,
            Found::Missing => {}
        }
    }
    Err(reason)
}

/// Returns the advice on how to install a missing program. Empty for an unknown program.
fn install(program: &Path, dialect: Dialect, is_default: bool) -> String {
    if let Some(agent) = KnownAgent::of_program(program) {
        return format!("; to install {agent}, {}", agent.install);
    }
    if !is_kimi(program) {
        return String::new();
    }
    let (kimi_code, kimi_cli) = (INSTALL_KIMI_CODE, INSTALL_KIMI_CLI);
    let agents = match dialect {
        Dialect::Acp | Dialect::KimiWeb => format!("; install Kimi Code ({kimi_code})"),
        Dialect::Wire(_) => format!("; install kimi-cli, a release up to 1.51 ({kimi_cli})"),
        Dialect::Legacy => "; install kimi-cli, a release up to 0.58 (run `pip install 'kimi-cli<0.59'`)".to_owned(),
        Dialect::Auto => format!("; install Kimi Code ({kimi_code}) or kimi-cli, a release up to 1.51 ({kimi_cli})"),
    };
    let named = ", or name the program in the `executable` option or in $KIMI_AGENT_EXECUTABLE";
    agents + if is_default { named } else { "" }
}

/// Reads the value of the variable: a program, or a JSON list of a program and its first arguments.
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

/// Returns the hint for a program whose name is a complete command line.
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
    // Windows starts these directly. For other extensions in `PATHEXT` a shell looks in the registry for a program.
    const PROGRAMS: [&str; 4] = ["com", "exe", "bat", "cmd"];

    let is_program = |path: &PathBuf| {
        path.extension().is_some_and(|extension| PROGRAMS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
    };
    let with_extension = |extension: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(extension);
        name
    };
    // The order of `PATHEXT` decides first. That variable may be missing.
    let names = std::iter::once(path.as_os_str().to_owned()).chain(PROGRAMS.map(with_extension));
    let files = |name: OsString| which::which_in_all(name, None::<&OsStr>, "").into_iter().flatten();
    match names.flat_map(files).find(is_program) {
        Some(program) => Found::Program(program),
        None if path.is_dir() => Found::Refused("is a directory"),
        None if path.is_file() => Found::Refused(
            "is not a program that Windows can start (.com, .exe, .bat, .cmd); for a script, pass a list of its interpreter \
             and its path",
        ),
        None => Found::Missing,
    }
}
