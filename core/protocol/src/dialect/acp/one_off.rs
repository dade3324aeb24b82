//! Calls that belong to no session: the handshake, a login if the agent asks for it, then the call.

use std::sync::Arc;

use agent_client_protocol_schema::v1 as acp;
use serde_json::{Value, json};

use super::login::{Login, shown, ways_of};
use super::opening;
use super::{AuthMethod, failure};
use crate::dialect::{InitializeParams, agent_name};
use crate::error::{Error, Result, RpcError, RpcErrorKind};
use crate::jsonrpc::RpcFailure;
use crate::messages::Json;

/// A method with its parameters.
pub(super) type Question = (&'static str, Value);

/// What an agent must offer for a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needed {
    /// The feature and the agents that have it, for the error.
    pub(super) feature: &'static str,
    pub(super) is_offered: fn(&acp::SessionCapabilities) -> bool,
}

/// What follows an answer.
#[derive(Debug)]
pub(super) enum Next {
    Ask(Question),
    /// The answer to the call.
    Answered(Json),
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Greeting,
    Asked,
    LoggingIn,
}

/// A call that belongs to no session.
#[derive(Debug)]
pub(super) struct OneOff {
    needed: Needed,
    question: Question,
    stage: Stage,
    login: Login,
    /// The way for when the agent asks for a login.
    way: Option<String>,
    methods: Arc<Vec<AuthMethod>>,
}

impl OneOff {
    /// Makes the call and the first request.
    pub(super) fn new(hello: &InitializeParams, login: Login, needed: Needed, question: Question) -> (Self, Question) {
        let call = Self { needed, question, stage: Stage::Greeting, login, way: None, methods: Arc::default() };
        (call, ("initialize", json!(opening::initialize_request(hello))))
    }

    /// Asks again with other parameters.
    pub(super) fn ask(&mut self, question: Question) -> Question {
        self.question = question;
        self.question.clone()
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the agent does not offer the call, [`Error::InvalidOption`] for an unknown way to log in, or the
    /// agent's error.
    pub(super) fn answered(&mut self, outcome: std::result::Result<Json, RpcFailure>) -> Result<Next> {
        match (self.stage, outcome) {
            (Stage::Greeting, Ok(answer)) => {
                self.greeted(&answer)?;
                Ok(Next::Ask(self.question.clone()))
            }
            (Stage::Asked, Ok(answer)) => Ok(Next::Answered(answer)),
            (Stage::LoggingIn, Ok(_)) => {
                self.stage = Stage::Asked;
                Ok(Next::Ask(self.question.clone()))
            }
            (Stage::Asked, Err(failure)) if self.way.is_some() && failure::is_login_missing(&failure) => {
                self.stage = Stage::LoggingIn;
                Ok(Next::Ask(("authenticate", json!({"methodId": self.way.take()}))))
            }
            (_, Err(failure)) => Err(self.refused(failure)),
        }
    }

    fn greeted(&mut self, body: &Json) -> Result<()> {
        let answer = opening::greeting(body).map_err(|reason| {
            Error::Handshake(format!("the agent's answer to `initialize` can't be read: {reason}"))
        })?;
        let agent = agent_name(opening::server(body).as_ref(), opening::NAME);
        if !(self.needed.is_offered)(&answer.agent_capabilities.session_capabilities) {
            return Err(Error::Unsupported(format!("{agent} does not support {}", self.needed.feature)));
        }
        let ways = ways_of(body);
        self.methods = shown(&ways);
        self.way = self.login.select(&ways, &agent)?;
        self.stage = Stage::Asked;
        Ok(())
    }

    fn refused(&self, failure: RpcFailure) -> Error {
        let is_login = failure::is_login_missing(&failure) || matches!(self.stage, Stage::LoggingIn);
        let kind = if is_login { RpcErrorKind::AuthExpired } else { RpcErrorKind::Other };
        let methods = if is_login { Arc::clone(&self.methods) } else { Arc::default() };
        Error::Rpc(RpcError { methods, ..RpcError::of_answer(kind, failure::with_details(failure)) })
    }
}
