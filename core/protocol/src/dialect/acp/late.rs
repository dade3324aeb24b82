//! Agents that send the end of their text after the answer to the prompt, against the protocol.

use std::time::Duration;

use crate::dialect::Release;
use crate::messages::ServerInfo;

/// An agent that needs a grace.
struct Late {
    /// The name of the agent in its handshake.
    name: &'static str,
    /// The first release that does not need it.
    until: Release,
    grace: Duration,
}

/// OpenCode forwards its events in a task of its own, and answers the prompt beside it. Its users have seen text up to 100 ms
/// after the answer with releases from 1.15 to 1.17. 1.18.33 has sent none.
const LATE: [Late; 1] = [Late { name: "OpenCode", until: Release::new(1, 18), grace: Duration::from_millis(300) }];

/// Returns how long a turn of this agent waits for text after its end.
pub(super) fn grace(agent: &ServerInfo) -> Option<Duration> {
    let late = LATE.iter().find(|late| late.name == agent.name)?;
    Release::parse(&agent.version).is_none_or(|release| release < late.until).then_some(late.grace)
}
