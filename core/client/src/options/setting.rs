//! The values of options by name, for code that handles all options in the same way: flags, checks and `Debug`.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use kimi_agent_protocol::options::{OPTIONS, OptionInfo};
use serde_json::Value;

use super::{Dialect, Enforce, InheritEnv, SessionOptions};

/// The value of an option.
pub(crate) enum Setting<'a> {
    Unset,
    /// A value of another type.
    Other,
    Text(&'a str),
    Path(&'a Path),
    Boolean(bool),
    Count(u32),
    Bytes(usize),
    Duration(Duration),
    Json(&'a [Value]),
}

impl Setting<'_> {
    fn is_set(&self) -> bool {
        !matches!(self, Self::Unset)
    }
}

impl SessionOptions {
    /// Returns the value of the option with this name in snake case. An option whose default is a number is always set.
    pub(crate) fn setting(&self, name: &str) -> Setting<'_> {
        let other = |is_set: bool| if is_set { Setting::Other } else { Setting::Unset };
        let found = match name {
            "work_dir" => self.work_dir.as_deref().map(Setting::Path),
            "session_id" => self.session_id.as_deref().map(Setting::Text),
            "model" => self.model.as_deref().map(Setting::Text),
            "thinking" => self.thinking.map(Setting::Boolean),
            "read_session_files" => (!self.read_session_files).then_some(Setting::Boolean(false)),
            "yolo" => self.yolo.then_some(Setting::Boolean(true)),
            "config_file" => self.config_file.as_deref().map(Setting::Path),
            "config" => self.config.as_ref().map(|config| Setting::Json(std::slice::from_ref(config))),
            "executable" => return other(self.executable.is_some()),
            "env" => return other(self.variables().next().is_some()),
            "inherit_env" => return other(self.inherited.rule != InheritEnv::All),
            "auth" => self.auth.as_deref().filter(|auth| *auth != "none").map(Setting::Text),
            "place" => return other(self.place.is_some()),
            "mcp_configs" => (!self.mcp_configs.is_empty()).then_some(Setting::Json(&self.mcp_configs)),
            "agent_file" => self.agent_file.as_deref().map(Setting::Path),
            "system_prompt" => self.system_prompt.as_ref().map(|prompt| Setting::Text(&prompt.content)),
            "additional_directories" => return other(!self.additional_directories.is_empty()),
            "agent_meta" => self.agent_meta.as_ref().map(|meta| Setting::Json(std::slice::from_ref(meta))),
            "skills_dir" => self.skills_dir.as_deref().map(Setting::Path),
            "tools" => return other(!self.tools.is_empty()),
            "max_steps_per_turn" => self.max_steps_per_turn.map(Setting::Count),
            "max_retries_per_step" => self.max_retries_per_step.map(Setting::Count),
            "policy" => return other(self.policy.is_some()),
            "enforce" => (self.enforce == Enforce::Calls).then_some(Setting::Text("calls")),
            "on_approval" => return other(self.on_approval.is_set()),
            "on_question" => return other(self.on_question.is_set()),
            "hooks" => return other(!self.hooks.is_empty()),
            "on_event" => return other(self.on_event.is_some()),
            "on_stderr" => return other(self.on_stderr.is_some()),
            "on_read_file" => return other(self.services.read_file.is_some()),
            "on_write_file" => return other(self.services.write_file.is_some()),
            "on_terminal" => return other(self.services.terminal.is_some()),
            "client_name" => self.client_name.as_deref().map(Setting::Text),
            "client_version" => self.client_version.as_deref().map(Setting::Text),
            "extra_args" => return other(!self.extra_args.is_empty()),
            "dialect" => return other(self.dialect != Dialect::Auto),
            "handshake_timeout" => Some(Setting::Duration(self.handshake_timeout)),
            "cancel_timeout" => Some(Setting::Duration(self.cancel_timeout)),
            "close_timeout" => Some(Setting::Duration(self.close_timeout)),
            "idle_timeout" => self.idle_timeout.map(Setting::Duration),
            "session_budget" => return other(self.session_budget.is_some()),
            "prices" => return other(self.prices.is_some()),
            "output" => return other(self.output.is_some()),
            "record" => self.record.as_deref().map(Setting::Path),
            "redact" => return other(!self.redact.is_empty()),
            "telemetry" => return other(self.telemetry.is_some()),
            "turn_timeout" => self.turn_timeout.map(Setting::Duration),
            "max_line_bytes" => Some(Setting::Bytes(self.max_line_bytes)),
            "event_buffer_bytes" => Some(Setting::Bytes(self.event_buffer_bytes)),
            _ => None,
        };
        found.unwrap_or(Setting::Unset)
    }

    /// Returns the names of the variables that the program has set or removed.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &OsStr> {
        let set = self.env.iter().map(|(name, _)| name);
        set.chain(&self.inherited.removed).map(OsString::as_os_str)
    }

    /// Returns the first option that is set and for which the condition holds.
    pub(super) fn first_set(&self, holds: impl Fn(&OptionInfo) -> bool) -> Option<&'static OptionInfo> {
        OPTIONS.iter().find(|option| holds(option) && self.setting(option.name).is_set())
    }
}
