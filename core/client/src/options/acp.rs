//! What becomes of the options with an agent that speaks the Agent Client Protocol: it is asked for most of what kimi-cli
//! has flags for.

use std::path::Path;

use agent_client_protocol_schema::v1 as acp;
use serde_json::{Map, Value};

use super::{Dialect, Launch, PrivateFiles, SessionOptions};
use crate::dialect::AgentKind;
use crate::dialect::SessionParams;
use crate::tools_server;
use crate::{Error, Executable, Result};

impl SessionOptions {
    pub(crate) fn speaks_acp(&self, agent: Option<AgentKind>) -> bool {
        match self.dialect {
            Dialect::Acp => true,
            Dialect::Auto => matches!(agent, Some(AgentKind::KimiCode(_))),
            _ => false,
        }
    }

    /// How the agent is started. `kimi_code`: it is known to be Kimi Code.
    pub(crate) fn launch_acp(&self, kimi_code: bool) -> Result<Launch> {
        let (program, mut args) = self.program()?;
        // A list says all that there is to say, unless it was found out what it starts.
        let whole = self.executable.as_ref().is_some_and(|list: &Executable| !list.args().is_empty());
        if kimi_code || !whole {
            args.push("acp".into());
        }
        args.extend(self.extra_args.iter().cloned());
        let current_dir = self.absolute("work_dir", self.work_dir.as_deref().unwrap_or(Path::new(".")))?;
        Ok(Launch { program, args, env: self.env.clone(), current_dir, private: PrivateFiles::default() })
    }

    /// What the agent is asked for; `agent` is its name.
    pub(crate) fn wishes(&self, agent: &str) -> Result<SessionParams> {
        if let Some(option) = self.first_set(|option| !option.over_acp) {
            let option = self.naming.name(option.name);
            return Err(Error::Unsupported(format!(
                "{agent} does not support `{option}`, which ACP does not have; leave it out, or configure the agent itself"
            )));
        }
        Ok(SessionParams {
            work_dir: self.absolute("work_dir", self.work_dir.as_deref().unwrap_or(Path::new(".")))?,
            session_id: self.session_id.clone(),
            fork_of: self.fork_of.clone(),
            model: self.model.clone(),
            thinking: self.thinking,
            mcp_servers: self.mcp_servers()?,
        })
    }

    /// The servers in `mcp_configs`, as ACP has them.
    fn mcp_servers(&self) -> Result<Vec<acp::McpServer>> {
        let mut servers = Vec::new();
        for config in &self.mcp_configs {
            let Some(Value::Object(named)) = config.get("mcpServers") else {
                return Err(self.invalid("mcp_configs", "expected an object `mcpServers` in each"));
            };
            for (name, server) in named {
                if name == tools_server::NAME && !self.tools.is_empty() {
                    let reason = format!("`{name}` is the name of the server that has the program's own `tools`");
                    return Err(self.invalid("mcp_configs", reason));
                }
                let server = mcp_server(name, server);
                servers.push(server.map_err(|reason| self.invalid("mcp_configs", format!("{name}: {reason}")))?);
            }
        }
        Ok(servers)
    }
}

fn mcp_server(name: &str, server: &Value) -> std::result::Result<acp::McpServer, String> {
    let text = |field: &str| server.get(field).and_then(Value::as_str);
    if let Some(url) = text("url") {
        let headers = pairs(server, "headers")?.into_iter().map(|(name, value)| acp::HttpHeader::new(name, value));
        let sse = text("transport").or_else(|| text("type")) == Some("sse");
        return Ok(if sse {
            acp::McpServer::Sse(acp::McpServerSse::new(name, url).headers(headers.collect()))
        } else {
            acp::McpServer::Http(acp::McpServerHttp::new(name, url).headers(headers.collect()))
        });
    }
    let Some(command) = text("command") else { return Err("expected a `command` or a `url`".to_owned()) };
    let args = match server.get("args") {
        None => Vec::new(),
        Some(args) => serde_json::from_value(args.clone()).map_err(|_| "`args`: expected a list of text".to_owned())?,
    };
    let env = pairs(server, "env")?.into_iter().map(|(name, value)| acp::EnvVariable::new(name, value));
    Ok(acp::McpServer::Stdio(acp::McpServerStdio::new(name, command).args(args).env(env.collect())))
}

fn pairs(server: &Value, field: &str) -> std::result::Result<Vec<(String, String)>, String> {
    let Some(pairs) = server.get(field) else { return Ok(Vec::new()) };
    let pairs = pairs.as_object().map(Map::iter).into_iter().flatten().map(|(name, value)| {
        let value = value.as_str().ok_or_else(|| format!("`{field}`: {name} is no text"))?;
        Ok((name.clone(), value.to_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_program_alone_gets_the_subcommand_and_a_list_does_not() {
        let program = std::env::current_exe().unwrap();
        let words = |options: SessionOptions, kimi_code| options.extra_args(["-x"]).launch_acp(kimi_code).unwrap().args;
        let program = program.to_str().unwrap();
        assert_eq!(words(SessionOptions::new().executable(program), false), ["acp", "-x"]);
        assert_eq!(words(SessionOptions::new().executable([program, "serve"]), false), ["serve", "-x"]);
        assert_eq!(words(SessionOptions::new().executable([program, "main.mjs"]), true), ["main.mjs", "acp", "-x"]);
    }

    #[test]
    fn servers_become_those_of_acp() {
        let config = json!({"mcpServers": {
            "files": {"command": "mcp-files", "args": ["-v"], "env": {"KEY": "secret"}},
            "web": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer x"}},
            "old": {"url": "http://127.0.0.1:1/sse", "transport": "sse"},
        }});
        let wishes = SessionOptions::new().mcp_configs([config]).wishes("it").unwrap();
        assert_eq!(
            json!(wishes.mcp_servers),
            json!([
                {"name": "files", "command": "mcp-files", "args": ["-v"], "env": [{"name": "KEY", "value": "secret"}]},
                {"type": "http", "name": "web", "url": "http://127.0.0.1:1/mcp",
                    "headers": [{"name": "Authorization", "value": "Bearer x"}]},
                {"type": "sse", "name": "old", "url": "http://127.0.0.1:1/sse", "headers": []},
            ])
        );
        for (config, reason) in [
            (json!({}), "expected an object `mcpServers` in each"),
            (json!({"mcpServers": {"a": {}}}), "a: expected a `command` or a `url`"),
            (json!({"mcpServers": {"a": {"command": "x", "args": "y"}}}), "a: `args`: expected a list of text"),
            (json!({"mcpServers": {"a": {"command": "x", "env": {"K": 1}}}}), "a: `env`: K is no text"),
        ] {
            let error = SessionOptions::new().mcp_configs([config]).wishes("it").unwrap_err();
            assert_eq!(error.to_string(), format!("invalid option `mcp_configs`: {reason}"));
        }
    }

    #[test]
    fn what_acp_has_not_is_refused_by_name() {
        let error = SessionOptions::new().max_steps_per_turn(3).wishes("Kimi Code 2.1.0").unwrap_err();
        assert_eq!(
            error.to_string(),
            "Kimi Code 2.1.0 does not support `max_steps_per_turn`, which ACP does not have; leave it out, or configure the agent itself"
        );
        assert_eq!(error.code(), "unsupported");
    }
}
