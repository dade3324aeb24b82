//! The options of an agent that speaks ACP. Calls of the protocol replace most of kimi-cli's flags.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use agent_client_protocol_schema::v1 as acp;
use serde_json::Value;

use super::kimi_code::is_kimi;
use super::mcp::{is_switched_off, mcp_server};
use super::{Dialect, SessionOptions};
use crate::dialect::{AgentKind, KnownAgent, Login, SessionParams};
use crate::tools_server;
use crate::transport::launch::{Launch, PrivateFiles};
use crate::{Error, Executable, Result};

/// Options that ACP does not have, and their alternatives in Kimi Code.
const REMEDIES: [(&str, &str); 5] = [
    ("config", "put it into `config.toml` in a directory, and name the directory as `KIMI_CODE_HOME` in `env`"),
    ("config_file", "name the directory of a `config.toml` as `KIMI_CODE_HOME` in `env`"),
    ("agent_file", "put instructions into `AGENTS.md` in `work_dir`"),
    ("skills_dir", "put the skills into `.kimi-code/skills` in `work_dir`"),
    ("hooks", "set commands as `[[hooks]]` in its `config.toml`"),
];

impl SessionOptions {
    pub(crate) fn speaks_acp(&self, agent: Option<AgentKind>) -> bool {
        match self.dialect {
            _ if self.remote_address().is_some() => true,
            Dialect::Acp => true,
            Dialect::Auto => matches!(agent, Some(AgentKind::KimiCode(_) | AgentKind::Other(_))),
            _ => false,
        }
    }

    /// Returns how the agent is started. `agent` is its kind, if known. `is_shared`: several sessions can share it.
    pub(crate) fn launch_acp(&self, agent: Option<AgentKind>, is_shared: bool) -> Result<Launch> {
        let (program, mut args) = self.program()?;
        // A list is the complete command line, unless it starts Kimi Code, whose program can be a script after its
        // interpreter.
        let is_list = self.executable.as_ref().is_some_and(|list: &Executable| !list.args().is_empty());
        let is_kimi_code = matches!(agent, Some(AgentKind::KimiCode(_)));
        if let (Some(AgentKind::Other(other)), Some(limit)) = (agent, self.first_limit()) {
            let limit = self.naming.name(limit);
            return Err(Error::Unsupported(format!("{other} does not support `{limit}`; configure the agent itself")));
        }
        match agent.or_else(|| KnownAgent::of_program(&program).map(AgentKind::Other)) {
            Some(AgentKind::Other(known)) if args.is_empty() => args.extend(known.args.iter().map(OsString::from)),
            Some(AgentKind::Other(_)) => {}
            Some(_) => args.push("acp".into()),
            None if !is_list => args.push("acp".into()),
            None => {}
        }
        if is_kimi_code || is_kimi(&program) {
            self.check_arguments(&program, &args, "acp")?;
        }
        args.extend(self.extra_args.iter().cloned());
        let current_dir = self.absolute("work_dir", self.work_dir.as_deref().unwrap_or(Path::new(".")))?;
        let mut env = self.env.clone();
        env.extend(self.limits_of_kimi_code(is_shared)?);
        let private = PrivateFiles::default();
        let inherited = self.inherited.clone();
        Ok(Launch {
            program,
            args,
            env,
            inherited,
            current_dir,
            private,
            server: None,
            is_gateway: false,
            placed: Default::default(),
        })
    }

    /// Returns the parameters of the session; `agent` is the agent's name.
    pub(crate) fn session_params(&self, agent: &str) -> Result<SessionParams> {
        if let Some(option) = self.first_set(|option| !option.over_acp) {
            let remedy = REMEDIES.iter().find(|(name, _)| *name == option.name && agent.starts_with("Kimi Code"));
            let remedy = remedy.map_or("leave it out, or configure the agent itself", |(_, remedy)| remedy);
            let (option, remedy) = (self.naming.name(option.name), self.naming.spell(remedy));
            return Err(Error::Unsupported(format!(
                "{agent} does not support `{option}`, which ACP does not have; {remedy}"
            )));
        }
        Ok(SessionParams {
            work_dir: self.absolute("work_dir", self.work_dir.as_deref().unwrap_or(Path::new(".")))?,
            session_id: self.session_id.clone(),
            fork_of: self.fork_of.clone(),
            model: self.model.clone(),
            thinking: self.thinking,
            mcp_servers: self.mcp_servers()?,
            additional_directories: (self.additional_directories.iter())
                .map(|path| self.absolute("additional_directories", path))
                .collect::<Result<_>>()?,
            system_prompt: self.system_prompt.clone(),
            meta: self.agent_meta.as_ref().and_then(Value::as_object).cloned(),
            login: self.login(),
        })
    }

    /// Returns how a session logs in: the option, and the names of the variables in `env` that have a value.
    pub(crate) fn login(&self) -> Login {
        let set = self.env.iter().filter(|(_, value)| !value.is_empty());
        Login {
            auth: self.auth.clone().filter(|auth| auth != "none"),
            variables: set.map(|(name, _)| name.to_string_lossy().into_owned()).collect(),
        }
    }

    /// Converts `mcp_configs` to the servers of ACP.
    fn mcp_servers(&self) -> Result<Vec<acp::McpServer>> {
        let mut servers = Vec::new();
        let mut names = HashSet::new();
        for config in &self.mcp_configs {
            let Some(Value::Object(named)) = config.get("mcpServers") else {
                return Err(
                    self.invalid("mcp_configs", "expected an object with `mcpServers`, which maps names to servers")
                );
            };
            for (name, server) in named.iter().filter(|(_, server)| !is_switched_off(server)) {
                if name == tools_server::NAME && !self.tools.is_empty() {
                    let reason = format!("`{name}` is the name of the server that has the program's own `tools`");
                    return Err(self.invalid("mcp_configs", reason));
                }
                if !names.insert(name) {
                    let reason = format!("{name}: two configurations have a server of this name; rename or remove one");
                    return Err(self.invalid("mcp_configs", reason));
                }
                let unreachable = server.get("url").and_then(Value::as_str).and_then(|url| self.unreachable_url(url));
                let server = unreachable.map_or_else(|| mcp_server(name, server), Err);
                servers.push(server.map_err(|reason| self.invalid("mcp_configs", format!("{name}: {reason}")))?);
            }
        }
        Ok(servers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Release;

    #[test]
    fn acp_subcommand_is_added_to_bare_program() {
        let program = std::env::current_exe().unwrap();
        let words = |options: SessionOptions, agent| options.extra_args(["-x"]).launch_acp(agent, false).unwrap().args;
        let program = program.to_str().unwrap();
        let kimi_code = Some(AgentKind::KimiCode(Release::new(2, 1)));
        assert_eq!(words(SessionOptions::new().executable(program), None), ["acp", "-x"]);
        assert_eq!(words(SessionOptions::new().executable([program, "serve"]), None), ["serve", "-x"]);
        assert_eq!(
            words(SessionOptions::new().executable([program, "main.mjs"]), kimi_code),
            ["main.mjs", "acp", "-x"]
        );
    }

    #[cfg(unix)]
    #[test]
    fn known_program_gets_its_own_arguments() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let words = |options: SessionOptions| options.dialect(Dialect::Acp).launch_acp(None, false).unwrap().args;
        for (name, expected) in
            [("gemini", &["--acp"][..]), ("opencode", &["acp"]), ("codex-acp", &[]), ("unknown", &["acp"])]
        {
            let program = dir.path().join(name);
            symlink(std::env::current_exe().unwrap(), &program).unwrap();
            let program = program.to_str().unwrap();
            assert_eq!(words(SessionOptions::new().executable(program)), expected, "{name}");
            let on_path = SessionOptions::new().executable(name).env([("PATH", dir.path())]);
            assert_eq!(words(on_path), expected, "{name}");
            assert_eq!(words(SessionOptions::new().executable([program, "--stdio"])), ["--stdio"], "{name}");
        }
        let known = KnownAgent::of_program(Path::new("gemini")).map(AgentKind::Other);
        let limited = SessionOptions::new().executable(std::env::current_exe().unwrap()).max_steps_per_turn(3);
        let error = limited.launch_acp(known, false).err().unwrap();
        assert_eq!(error.to_string(), "Gemini CLI does not support `max_steps_per_turn`; configure the agent itself");
    }

    #[test]
    fn option_unsupported_by_acp_error_has_remedy() {
        let options = SessionOptions::new().skills_dir("skills");
        let error = options.session_params("Kimi Code 2.1.0").unwrap_err();
        assert_eq!(
            error.to_string(),
            "Kimi Code 2.1.0 does not support `skills_dir`, which ACP does not have; put the skills into \
             `.kimi-code/skills` in `work_dir`"
        );
        assert_eq!(error.code(), "unsupported");
        let error = options.session_params("an agent that speaks ACP").unwrap_err().to_string();
        assert!(error.ends_with("leave it out, or configure the agent itself"), "{error}");
    }

    #[test]
    fn argument_ignored_by_kimi_code_is_refused() {
        let program = std::env::current_exe().unwrap();
        let program = program.to_str().unwrap();
        for (args, remedy) in [
            (["--yolo", "main.mjs"], "Kimi Code ignores `--yolo` before `acp`; set `yolo`, or answer in `on_approval`"),
            (["main.mjs", "--model=big"], "Kimi Code ignores `--model` before `acp`; set `model`"),
        ] {
            let list = || SessionOptions::new().executable([program, args[0], args[1]]);
            let kimi_code = Some(AgentKind::KimiCode(Release::new(2, 1)));
            let Err(error) = list().launch_acp(kimi_code, false) else { panic!("{args:?}") };
            assert_eq!(error.to_string(), format!("invalid option `executable`: {remedy}"));
            let interpreter = SessionOptions::new().executable([program, "-S", "main.mjs"]);
            assert!(interpreter.launch_acp(kimi_code, false).is_ok(), "an option of the interpreter");
            // Another agent may have the option.
            assert!(list().launch_acp(None, false).is_ok());
        }
    }
}
