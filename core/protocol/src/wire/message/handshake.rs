//! What the agent says of itself when a session opens.

use serde_json::{Map, Value};

message! {
    /// The agent's answer to `initialize`.
    InitializeResult since "1.1" {
        /// The version that it speaks.
        protocol_version: String,
        /// What it is.
        server: ServerInfo,
        /// Commands that a prompt may begin with.
        slash_commands: Vec<SlashCommand>,
        /// What became of the program's tools.
        external_tools: Option<ExternalToolsResult>,
        /// Which hooks there are; absent where there are none at all.
        hooks: Option<HooksInfo> = "1.8",
        /// What the agent can do.
        capabilities: Option<Map<String, Value>> = "1.3",
    }

    /// Name and version of the agent.
    ServerInfo since "1.1" {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
    }

    /// A command that a prompt may begin with, as `/compact`.
    SlashCommand since "1.1" {
        /// Its name, without the slash.
        name: String,
        /// What it does.
        description: String,
        /// Other names.
        aliases: Vec<String>,
    }

    /// What became of the program's tools.
    ExternalToolsResult since "1.1" derive Default {
        /// The names of those that the model can call.
        accepted: Vec<String>,
        /// Those it cannot.
        rejected: Vec<RejectedTool>,
    }

    /// A tool that the agent refused.
    RejectedTool since "1.1" {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    }

    /// Which hooks there are.
    HooksInfo since "1.8" {
        /// The events that hooks can be set on.
        supported_events: Vec<String>,
        /// How many are set on each event.
        configured: Option<Map<String, Value>>,
    }
}
