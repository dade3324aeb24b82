//! Events: how they are made of what the agent sends, and passed on to the program and its observers.

use std::time::Instant;

use super::invalid_lines::Report;
use super::tool_calls::{Present, concerns_tool_calls};
use super::{Connection, Output, Phase, SHOWN, Scope, plan, requests, turn, warnings};
use crate::dialect::Incoming;
use crate::messages::{Event, HandlerFailed, HandlerKind, UnknownEvent};
use crate::printable::printable_line;

/// The text that Kimi Code's server prints when it is ready.
const SERVER_BANNER: &str = "Kimi server ready";

impl Connection {
    pub(super) fn handle_incoming(&mut self, incoming: Incoming, line: &[u8], now: Instant) {
        match incoming {
            Incoming::Event(event) => self.handle_event(event, line, now),
            Incoming::OutOfTurn(mut event) => {
                let details = |id: &str| self.dialect.call_details(id);
                let mut present =
                    Present { details: &details, record: None, begun: None, now, is_unclear: self.is_unclear };
                let added = self.tool_calls.take_in(&mut event, &mut present);
                self.observe_session(&event);
                if let Event::ApprovalResponse(response) = &*event {
                    self.resolved(response);
                }
                let size = line.len() + added;
                self.outputs.push_back(Output::Event { scope: Scope::Outside, event, size });
            }
            Incoming::ConfigOptions(options) => {
                self.note_model(&options);
                self.outputs.push_back(Output::ConfigChanged(options));
            }
            Incoming::Commands(commands) => self.outputs.push_back(Output::CommandsChanged(commands)),
            Incoming::Batch(all) => {
                for incoming in all {
                    self.handle_incoming(incoming, line, now);
                }
            }
            Incoming::Request { rpc_id, request } if self.is_of_policy(&request) && self.is_unclear => {
                self.block_unclear_call(rpc_id, &request);
            }
            Incoming::Request { rpc_id, request } => self.request(rpc_id, request, line.len(), now),
            Incoming::OwnToolRequest { rpc_id, request } => self.own_tool_request(rpc_id, request, line.len(), now),
            Incoming::Choice { rpc_id, question, approval } => {
                self.choice_request(rpc_id, *approval, question, line.len(), now);
            }
            Incoming::Answered(bytes) => self.transmit(bytes),
            Incoming::Cancelled { rpc_id } => self.request_cancelled(&rpc_id),
            Incoming::Terminal { rpc_id, terminal, call } => self.terminal_call(&rpc_id, &terminal, call),
            Incoming::UnknownMethod { rpc_id, method, .. } if self.is_echo(&rpc_id, &method) => {
                self.handle_echo(&method)
            }
            Incoming::UnknownMethod { rpc_id, method, params } => {
                if let Some(count) = self.repeats.count("method") {
                    let method = self.shown(&method);
                    tracing::warn!(method, count, "the agent calls a method that is not known; it is refused");
                }
                let reason = format!("method not found: {method}");
                let refusal = self.dialect.refuse(&rpc_id, requests::METHOD_NOT_FOUND, &reason);
                self.transmit(refusal);
                let event = UnknownEvent { kind: method, payload: params, error: None, extra: Default::default() };
                self.emit(Event::Unknown(event), line.len());
            }
            Incoming::Response { id: Some(id), outcome } => self.response(&id, outcome, now),
            Incoming::Response { id: None, outcome } => self.unassigned(outcome, now),
            Incoming::Fatal(error) => {
                self.outputs.push_back(Output::FatalError(error.clone()));
                self.close(&error);
            }
            Incoming::InvalidLine(reason) => self.handle_invalid_line(&reason, line, now),
        }
    }

    /// Drops a line. A program can write thousands of them a second, so a line is prepared only if it is shown.
    fn handle_invalid_line(&mut self, reason: &str, line: &[u8], now: Instant) {
        let is_opening = matches!(self.phase, Phase::Opening(_));
        // The banner does not count.
        let shown = is_opening.then(|| self.sources.secrets.shown(line, SHOWN));
        if shown.as_ref().is_some_and(|shown| shown.contains(SERVER_BANNER)) {
            return self.handle_server_banner();
        }
        let report = self.invalid_lines.get_or_insert_default().count(now);
        if report != Report::Nothing {
            let (reason, line) = (self.shown(reason), self.sources.secrets.shown(line, SHOWN));
            let line = printable_line(&line);
            match report {
                Report::Summary(others) => {
                    tracing::warn!(others, %reason, %line, "invalid lines dropped; the last is shown");
                }
                _ => tracing::warn!(%reason, %line, "invalid line dropped"),
            }
        }
        if let (Phase::Opening(opening), Some(shown)) = (&mut self.phase, shown)
            && opening.invalid_lines.len() < 3
        {
            opening.invalid_lines.push(shown);
        }
    }

    pub(super) fn handle_event(&mut self, event: Box<Event>, line: &[u8], now: Instant) {
        let Some(mut event) = self.join_halves(event, line) else { return };
        let added = self.add_tool_call(&mut event, now);
        let size = line.len() + added;
        let Some(event) = self.join_prompts(event, size) else { return };
        self.process_event(&event);
        let plan = plan::shown_in(&event);
        self.push_event(event, size);
        if let Some((plan, size)) = plan {
            self.process_event(&plan);
            self.emit(plan, size);
        }
    }

    /// Adds to an event the tool call that it is about. Returns by how many bytes the event has grown.
    pub(super) fn add_tool_call(&mut self, event: &mut Event, now: Instant) -> usize {
        let dialect = &self.dialect;
        let turn = self.turn.as_deref_mut().filter(|_| self.replay.is_none());
        let (record, begun) = turn.map(|turn| (&mut turn.record, &mut turn.spent.tool_calls)).unzip();
        let (details, is_unclear) = (|id: &str| dialect.call_details(id), self.is_unclear);
        self.tool_calls.take_in(event, &mut Present { details: &details, record, begun, now, is_unclear })
    }

    pub(super) fn scope(&self) -> Scope {
        self.replay.as_ref().map_or_else(|| self.live_scope(), |replay| Scope::Replay(replay.call))
    }

    /// Returns the scope of events that are not part of a replay.
    pub(super) fn live_scope(&self) -> Scope {
        self.turn.as_ref().map_or(Scope::Outside, |turn| Scope::Turn(turn.key, turn.step))
    }

    pub(super) fn emit(&mut self, event: Event, size: usize) {
        self.push_event(Box::new(event), size);
    }

    pub(super) fn push_event(&mut self, event: Box<Event>, size: usize) {
        let scope = self.scope();
        self.outputs.push_back(Output::Event { scope, event, size });
    }

    pub(super) fn process_event(&mut self, event: &Event) {
        match event {
            Event::Unknown(UnknownEvent { kind, error: Some(error), .. }) => {
                if let Some(count) = self.repeats.count("event") {
                    let (kind, error) = (self.shown(kind), self.shown(error));
                    tracing::warn!(kind, error, count, "an event's payload can't be read; it is delivered as it came");
                }
            }
            Event::Unknown(UnknownEvent { kind, .. }) => tracing::debug!(kind, "unknown event delivered"),
            _ => {}
        }
        match &mut self.replay {
            Some(replay) => replay.event(event),
            None => self.observe(event),
        }
        if let Event::ApprovalResponse(response) = event {
            self.resolved(response);
        }
    }

    /// Updates the session's state from an event, also if no program reads the event.
    fn observe(&mut self, event: &Event) {
        if let Some(turn) = &mut self.turn {
            turn.observe(event);
            turn::for_each_usage(event, &mut |usage| turn.spent.usage += usage);
        }
        self.observe_session(event);
    }

    /// Delivers a `HandlerFailed` event.
    pub(super) fn report_failure(
        &mut self,
        handler: HandlerKind,
        name: Option<String>,
        request_id: Option<String>,
        message: String,
    ) {
        let size = message.len();
        let event = HandlerFailed { handler, name, request_id, message, extra: Default::default() };
        let scope = self.live_scope();
        self.outputs.push_back(Output::Event { scope, event: Box::new(event.into()), size });
    }

    /// Reports that a handler without an answer (`on_event`) failed. `reported` is the message with the class of the exception.
    pub fn observer_failed(&mut self, handler: HandlerKind, message: &str, reported: String) {
        self.log_failure(&handler, None, warnings::logged_failure(message, &reported));
        if let Some(turn) = &mut self.turn {
            turn.record.failed(handler.clone(), None, &reported);
        }
        // Outside a turn the event would go to the handler that failed.
        if self.turn.is_some() {
            self.report_failure(handler, None, None, reported);
        }
    }
}

/// Whether a decision can depend on a message: it describes a call, or asks about one.
pub(super) fn decides(incoming: &Incoming) -> bool {
    match incoming {
        Incoming::Event(event) | Incoming::OutOfTurn(event) => {
            !matches!(**event, Event::ToolResult(_)) && concerns_tool_calls(event)
        }
        Incoming::Request { request, .. } => {
            matches!(**request, Event::ApprovalRequest(_) | Event::HookRequest(_) | Event::ToolCallRequest(_))
        }
        Incoming::Choice { .. } | Incoming::OwnToolRequest { .. } => true,
        Incoming::Batch(all) => all.iter().any(decides),
        _ => false,
    }
}
