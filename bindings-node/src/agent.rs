//! An agent, which opens sessions.

use kimi_agent::bridge::{BridgeAgent, Naming, Start, next_id, parse_options};
use napi_derive::napi;

use crate::bell::Bridge;
use crate::session::{Opening, callbacks};
use crate::{parse, runtime, thrown};

/// An agent. Collected, it closes in the background.
#[napi]
pub struct NativeAgent {
    key: u64,
    agent: BridgeAgent,
}

#[napi]
impl NativeAgent {
    /// Opens an agent.
    #[napi]
    pub fn open(bridge: &Bridge, options_json: String, callbacks_json: String) -> napi::Result<NativeAgent> {
        let mut options = parse_options(&options_json).map_err(|error| thrown(&error))?;
        let callbacks = callbacks(&callbacks_json, &mut options)?;
        let key = next_id();
        let opened = BridgeAgent::open(key, bridge.mailbox.clone(), runtime()?, options, Naming::Camel, callbacks);
        Ok(Self { key, agent: opened.map_err(|error| thrown(&error))? })
    }

    /// By this its jobs name it.
    #[napi(getter)]
    pub fn key(&self) -> f64 {
        self.key as f64
    }

    /// Opens a session.
    #[napi]
    pub fn create_session(
        &self,
        resume: Option<String>,
        fork: Option<String>,
        options_json: String,
        callbacks_json: String,
    ) -> napi::Result<Opening> {
        let start = resume.map(Start::Resume).or_else(|| fork.map(Start::Fork)).unwrap_or(Start::New);
        let mut options = parse_options(&options_json).map_err(|error| thrown(&error))?;
        let callbacks = callbacks(&callbacks_json, &mut options)?;
        let opened = self.agent.create_session(next_id(), start, options, Naming::Camel, callbacks);
        let (session, ticket) = opened.map_err(|error| thrown(&error))?;
        Ok(Opening::new(session, ticket))
    }

    /// Lists the sessions that it keeps.
    #[napi]
    pub fn list_sessions(&self, work_dir: Option<String>) -> f64 {
        self.agent.list_sessions(work_dir.map(Into::into)) as f64
    }

    /// Closes it, with a timeout of its own.
    #[napi]
    pub fn close(&self, timeout_json: String) -> napi::Result<f64> {
        let ticket = self.agent.close(&parse("timeout", &timeout_json)?);
        ticket.map(|ticket| ticket as f64).map_err(|error| thrown(&error))
    }

    /// Closes it in the background.
    #[napi]
    pub fn abandon(&self) {
        self.agent.abandon();
    }
}
