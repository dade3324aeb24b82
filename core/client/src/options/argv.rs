//! The agent's command line, and the private files that it names.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use kimi_agent_protocol::options::{Kind, OPTIONS, OptionInfo};
use serde_json::Value;

use super::executable::{Surroundings, resolve};
use super::setting::Setting;
use super::{Dialect, SessionOptions};
use crate::dialect::{AgentKind, Release};
use crate::private::PrivateDir;
use crate::{Error, Result, WireVersion};

/// How the agent is started. Without `Debug`: values of variables may be secrets.
pub(crate) struct Launch {
    /// An absolute path.
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// In addition to this program's own.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// An absolute path.
    pub(crate) current_dir: PathBuf,
    pub(crate) private: PrivateFiles,
}

/// The release from which on a session can be given a name.
const SESSION_SINCE: Release = Release::new(0, 64);
/// The release that brought `--no-thinking`; `--thinking` is older.
const NO_THINKING_SINCE: Release = Release::new(0, 67);

/// Files that only this user can read, removed on drop.
#[derive(Default)]
pub(crate) struct PrivateFiles(Option<PrivateDir>);

impl SessionOptions {
    /// Finds the program, and writes what must not be seen in its arguments to private files.
    pub(crate) fn launch(&self) -> Result<Launch> {
        self.launch_from(&|name| std::env::var_os(name))
    }

    /// The program to start, and its first arguments.
    pub(crate) fn program(&self) -> Result<(PathBuf, Vec<OsString>)> {
        resolve(self.executable.as_ref(), &Surroundings { env: &self.env, host: &|name| std::env::var_os(name) })
    }

    fn launch_from(&self, host: &dyn Fn(&str) -> Option<OsString>) -> Result<Launch> {
        let around = Surroundings { env: &self.env, host };
        let (program, mut args) = resolve(self.executable.as_ref(), &around)?;
        let current_dir = self.absolute("work_dir", self.work_dir.as_deref().unwrap_or(Path::new(".")))?;
        let mut private = PrivateFiles::default();

        args.push("--wire".into());
        flag(&mut args, "--work-dir", &current_dir);
        for option in OPTIONS.iter().filter(|option| option.name != "work_dir") {
            let Some(name) = option.flag else { continue };
            match self.setting(option.name) {
                Setting::Text(text) => flag(&mut args, name, text),
                Setting::Path(path) => flag(&mut args, name, self.absolute(option.name, path)?),
                Setting::Count(count) => flag(&mut args, name, count.to_string()),
                Setting::Boolean(true) => args.push(name.into()),
                Setting::Boolean(false) => args.push(name.replacen("--", "--no-", 1).into()),
                Setting::Json(values) => {
                    for (n, value) in values.iter().enumerate() {
                        // By this suffix the agent knows that it is JSON, not TOML.
                        let file =
                            if option.kind == Kind::Objects { format!("mcp-{n}.json") } else { "config.json".into() };
                        flag(&mut args, name, private.write(&file, value)?);
                    }
                }
                _ => {}
            }
        }
        args.extend(self.extra_args.iter().cloned());
        Ok(Launch { program, args, env: self.env.clone(), current_dir, private })
    }

    /// Whether this agent is given a name for its session, also where the program has none.
    pub(crate) fn names_sessions(&self, agent: Option<AgentKind>) -> bool {
        match (self.dialect, agent) {
            (Dialect::Auto, Some(AgentKind::KimiCli(release))) => release >= SESSION_SINCE,
            (Dialect::Auto, None) => true,
            (Dialect::Wire(version), _) => version > WireVersion::V1_0,
            _ => false,
        }
    }

    /// Refuses options that this release has no flag for.
    pub(crate) fn check_release(&self, release: Release) -> Result<()> {
        let is_newer = |option: &OptionInfo| option.since.is_some_and(|since| release < since);
        let newer = self.first_set(is_newer).and_then(|option| Some((option.name, option.since?)));
        let thinks = self.thinking == Some(false) && release < NO_THINKING_SINCE;
        match newer.or(thinks.then_some(("thinking", NO_THINKING_SINCE))) {
            Some((option, since)) => Err(Error::Unsupported(format!(
                "kimi-cli {release} does not support `{}` (it came with {since})",
                self.naming.name(option)
            ))),
            None => Ok(()),
        }
    }

    pub(crate) fn absolute(&self, option: &str, path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(|error| self.invalid(option, format!("{}: {error}", path.display())))
    }
}

/// Puts the value into the flag's own argument: one that begins with a dash stays a value.
fn flag(args: &mut Vec<OsString>, name: &str, value: impl AsRef<OsStr>) {
    let mut arg = OsString::from(name);
    arg.push("=");
    arg.push(value);
    args.push(arg);
}

impl PrivateFiles {
    fn write(&mut self, name: &str, content: &Value) -> Result<PathBuf> {
        let dir = match &mut self.0 {
            Some(dir) => dir,
            empty => empty.insert(PrivateDir::new().map_err(|error| no_file(&crate::private::temp_dir(), &error))?),
        };
        let written = dir.write(name, content.to_string().as_bytes());
        written.map_err(|error| no_file(&dir.path().join(name), &error))
    }

    /// Where they are, if there are any.
    #[cfg(test)]
    pub(crate) fn dir(&self) -> Option<&Path> {
        self.0.as_ref().map(PrivateDir::path)
    }
}

impl fmt::Debug for PrivateFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "PrivateFiles(some)" } else { "PrivateFiles(none)" })
    }
}

fn no_file(path: &Path, error: &std::io::Error) -> Error {
    Error::Spawn(format!(
        "can't start the agent: its configuration can't be written to a private file in {}: {error}",
        path.display()
    ))
}
