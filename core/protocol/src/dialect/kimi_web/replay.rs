//! A replay: the transcript of the main agent, page by page, as events. The turns of a subagent come after the call
//! that has started them, as in a live turn.

use serde_json::json;

use super::agents::{Agents, Place};
use super::pages::{Item, Origin, Page, Turn};
use super::{Asked, KimiWeb, MAIN, failure, segment, unknown};
use crate::dialect::Incoming;
use crate::error::Result;
use crate::jsonrpc::RpcFailure;
use crate::messages::{Content, Json, TurnBegin, TurnEnd};

/// The number of turns in a page of a replay.
const PAGE: usize = 50;

/// A running replay.
#[derive(Debug)]
pub(super) struct Replay {
    /// The connection's call.
    call: String,
    /// The transcripts that are being read. The first is the main agent's. Each of the others is needed for the one
    /// before it.
    reading: Vec<Transcript>,
    /// The page of the main agent. It is emitted once the transcripts of its subagents are read.
    page: Page,
    /// The agents in the past, with the transcripts of subagents.
    agents: Agents,
    /// Live requests, which follow the replay.
    pub(super) waiting: Vec<Incoming>,
}

/// A transcript that is being read.
#[derive(Debug)]
struct Transcript {
    agent: String,
    /// The last turn that was read.
    after: i64,
    is_first: bool,
}

impl Transcript {
    fn of(agent: &str) -> Self {
        Self { agent: agent.to_owned(), after: -1, is_first: true }
    }

    /// Adds a page. Returns its new turns, and whether there are more. The first page is the end of the transcript: if
    /// there are more, they are read from the beginning.
    fn take(&mut self, mut page: Page) -> std::result::Result<Page, RpcFailure> {
        if std::mem::take(&mut self.is_first) && page.has_more {
            page.items.clear();
            return Ok(page);
        }
        let former = self.after;
        page.items.retain(|item| match item {
            Item::Turn(turn) if turn.ordinal <= self.after => false,
            Item::Turn(turn) => {
                self.after = turn.ordinal;
                true
            }
            Item::Other | Item::Unreadable(..) => true,
        });
        if page.has_more && self.after == former {
            return Err(unreadable("a page brings nothing new"));
        }
        Ok(page)
    }
}

fn unreadable(reason: &str) -> RpcFailure {
    failure(0, format!("the session's transcript can't be read: {reason}"))
}

impl KimiWeb {
    pub(super) fn begin_replay(&mut self, call: &str) -> Result<Vec<u8>> {
        self.replay = Some(Replay {
            call: call.to_owned(),
            reading: vec![Transcript::of(MAIN)],
            page: Page::default(),
            agents: Agents::default(),
            waiting: Vec::new(),
        });
        self.ask_for_page().inspect_err(|_| self.replay = None)
    }

    /// Returns the bytes of the call for the next page of the current transcript.
    fn ask_for_page(&mut self) -> Result<Vec<u8>> {
        let reading = self.replay.as_ref().and_then(|replay| replay.reading.last());
        let (agent, after) = reading.map_or((MAIN, None), |reading| {
            (&*reading.agent, (!reading.is_first).then(|| format!("&after_turn=t{}", reading.after)))
        });
        let query = format!("agent_id={}&page_size={PAGE}{}", segment(agent), after.unwrap_or_default());
        let path = self.path(&format!("/transcript?{query}"))?;
        Ok(self.get(Asked::Replay, &path))
    }

    /// Handles a page, and requests the next one.
    pub(super) fn replayed_page(&mut self, outcome: std::result::Result<Json, RpcFailure>, all: &mut Vec<Incoming>) {
        let Some(replay) = &mut self.replay else { return };
        let Some(reading) = replay.reading.last_mut() else { return };
        let agent = reading.agent.clone();
        let page = outcome.and_then(|answer| Page::read(&answer).map_err(|reason| unreadable(&reason)));
        let page = match page.and_then(|page| reading.take(page)) {
            Ok(page) => page,
            Err(error) if agent == MAIN => return self.end_replay(Err(error), all),
            Err(RpcFailure { code, message, .. }) => {
                tracing::warn!(agent, code, message, "the replay lacks a subagent");
                Page::default()
            }
        };
        let has_more = page.has_more;
        let subagents = page.turns().flat_map(Turn::subagents).filter(|agent| replay.agents.add(agent));
        let subagents: Vec<_> = subagents.map(Transcript::of).collect();
        if agent == MAIN {
            replay.page = page;
        } else {
            replay.agents.remember(&agent, page.into_turns());
            if !has_more {
                replay.reading.retain(|reading| reading.agent != agent);
            }
        }
        replay.reading.extend(subagents.into_iter().rev());
        if replay.reading.len() == 1 {
            self.tell_page(all);
            if !self.replay.as_ref().is_some_and(|replay| replay.page.has_more) {
                let done = json!({"status": "finished", "requests": 0});
                return self.end_replay(Ok(Json::from(done)), all);
            }
        }
        match self.ask_for_page() {
            Ok(bytes) => all.push(Incoming::Answered(bytes)),
            Err(error) => self.end_replay(Err(failure(0, error.to_string())), all),
        }
    }

    fn end_replay(&mut self, outcome: std::result::Result<Json, RpcFailure>, all: &mut Vec<Incoming>) {
        if let Some(replay) = self.replay.take() {
            all.push(Incoming::Response { id: Some(replay.call), outcome });
            all.extend(replay.waiting);
        }
    }

    /// Emits the current page of the main agent.
    fn tell_page(&mut self, all: &mut Vec<Incoming>) {
        let Some(replay) = &mut self.replay else { return };
        let items = std::mem::take(&mut replay.page.items);
        // A background turn may be running: the live agents are kept meanwhile.
        let present = std::mem::replace(&mut self.agents, std::mem::take(&mut replay.agents));
        for item in items {
            match item {
                Item::Turn(turn) => self.tell_turn(MAIN, *turn, all),
                Item::Unreadable(item, reason) => {
                    all.push(Incoming::event(unknown("transcript", item.get(), Some(reason))));
                }
                Item::Other => {}
            }
        }
        let past = std::mem::replace(&mut self.agents, present);
        if let Some(replay) = &mut self.replay {
            replay.agents = past;
        }
    }

    /// Emits a turn of the past.
    pub(super) fn tell_turn(&mut self, agent: &str, turn: Turn, all: &mut Vec<Incoming>) {
        self.agents.progress(agent).begin_turn(turn.ordinal);
        let user_input = Content::Text(turn.prompt.unwrap_or_default());
        let mut begin = TurnBegin { user_input, synthesized: None, extra: Default::default() };
        if let Some(Origin { kind, payload: Some(payload) }) = turn.origin
            && kind != "user"
            && agent == MAIN
        {
            begin.extra.insert("origin", payload);
        }
        self.push(agent, Place::Turn, begin.into(), all);
        for step in &turn.steps {
            self.tell_step(agent, turn.ordinal, step, true, Place::Turn, all);
        }
        if !matches!(turn.state.as_str(), "running" | "queued") {
            self.push(agent, Place::Turn, TurnEnd { synthesized: None, extra: Default::default() }.into(), all);
        }
    }
}
