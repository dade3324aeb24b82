//! The agent's part of the handshake.

use serde_json::{Map, Value};

message! {
    /// The agent's answer to `initialize`.
    InitializeResult since "1.1" {
        /// The version of Wire that the agent speaks.
        protocol_version: String,
        /// The agent's name and version.
        server: ServerInfo,
        /// Commands that a prompt may begin with.
        slash_commands: Vec<SlashCommand>,
        /// The accepted and the rejected tools of the program.
        external_tools: Option<ExternalToolsResult>,
        /// The hooks of the agent; absent if it has none.
        hooks: Option<HooksInfo> = "1.8",
        /// The agent's capabilities.
        capabilities: Option<Map<String, Value>> = "1.3",
    }

    /// The name and the version of the agent.
    ServerInfo since "1.1" {
        /// The name of the agent.
        name: String,
        /// The version of the agent.
        version: String,
    }

    /// A command that a prompt may begin with, for example `/compact`.
    SlashCommand since "1.1" {
        /// The name of the command, without the slash.
        name: String,
        /// A description of the command.
        description: String,
        /// Other names of the command, without the slash.
        aliases: Vec<String>,
    }

    /// The accepted and the rejected tools of the program.
    ExternalToolsResult since "1.1" derive Default {
        /// The names of the tools that the model can call.
        accepted: Vec<String>,
        /// The rejected tools.
        rejected: Vec<RejectedTool>,
    }

    /// A tool that the agent refused.
    RejectedTool since "1.1" {
        /// The name of the tool.
        name: String,
        /// The reason of the agent.
        reason: String,
    }

    /// The hooks of the agent.
    HooksInfo since "1.8" {
        /// The events that hooks can be set on.
        supported_events: Vec<String>,
        /// The number of hooks on each event.
        configured: Option<Map<String, Value>>,
    }
}
