//! An agent, for the bindings.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::mailbox::{Mailbox, Reply};
use super::session::{Origin, Start, take_list};
use super::{BridgeSession, Callbacks, Mode, Naming};
use crate::Agent;
use crate::error::Result;
use crate::error::invalid_option;
use kimi_agent_client::host::{self, agent_options, close_timeout, for_session};

/// An agent, which opens sessions.
#[derive(Debug)]
pub struct BridgeAgent {
    agent: Arc<Agent>,
    mailbox: Arc<Mailbox>,
    runtime: Handle,
    naming: Naming,
}

impl BridgeAgent {
    /// Makes an agent. It starts with its first session. Jobs contain `key`; only `on_stderr` has jobs of an agent.
    ///
    /// # Errors
    /// Returns the error for a wrong option, or for a program that does not exist.
    pub fn open(
        key: u64,
        mailbox: Arc<Mailbox>,
        runtime: Handle,
        mut options: Map<String, Value>,
        naming: Naming,
        callbacks: Callbacks,
    ) -> Result<Self> {
        let functions = [
            ("tools", !take_list(&mut options, "tools")?.is_empty()),
            ("hooks", !take_list(&mut options, "hooks")?.is_empty()),
            // Before its value is read, which has a number of a check.
            ("output", options.get("output").is_some_and(|output| !output.is_null())),
            ("telemetry", options.get("telemetry").is_some_and(|telemetry| !telemetry.is_null())),
            ("on_approval", callbacks.on_approval != Mode::Unset),
            ("on_question", callbacks.on_question != Mode::Unset),
            ("on_event", callbacks.on_event),
            ("on_read_file", callbacks.on_read_file),
            ("on_write_file", callbacks.on_write_file),
            ("on_terminal", callbacks.on_terminal),
        ];
        if let Some((option, _)) = functions.into_iter().find(|(_, set)| *set) {
            return Err(invalid_option(naming.name(option), for_session(naming)));
        }
        let mut options = agent_options(options, naming)?;
        if callbacks.on_stderr {
            let mailbox = Arc::clone(&mailbox);
            options = options.on_stderr(move |line: &str| mailbox.call_stderr(key, line.to_owned()));
        }
        // Processes that start later use this runtime.
        Ok(Self { agent: Arc::new(options.open()?), mailbox, runtime, naming })
    }

    /// Opens a session. The ticket ends when the session is open. Jobs contain its `key`.
    ///
    /// # Errors
    /// Returns the error for a wrong option.
    pub fn create_session(
        &self,
        key: u64,
        start: Start,
        options: Map<String, Value>,
        naming: Naming,
        callbacks: Callbacks,
    ) -> Result<(BridgeSession, u64)> {
        let origin = Origin::Agent(Arc::clone(&self.agent), start);
        let (mailbox, runtime) = (Arc::clone(&self.mailbox), self.runtime.clone());
        BridgeSession::open_in(key, mailbox, runtime, options, naming, callbacks, origin)
    }

    /// Lists the sessions that the agent has stored, or the archived ones; with a directory, only the sessions of it. The ticket ends
    /// with [`Reply::Sessions`].
    pub fn list_sessions(&self, work_dir: Option<PathBuf>, archived: bool) -> u64 {
        let agent = Arc::clone(&self.agent);
        self.mailbox.run(&self.runtime, async move {
            let listed = match archived {
                true => agent.list_archived_sessions(work_dir.as_deref()).await,
                false => agent.list_sessions(work_dir.as_deref()).await,
            };
            listed.map(Reply::Sessions)
        })
    }

    /// Gives a session another title. The ticket ends with [`Reply::Text`], the title that the agent has stored.
    pub fn rename_session(&self, session_id: String, title: String) -> u64 {
        let agent = Arc::clone(&self.agent);
        self.mailbox.run(&self.runtime, async move { agent.rename_session(session_id, title).await.map(Reply::Text) })
    }

    /// Archives a session, or shows an archived session again.
    pub fn archive_session(&self, session_id: String, archived: bool) -> u64 {
        let agent = Arc::clone(&self.agent);
        self.mailbox.run(&self.runtime, async move {
            match archived {
                true => agent.archive_session(session_id).await?,
                false => agent.unarchive_session(session_id).await?,
            }
            Ok(Reply::Nothing)
        })
    }

    /// Deletes a session that the agent has stored.
    pub fn delete_session(&self, session_id: String) -> u64 {
        let agent = Arc::clone(&self.agent);
        self.mailbox.run(&self.runtime, async move { agent.delete_session(session_id).await.map(|()| Reply::Nothing) })
    }

    /// Closes the agent with all its sessions. The ticket ends when no process is left. `timeout`, in the host's unit,
    /// overrides `close_timeout`; null is the default.
    ///
    /// # Errors
    /// Returns the error for a wrong timeout.
    pub fn close(&self, timeout: &Value) -> Result<u64> {
        let timeout = close_timeout(timeout, self.naming)?;
        let agent = Arc::clone(&self.agent);
        Ok(self.mailbox.run(&self.runtime, async move {
            match timeout {
                Some(timeout) => agent.close_with_timeout(timeout).await?,
                None => agent.close().await?,
            }
            Ok(Reply::Nothing)
        }))
    }

    /// Returns the name of its program, its state, and the id of the process that its sessions share.
    pub fn described(&self) -> (&str, &'static str, Option<u32>) {
        host::described(&self.agent)
    }

    /// Closes the agent in the background.
    pub fn abandon(&self) {
        host::begin_close(&self.agent);
    }
}

impl Drop for BridgeAgent {
    fn drop(&mut self) {
        self.abandon();
    }
}
