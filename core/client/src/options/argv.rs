//! The agent's command line, and the private files that it names.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use kimi_agent_protocol::options::{Kind, OPTIONS, OptionInfo};

use super::executable::{Surroundings, resolve};
use super::setting::Setting;
use super::{Dialect, SessionOptions};
use crate::dialect::{AgentKind, NeedsAdapter, Release};
use crate::transport::launch::{Launch, PrivateFiles};
use crate::{Error, Result, WireVersion};

/// The first release in which a session can be given an id.
const SESSION_SINCE: Release = Release::new(0, 64);
/// The release that added `--no-thinking`. `--thinking` is older.
const NO_THINKING_SINCE: Release = Release::new(0, 67);

/// Options that Wire does not have, and their alternatives.
const ONLY_OVER_ACP: [(&str, &str); 4] = [
    ("system_prompt", "set `agent_file`"),
    ("additional_directories", "leave it out"),
    ("agent_meta", "leave it out"),
    ("auth", "log in with `kimi login`"),
];

impl SessionOptions {
    /// Finds the program, and writes what must not be visible in its arguments to private files.
    pub(crate) fn launch(&self) -> Result<Launch> {
        self.launch_from(&|name| std::env::var_os(name))
    }

    /// Returns the program to start, and its first arguments.
    pub(crate) fn program(&self) -> Result<(PathBuf, Vec<OsString>)> {
        let alone = self.executable.as_ref().filter(|executable| executable.args().is_empty());
        let needs_adapter = alone.and_then(|executable| NeedsAdapter::of_program(Path::new(executable.program()?)));
        if let Some(program) = needs_adapter.filter(|_| matches!(self.dialect, Dialect::Auto | Dialect::Acp)) {
            return Err(self.invalid("executable", program.to_string()));
        }
        let host = |name: &str| std::env::var_os(name);
        resolve(self.executable.as_ref(), &self.surroundings(&host))
    }

    fn surroundings<'a>(&'a self, host: &'a dyn Fn(&str) -> Option<OsString>) -> Surroundings<'a> {
        Surroundings { env: &self.env, host, dialect: self.dialect, paths: self.paths.as_ref() }
    }

    fn launch_from(&self, host: &dyn Fn(&str) -> Option<OsString>) -> Result<Launch> {
        let remedy = |option: &OptionInfo| ONLY_OVER_ACP.iter().find(|(name, _)| *name == option.name);
        if let Some(option) = self.first_set(|option| remedy(option).is_some()) {
            let remedy = remedy(option).map_or_else(String::new, |(_, remedy)| self.naming.spell(remedy));
            return Err(Error::Unsupported(format!(
                "kimi-cli does not support `{}`, which only agents of ACP have; {remedy}, or use another agent",
                self.naming.name(option.name)
            )));
        }
        let (program, mut args) = resolve(self.executable.as_ref(), &self.surroundings(host))?;
        let current_dir = self.absolute("work_dir", self.work_dir.as_deref().unwrap_or(Path::new(".")))?;
        let mut private = PrivateFiles::default();

        args.push("--wire".into());
        flag(&mut args, "--work-dir", self.inside("work_dir", &current_dir)?);
        for option in OPTIONS.iter().filter(|option| option.name != "work_dir") {
            let Some(name) = option.flag else { continue };
            match self.setting(option.name) {
                Setting::Text(text) => flag(&mut args, name, text),
                Setting::Path(path) => flag(&mut args, name, self.inside(option.name, path)?),
                Setting::Count(count) => flag(&mut args, name, count.to_string()),
                Setting::Boolean(true) => args.push(name.into()),
                Setting::Boolean(false) => args.push(name.replacen("--", "--no-", 1).into()),
                Setting::Json(values) => {
                    for (n, value) in values.iter().enumerate() {
                        // The suffix says that the content is JSON, not TOML.
                        let file =
                            if option.kind == Kind::Objects { format!("mcp-{n}.json") } else { "config.json".into() };
                        let file = private.write(&file, value)?;
                        flag(&mut args, name, self.inside(option.name, &file)?);
                    }
                }
                _ => {}
            }
        }
        args.extend(self.extra_args.iter().cloned());
        Ok(Launch {
            program,
            args,
            env: self.env.clone(),
            inherited: self.inherited.clone(),
            current_dir,
            private,
            server: None,
            is_gateway: false,
            placed: Default::default(),
        })
    }

    /// Returns whether the agent gets the id of its session, even if the program has not set one.
    pub(crate) fn names_sessions(&self, agent: Option<AgentKind>) -> bool {
        match (self.dialect, agent) {
            (Dialect::Auto, Some(AgentKind::KimiCli(release))) => release >= SESSION_SINCE,
            (Dialect::Auto, None) => true,
            (Dialect::Wire(version), _) => version > WireVersion::V1_0,
            _ => false,
        }
    }

    /// Refuses options for which this release has no flag.
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

/// Adds the value to the flag's own argument, so that a value with a leading dash stays a value.
fn flag(args: &mut Vec<OsString>, name: &str, value: impl AsRef<OsStr>) {
    let mut arg = OsString::from(name);
    arg.push("=");
    arg.push(value);
    args.push(arg);
}
