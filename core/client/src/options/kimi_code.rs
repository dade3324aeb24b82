//! The options for Kimi Code: limits as environment variables, and the parameters of its own server.

use std::ffi::OsString;
use std::path::Path;

use super::SessionOptions;
use crate::dialect::KimiWebParams;
use crate::transport::launch::{Launch, PrivateFiles, Server};
use crate::{Error, Result};

/// Options that become environment variables of Kimi Code.
const LIMITS: [(&str, &str); 2] = [
    ("max_steps_per_turn", "KIMI_LOOP_MAX_STEPS_PER_TURN"),
    // Kimi Code counts the first request, too.
    ("max_retries_per_step", "KIMI_LOOP_MAX_ATTEMPTS_PER_STEP"),
];
/// The variable with the secret for Kimi Code's server.
const PASSWORD: &str = "KIMI_CODE_PASSWORD";
/// Options that Kimi Code's server does not accept, and their alternatives.
const NOT_OVER_WEB: [(&str, &str); 15] = [
    ("config_file", "set `KIMI_CODE_HOME` in `env` to a directory with that file as `config.toml`"),
    ("config", "write it to `config.toml` in a directory, and set `KIMI_CODE_HOME` in `env` to that"),
    ("mcp_configs", "use `dialect` \"acp\", over which each session has its own"),
    ("place", "use `dialect` \"acp\""),
    ("agent_file", "put the file into the directory `agents` in `$KIMI_CODE_HOME`"),
    ("skills_dir", "put the skills into the directory `skills` in `$KIMI_CODE_HOME`"),
    ("system_prompt", "put instructions into `AGENTS.md` in `work_dir`"),
    ("additional_directories", "use `dialect` \"acp\""),
    ("agent_meta", "use `dialect` \"acp\""),
    ("auth", "log in with `kimi login`"),
    ("tools", "use `dialect` \"acp\""),
    ("hooks", "configure commands as hooks in the agent's `config.toml`"),
    ("on_read_file", "use `dialect` \"acp\""),
    ("on_write_file", "use `dialect` \"acp\""),
    ("on_terminal", "use `dialect` \"acp\""),
];

/// Options of Kimi Code's command line that it ignores before `acp` and `web`, and their alternatives.
const IGNORED_ARGUMENTS: [(&[&str], &str); 8] = [
    (&["--yolo", "-y", "--auto"], "set `yolo`, or answer in `on_approval`"),
    (&["--plan"], "call `set_plan_mode()`"),
    (&["--model", "-m"], "set `model`"),
    (&["--session", "-S", "--continue", "-c"], "set `session_id`"),
    (&["--agent", "--agent-file"], "put instructions into `AGENTS.md` in `work_dir`"),
    (&["--skills-dir"], "put the skills into `.kimi-code/skills` in `work_dir`"),
    (&["--add-dir"], "set `additional_directories`"),
    (&["--prompt", "-p", "--output-format"], "call `prompt()`"),
];

/// Returns whether a program is Kimi Code, by its name.
pub(super) fn is_kimi(program: &Path) -> bool {
    program.file_stem().is_some_and(|name| name == "kimi")
}

impl SessionOptions {
    /// Returns the name of the first of these options that is set, if any.
    pub(crate) fn first_limit(&self) -> Option<&'static str> {
        self.first_set(|option| LIMITS.iter().any(|(name, _)| *name == option.name)).map(|option| option.name)
    }

    /// Returns the variables that limit turns. They apply to a whole process, so sessions with a shared process cannot
    /// have them.
    pub(crate) fn limits_of_kimi_code(&self, is_shared: bool) -> Result<Vec<(OsString, OsString)>> {
        let values = [self.max_steps_per_turn, self.max_retries_per_step];
        let set = LIMITS.iter().zip(values).filter_map(|((option, variable), value)| Some((option, variable, value?)));
        set.map(|(option, variable, value)| match is_shared {
            false => Ok((variable.into(), value.to_string().into())),
            true => Err(Error::Unsupported(format!(
                "`{}` holds for all sessions of Kimi Code's process, so a session that shares it cannot have its own; set \
                 `{variable}` in the `env` of `{}()`, or open the session with `{}()` of the package",
                self.naming.name(option),
                self.naming.name("open_agent"),
                self.naming.name("create_session"),
            ))),
        })
        .collect()
    }

    /// Returns how Kimi Code's server is started, with this secret.
    pub(crate) fn launch_web(&self, is_shared: bool, secret: &str) -> Result<Launch> {
        if !cfg!(feature = "kimi-web") && self.replayed.is_none() {
            return Err(Error::Unsupported(
                "this build cannot speak with Kimi Code's server: enable the feature `kimi-web` of the crate"
                    .to_owned(),
            ));
        }
        self.check_web()?;
        self.check_password()?;
        let (program, mut args) = self.program()?;
        self.check_arguments(&program, &args, "web")?;
        if self.replayed.is_none() {
            args.extend(["web", "--no-open", "--port", "0"].map(OsString::from));
        }
        args.extend(self.extra_args.iter().cloned());
        let current_dir = self.absolute("work_dir", self.work_dir.as_deref().unwrap_or(Path::new(".")))?;
        if self.replayed.is_some() {
            // The messages of a recording are those of the gateway, so that no server is needed.
            let (env, private) = (self.env.clone(), PrivateFiles::default());
            let inherited = self.inherited.clone();
            return Ok(Launch {
                program,
                args,
                env,
                inherited,
                current_dir,
                private,
                server: None,
                is_gateway: true,
                placed: Default::default(),
            });
        }
        let mut env = self.env.clone();
        env.extend(self.limits_of_kimi_code(is_shared)?);
        env.push((PASSWORD.into(), secret.into()));
        Ok(Launch {
            program,
            args,
            env,
            inherited: self.inherited.clone(),
            current_dir,
            private: PrivateFiles::default(),
            server: Some(Server { secret: secret.to_owned() }),
            is_gateway: true,
            placed: Default::default(),
        })
    }

    /// Returns the parameters for Kimi Code's server.
    pub(crate) fn web_params(&self) -> Result<KimiWebParams> {
        Ok(KimiWebParams {
            work_dir: self.absolute("work_dir", self.work_dir.as_deref().unwrap_or(Path::new(".")))?,
            session_id: self.session_id.clone(),
            fork_of: self.fork_of.clone(),
            model: self.model.clone(),
            thinking: self.thinking,
            nonce: uuid::Uuid::new_v4().simple().to_string(),
        })
    }

    /// Refuses options of Kimi Code's command line before `command`, which it accepts and ignores there.
    pub(super) fn check_arguments(&self, program: &Path, args: &[OsString], command: &str) -> Result<()> {
        // Short options may belong to the interpreter that runs Kimi Code, for example `python -S`.
        let with_short = is_kimi(program);
        let before = args.iter().take_while(|arg| *arg != command).filter_map(|arg| arg.to_str());
        let before = before.filter(|arg| with_short || arg.starts_with("--"));
        let ignored = |arg: &str| {
            let name = arg.split('=').next().unwrap_or(arg);
            IGNORED_ARGUMENTS
                .iter()
                .find(|(names, _)| names.contains(&name))
                .map(|(_, remedy)| (name.to_owned(), *remedy))
        };
        match before.filter_map(ignored).next() {
            Some((name, remedy)) => {
                let remedy = self.naming.spell(remedy);
                Err(self.invalid("executable", format!("Kimi Code ignores `{name}` before `{command}`; {remedy}")))
            }
            None => Ok(()),
        }
    }

    /// Refuses a secret that the program chose, because another program could know it.
    fn check_password(&self) -> Result<()> {
        let is_password = |name: &OsString| {
            if cfg!(windows) { name.eq_ignore_ascii_case(PASSWORD) } else { name == PASSWORD }
        };
        match self.env.iter().any(|(name, _)| is_password(name)) {
            true => Err(self.invalid(
                "env",
                format!(
                    "`{PASSWORD}` cannot be set with `dialect` \"kimi-web\": the SDK protects each server with a new random secret, \
                     which no other program knows; leave it out"
                ),
            )),
            false => Ok(()),
        }
    }

    /// Refuses options that Kimi Code's server would ignore.
    fn check_web(&self) -> Result<()> {
        let refused = self.first_set(|option| NOT_OVER_WEB.iter().any(|(name, _)| *name == option.name));
        let Some((option, advice)) =
            refused.and_then(|option| NOT_OVER_WEB.iter().find(|(name, _)| *name == option.name))
        else {
            return Ok(());
        };
        Err(Error::Unsupported(format!("Kimi Code's server does not support `{}`; {advice}", self.naming.name(option))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kimi_web_refuses_file_and_terminal_handlers() {
        for (options, name) in [
            (SessionOptions::new().on_read_file(|_| async { Ok(None) }), "on_read_file"),
            (SessionOptions::new().on_write_file(|_| async { Ok(()) }), "on_write_file"),
            (SessionOptions::new().on_terminal(|_| async { Err("no".into()) }), "on_terminal"),
        ] {
            let error = options.check_web().unwrap_err();
            assert_eq!(error.code(), "unsupported");
            assert_eq!(
                error.to_string(),
                format!("Kimi Code's server does not support `{name}`; use `dialect` \"acp\"")
            );
        }
    }

    #[test]
    fn step_limits_become_environment_variables() {
        let options = SessionOptions::new().max_steps_per_turn(3).max_retries_per_step(1);
        let limits = [("KIMI_LOOP_MAX_STEPS_PER_TURN", "3"), ("KIMI_LOOP_MAX_ATTEMPTS_PER_STEP", "1")];
        assert_eq!(
            options.limits_of_kimi_code(false).unwrap(),
            limits.map(|(name, value)| (name.into(), value.into()))
        );
        let error = options.limits_of_kimi_code(true).unwrap_err();
        assert_eq!(error.code(), "unsupported");
        assert!(error.to_string().starts_with("`max_steps_per_turn` holds for all sessions"), "{error}");
        assert!(SessionOptions::new().limits_of_kimi_code(true).unwrap().is_empty());
    }

    #[test]
    fn options_without_effect_are_refused_with_advice() {
        let error = SessionOptions::new().mcp_configs([json!({})]).check_web().unwrap_err();
        assert_eq!(error.code(), "unsupported");
        let expected = "Kimi Code's server does not support `mcp_configs`; use `dialect` \"acp\", over which each session has its own";
        assert_eq!(error.to_string(), expected);
        assert!(SessionOptions::new().model("m").thinking(true).yolo(true).check_web().is_ok());
        for (option, _) in NOT_OVER_WEB {
            assert!(kimi_agent_protocol::options::OPTIONS.iter().any(|known| known.name == option), "{option}");
        }
    }

    #[cfg(feature = "kimi-web")]
    #[test]
    fn ignored_arguments_are_refused_before_web() {
        let program = std::env::current_exe().unwrap();
        let options = SessionOptions::new().executable([program.as_os_str(), "--plan".as_ref()]);
        let error = options.launch_web(false, "secret").err().expect("an error");
        assert_eq!(error.code(), "invalid_option");
        assert!(
            error.to_string().contains("Kimi Code ignores `--plan` before `web`; call `set_plan_mode()`"),
            "{error}"
        );
    }

    #[cfg(feature = "kimi-web")]
    #[test]
    fn secret_is_only_in_environment() {
        let program = std::env::current_exe().unwrap();
        let options = SessionOptions::new().executable(&program).env([("OTHER", "theirs")]).extra_args(["--log-level"]);
        let launch = options.launch_web(false, "sk-canary-7731").unwrap();
        assert_eq!(launch.args, ["web", "--no-open", "--port", "0", "--log-level"]);
        assert_eq!(launch.env.last().unwrap(), &(PASSWORD.into(), "sk-canary-7731".into()));
        assert_eq!(launch.server.unwrap().secret, "sk-canary-7731");
    }

    #[cfg(feature = "kimi-web")]
    #[test]
    fn secret_of_program_is_refused() {
        let program = std::env::current_exe().unwrap();
        let options = SessionOptions::new().executable(&program).env([(PASSWORD, "theirs")]);
        let error = options.launch_web(false, "secret").err().expect("an error");
        assert_eq!(error.code(), "invalid_option");
        let text = error.to_string();
        assert!(text.starts_with("invalid option `env`: `KIMI_CODE_PASSWORD` cannot be set with `dialect`"), "{text}");
        assert!(!text.contains("theirs"), "{text}");
        assert!(options.launch_acp(None, false).is_ok(), "over ACP there is no server");
    }
}
