//! The servers of `mcp_configs` in the form of ACP.

use agent_client_protocol_schema::v1 as acp;
use serde_json::Value;

/// The members of a server that a command starts.
const OF_COMMAND: [&str; 3] = ["command", "args", "env"];
/// The members of a server with an address.
const OF_URL: [&str; 2] = ["url", "headers"];
/// The members of both.
const OF_BOTH: [&str; 4] = ["type", "transport", "disabled", "enabled"];
/// Members of other programs that ACP has no field for, and that do not change what a server may do.
const IGNORED: [&str; 6] =
    ["description", "startupTimeoutMs", "startup_timeout_sec", "timeout", "toolTimeoutMs", "tool_timeout_sec"];

/// Whether the configuration names the server and says that it does not run, in the spellings of other programs.
pub(super) fn is_switched_off(server: &Value) -> bool {
    server.get("disabled") == Some(&Value::Bool(true)) || server.get("enabled") == Some(&Value::Bool(false))
}

/// Converts a server to that of ACP.
pub(super) fn mcp_server(name: &str, server: &Value) -> std::result::Result<acp::McpServer, String> {
    let text = |field: &str| server.get(field).and_then(Value::as_str);
    check_members(name, server)?;
    match (text("command"), text("url")) {
        (Some(_), Some(_)) => Err("expected a `command` or a `url`, got both".to_owned()),
        (None, None) => Err("expected a `command` or a `url`".to_owned()),
        (Some(command), None) => {
            check_form(server, "command", &OF_URL, is_stdio)?;
            let args = match server.get("args") {
                None | Some(Value::Null) => Vec::new(),
                Some(args) => {
                    serde_json::from_value(args.clone()).map_err(|_| "`args`: expected a list of text".to_owned())?
                }
            };
            let env = pairs(server, "env")?.into_iter().map(|(name, value)| acp::EnvVariable::new(name, value));
            Ok(acp::McpServer::Stdio(acp::McpServerStdio::new(name, command).args(args).env(env.collect())))
        }
        (None, Some(url)) => {
            check_form(server, "url", &OF_COMMAND, |transport| is_sse(transport) || is_http(transport))?;
            let headers = pairs(server, "headers")?.into_iter().map(|(name, value)| acp::HttpHeader::new(name, value));
            let transports = [text("type"), text("transport")];
            let mut transports = transports.into_iter().flatten();
            let is_sse = match (transports.next().map(is_sse), transports.next().map(is_sse)) {
                (Some(one), Some(other)) if one != other => {
                    return Err("`type` and `transport` differ; leave one out".to_owned());
                }
                (one, _) => one.unwrap_or_default(),
            };
            Ok(if is_sse {
                acp::McpServer::Sse(acp::McpServerSse::new(name, url).headers(headers.collect()))
            } else {
                acp::McpServer::Http(acp::McpServerHttp::new(name, url).headers(headers.collect()))
            })
        }
    }
}

/// Refuses members that ACP has no field for.
fn check_members(name: &str, server: &Value) -> std::result::Result<(), String> {
    let Value::Object(members) = server else { return Ok(()) };
    for (member, _) in members.iter().filter(|(_, value)| !value.is_null()) {
        let member = member.as_str();
        if IGNORED.contains(&member) {
            tracing::debug!(server = name, member, "member of an MCP server ignored, because ACP has no field for it");
        } else if ![&OF_COMMAND[..], &OF_URL, &OF_BOTH].iter().any(|known| known.contains(&member)) {
            return Err(format!("`{member}` has no place in ACP: {}", remedy(member)));
        }
    }
    Ok(())
}

/// The replacement of a member of other programs.
fn remedy(member: &str) -> &'static str {
    match member {
        "cwd" => "an agent starts servers in the session's directory; name absolute paths, or a script that changes it",
        "allowedTools" | "disabledTools" | "disabled_tools" | "disallowedTools" | "enabledTools" | "enabled_tools"
        | "excludeTools" | "includeTools" | "alwaysAllow" | "autoApprove" => "name the tools in a `policy` instead",
        "envFile" | "env_vars" => "pass the variables in `env`",
        "httpUrl" | "serverUrl" => "name the address `url`",
        "auth"
        | "authentication"
        | "bearer_token_env_var"
        | "env_http_headers"
        | "headersHelper"
        | "http_headers"
        | "oauth" => "pass the key in `headers`, or configure the server in the agent itself",
        _ => "leave it out, or configure the server in the agent itself",
    }
}

/// Refuses members and transports of the other form.
fn check_form(
    server: &Value,
    form: &str,
    foreign: &[&str],
    fits: impl Fn(&str) -> bool,
) -> std::result::Result<(), String> {
    let given = |field: &str| server.get(field).filter(|value| !value.is_null());
    let (other, transports) = if form == "url" { ("command", "`http` or `sse`") } else { ("url", "`stdio`") };
    if let Some(field) = foreign.iter().find(|field| given(field).is_some()) {
        return Err(format!("`{field}` belongs to a server with `{other}`"));
    }
    let is_wrong = |field: &&str| given(field).is_some_and(|value| !value.as_str().is_some_and(&fits));
    match ["type", "transport"].iter().find(|field| is_wrong(field)) {
        Some(field) => Err(format!("`{field}`: a server with `{form}` has {transports}")),
        None => Ok(()),
    }
}

fn is_stdio(transport: &str) -> bool {
    transport == "stdio"
}

fn is_sse(transport: &str) -> bool {
    transport == "sse"
}

/// Whether it is streamable HTTP, in the spellings of other programs.
fn is_http(transport: &str) -> bool {
    ["http", "streamable-http", "streamableHttp", "streamable_http"].contains(&transport)
}

fn pairs(server: &Value, field: &str) -> std::result::Result<Vec<(String, String)>, String> {
    let pairs = match server.get(field) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(pairs)) => pairs,
        Some(_) => return Err(format!("`{field}`: expected an object, which maps names to text")),
    };
    let pairs = pairs.iter().map(|(name, value)| {
        let value = value.as_str().ok_or_else(|| format!("`{field}`: {name} is no text"))?;
        Ok((name.clone(), value.to_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::SessionOptions;

    #[test]
    fn servers_become_those_of_acp() {
        let config = json!({"mcpServers": {
            "files": {"command": "mcp-files", "args": ["-v"], "env": {"KEY": "secret"}},
            "web": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer x"}},
            "old": {"url": "http://127.0.0.1:1/sse", "transport": "sse"},
            "off": {"command": "mcp-off", "disabled": true, "cwd": "/"},
            "off-too": {"command": "mcp-off", "enabled": false},
            "typed": {"type": "stdio", "command": "mcp-typed", "url": null, "enabled": true, "timeout": 60},
            "streams": {"type": "streamable-http", "url": "http://127.0.0.1:1/mcp", "description": "Docs"},
        }});
        let params = SessionOptions::new().mcp_configs([config]).session_params("it").unwrap();
        assert_eq!(
            json!(params.mcp_servers),
            json!([
                {"name": "files", "command": "mcp-files", "args": ["-v"], "env": [{"name": "KEY", "value": "secret"}]},
                {"type": "http", "name": "web", "url": "http://127.0.0.1:1/mcp",
                    "headers": [{"name": "Authorization", "value": "Bearer x"}]},
                {"type": "sse", "name": "old", "url": "http://127.0.0.1:1/sse", "headers": []},
                {"name": "typed", "command": "mcp-typed", "args": [], "env": []},
                {"type": "http", "name": "streams", "url": "http://127.0.0.1:1/mcp", "headers": []},
            ])
        );
        for (config, reason) in [
            (json!({}), "expected an object with `mcpServers`, which maps names to servers"),
            (json!({"mcpServers": {"a": {}}}), "a: expected a `command` or a `url`"),
            (json!({"mcpServers": {"a": {"command": "x", "args": "y"}}}), "a: `args`: expected a list of text"),
            (json!({"mcpServers": {"a": {"command": "x", "env": {"K": 1}}}}), "a: `env`: K is no text"),
            (
                json!({"mcpServers": {"a": {"command": "x", "env": ["K=1"]}}}),
                "a: `env`: expected an object, which maps names to text",
            ),
            (
                json!({"mcpServers": {"a": {"command": "x", "cwd": "/srv"}}}),
                "a: `cwd` has no place in ACP: an agent starts servers in the session's directory; name absolute paths, or a \
                 script that changes it",
            ),
            (
                json!({"mcpServers": {"a": {"url": "http://127.0.0.1:1/mcp", "enabledTools": ["read"]}}}),
                "a: `enabledTools` has no place in ACP: name the tools in a `policy` instead",
            ),
            (
                json!({"mcpServers": {"a": {"url": "http://127.0.0.1:1/mcp", "oauth": {"scopes": []}}}}),
                "a: `oauth` has no place in ACP: pass the key in `headers`, or configure the server in the agent itself",
            ),
            (
                json!({"mcpServers": {"a": {"command": "x", "envFile": ".env"}}}),
                "a: `envFile` has no place in ACP: pass the variables in `env`",
            ),
            (
                json!({"mcpServers": {"a": {"httpUrl": "http://127.0.0.1:1/mcp"}}}),
                "a: `httpUrl` has no place in ACP: name the address `url`",
            ),
            (
                json!({"mcpServers": {"a": {"command": "x", "trust": true}}}),
                "a: `trust` has no place in ACP: leave it out, or configure the server in the agent itself",
            ),
            (
                json!({"mcpServers": {"a": {"command": "x", "url": "http://127.0.0.1:1/mcp"}}}),
                "a: expected a `command` or a `url`, got both",
            ),
            (
                json!({"mcpServers": {"a": {"type": "ws", "url": "http://127.0.0.1:1/mcp"}}}),
                "a: `type`: a server with `url` has `http` or `sse`",
            ),
            (
                json!({"mcpServers": {"a": {"type": "http", "command": "x"}}}),
                "a: `type`: a server with `command` has `stdio`",
            ),
            (
                json!({"mcpServers": {"a": {"type": "http", "transport": "sse", "url": "http://127.0.0.1:1/mcp"}}}),
                "a: `type` and `transport` differ; leave one out",
            ),
            (
                json!({"mcpServers": {"a": {"command": "x", "headers": {"K": "v"}}}}),
                "a: `headers` belongs to a server with `url`",
            ),
            (
                json!({"mcpServers": {"a": {"url": "http://127.0.0.1:1/mcp", "env": {"K": "v"}}}}),
                "a: `env` belongs to a server with `command`",
            ),
        ] {
            let error = SessionOptions::new().mcp_configs([config]).session_params("it").unwrap_err();
            assert_eq!(error.to_string(), format!("invalid option `mcp_configs`: {reason}"));
        }
    }

    #[test]
    fn same_name_in_two_configurations_is_refused() {
        let config = |command: &str| json!({"mcpServers": {"files": {"command": command}}});
        let off = json!({"mcpServers": {"files": {"command": "a", "disabled": true}}});
        let error = SessionOptions::new().mcp_configs([config("a"), config("b")]).session_params("it").unwrap_err();
        let reason = "files: two configurations have a server of this name; rename or remove one";
        assert_eq!(error.to_string(), format!("invalid option `mcp_configs`: {reason}"));
        assert!(SessionOptions::new().mcp_configs([off, config("b")]).session_params("it").is_ok());
    }
}
