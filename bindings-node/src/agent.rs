//! An agent, which opens sessions.

use kimi_agent_bridge::{BridgeAgent, Naming, Start, next_id};
use napi::Env;
use napi_derive::napi;

use crate::bridge::Bridge;
use crate::error::OrThrow;
use crate::session::{Callbacks, Opening, options};
use crate::{parse, runtime};

/// An agent. If it is garbage collected, it is closed in the background.
#[napi]
pub struct NativeAgent {
    key: u64,
    agent: BridgeAgent,
}

/// The name of an agent's program, its state, and the id of the process that its sessions share.
#[napi(object)]
pub struct AgentDescription {
    pub agent: String,
    pub state: String,
    pub pid: Option<u32>,
}

#[napi]
impl NativeAgent {
    /// Makes an agent. No process is started before its first session.
    #[napi(catch_unwind)]
    pub fn open(env: &Env, bridge: &Bridge, options_json: String, callbacks: Callbacks) -> napi::Result<NativeAgent> {
        let options = options(env, &options_json)?;
        let key = next_id();
        let mailbox = bridge.mailbox.clone();
        BridgeAgent::open(key, mailbox, runtime(env)?, options, Naming::Camel, callbacks.into())
            .map(|agent| Self { key, agent })
            .or_throw(env)
    }

    /// Jobs name the agent by this number.
    #[napi(catch_unwind, getter)]
    pub fn key(&self) -> f64 {
        self.key as f64
    }

    /// Opens a session: a new one, or one that resumes or forks the session of this id.
    #[napi(catch_unwind)]
    pub fn create_session(
        &self,
        env: &Env,
        resume: Option<String>,
        fork: Option<String>,
        options_json: String,
        callbacks: Callbacks,
    ) -> napi::Result<Opening> {
        let start = resume.map(Start::Resume).or_else(|| fork.map(Start::Fork)).unwrap_or(Start::New);
        let options = options(env, &options_json)?;
        self.agent
            .create_session(next_id(), start, options, Naming::Camel, callbacks.into())
            .map(Opening::from)
            .or_throw(env)
    }

    /// A ticket for the sessions that the agent keeps, as JSON.
    #[napi(catch_unwind)]
    pub fn list_sessions(&self, work_dir: Option<String>, archived: bool) -> f64 {
        self.agent.list_sessions(work_dir.map(Into::into), archived) as f64
    }

    /// A ticket for the title that a session then has, as JSON.
    #[napi(catch_unwind)]
    pub fn rename_session(&self, session_id: String, title: String) -> f64 {
        self.agent.rename_session(session_id, title) as f64
    }

    /// A ticket for the archiving of a session, or for its return.
    #[napi(catch_unwind)]
    pub fn archive_session(&self, session_id: String, archived: bool) -> f64 {
        self.agent.archive_session(session_id, archived) as f64
    }

    /// A ticket for the deletion of a session that the agent keeps.
    #[napi(catch_unwind)]
    pub fn delete_session(&self, session_id: String) -> f64 {
        self.agent.delete_session(session_id) as f64
    }

    /// A ticket for the end of all its processes. `null` stands for the option `closeTimeout`.
    #[napi(catch_unwind)]
    pub fn close(&self, env: &Env, timeout_json: String) -> napi::Result<f64> {
        self.agent.close(&parse(env, "timeout", &timeout_json)?).map(|ticket| ticket as f64).or_throw(env)
    }

    /// Returns the agent's program, state and process ID.
    #[napi(catch_unwind)]
    pub fn described(&self) -> AgentDescription {
        let (agent, state, pid) = self.agent.described();
        AgentDescription { agent: agent.to_owned(), state: state.to_owned(), pid }
    }

    /// Closes the agent in the background.
    #[napi(catch_unwind)]
    pub fn abandon(&self) {
        self.agent.abandon();
    }
}
