//! Checks of the options of a session against what its agent can do.

use kimi_agent_protocol::budget::uncounted;

use crate::dialect::{Handshake, PolicyReach, Services, agent_name, unsupported_option};
use crate::driver::shared::Shared;
use crate::error::{Error, Result};
use crate::options::{Enforce, Naming};
use crate::{Budget, BudgetCounter, Prices};

/// Makes the error for an agent that cannot request approvals. It must not get the chance to.
pub(super) fn half_duplex(agent: &str) -> Error {
    Error::Unsupported(format!(
        "{agent} does not support approvals: it reads nothing while a turn runs, so one would block it for ever; \
         set `yolo` to do without them"
    ))
}

/// Fails if an option needs a capability that the agent lacks, because the agent would ignore the option.
pub(super) fn check_capabilities(handshake: &Handshake, tools: bool, hooks: &[String]) -> Result<()> {
    let can = &handshake.capabilities;
    let agent = agent_name(handshake.server.as_ref(), &handshake.protocol_version);
    if tools && !can.external_tools {
        return Err(unsupported_option(handshake, "tools"));
    }
    for event in hooks {
        if can.hooks.is_empty() {
            return Err(unsupported_option(handshake, "hooks"));
        }
        if !can.hooks.contains(event) {
            let known = can.hooks.join(", ");
            return Err(Error::Unsupported(format!("{agent} has no hook on `{event}`; it has: {known}")));
        }
    }
    for tool in &handshake.external_tools.rejected {
        tracing::warn!(tool = tool.name, reason = tool.reason, "the agent refuses a tool");
    }
    Ok(())
}

/// Fails if the policy must see all calls and cannot, or else logs what a policy that denies does not see.
pub(super) fn check_reach(handshake: &Handshake, enforce: Enforce, can_deny: bool, naming: Naming) -> Result<()> {
    if handshake.capabilities.policy != PolicyReach::Approvals {
        return Ok(());
    }
    let agent = agent_name(handshake.server.as_ref(), &handshake.protocol_version);
    if enforce == Enforce::Calls {
        let option = naming.name("enforce");
        return Err(Error::Unsupported(format!(
            "{agent} does not support `{option}` = \"calls\": it can run calls without asking, and has no hook on `PreToolUse` by \
             which the policy would see them first; set `{option}` to \"approvals\" to check only what the agent asks about, or \
             run it in a sandbox"
        )));
    }
    if can_deny {
        tracing::warn!(
            agent,
            "the policy sees only the calls that the agent asks about, since the agent has no hook on PreToolUse: calls that \
             it runs without asking are not denied"
        );
    }
    Ok(())
}

/// Fails if handlers of files or terminals are set and the agent cannot use them.
pub(super) fn check_services(handshake: &Handshake, services: Services, naming: Naming) -> Result<()> {
    let can = &handshake.capabilities;
    let refused = [
        ("on_read_file", services.read_file && !can.files),
        ("on_write_file", services.write_file && !can.files),
        ("on_terminal", services.terminal && !can.terminals),
    ];
    let refused = refused.into_iter().find(|(_, is_refused)| *is_refused);
    refused.map_or(Ok(()), |(option, _)| Err(unsupported_option(handshake, &naming.name(option))))
}

/// The prices of a session, and what decides about its price.
pub(super) struct Pricing {
    pub(super) prices: Prices,
    pub(super) model: Option<String>,
    pub(super) session_budget: Option<Budget>,
}

impl Pricing {
    /// Returns whether the model that the session uses now has a price.
    pub(super) fn has_price(&self, shared: &Shared) -> bool {
        self.prices.find(self.model.as_deref(), &shared.config_options()).is_some()
    }
}

/// Fails if a budget counts something that the agent does not report: it would never be exceeded.
pub(crate) fn check_budget(
    handshake: &Handshake,
    has_price: bool,
    option: &str,
    budget: Option<Budget>,
    naming: Naming,
) -> Result<()> {
    let mut reported = handshake.reported();
    reported.cost |= has_price && reported.tokens;
    let uncounted = budget.and_then(|budget| uncounted(&budget, reported));
    let Some(counter) = uncounted else { return Ok(()) };
    let agent = agent_name(handshake.server.as_ref(), &handshake.protocol_version);
    let option = naming.name(option);
    if counter == BudgetCounter::Usd && reported.tokens {
        return Err(Error::Unsupported(format!(
            "{agent} does not report costs, so the limit `usd` of `{option}` would never be exceeded; set `prices` with the price of \
             the session's model, or of \"*\""
        )));
    }
    let counter = naming.name(counter.as_str());
    Err(Error::Unsupported(format!(
        "{agent} does not report what `{counter}` of `{option}` counts, so the limit would never be exceeded; limit \
         `{}` or `seconds` instead",
        naming.name("tool_calls")
    )))
}
