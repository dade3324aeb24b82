//! `kimi-agent policy`: what a policy decides about a call, and what its rules are.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use kimi_agent_policy::{Decision, Policy};
use kimi_agent_protocol::Error;
use kimi_agent_protocol::printable::{printable_line, unambiguous, visible_json};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::{exit, write_out};

/// Larger calls are refused.
const MAX_CALL: u64 = 16 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Decides about one tool call, without an agent.
    ///
    /// The decision, the rule, the part of the call that decided and the reason are printed.
    Check {
        /// The file of the policy, or the name of a preset: read-only or edit-files.
        policy: PathBuf,
        /// The call: JSON with `name`, and optionally `kind` and `arguments`; or the text of a shell command. `-` reads it from
        /// the standard input.
        call: String,
        /// The directory that the agent would work in. Default: the current directory.
        #[arg(short = 'C', long, value_name = "DIRECTORY")]
        work_dir: Option<PathBuf>,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
    /// Lists the rules of a policy, also those of its preset: what each means, and the rules that can never decide.
    Explain {
        /// The file of the policy, or the name of a preset: read-only or edit-files.
        policy: PathBuf,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command. The exit code is that of the decision.
pub(crate) fn run(command: PolicyCommand) -> Result<i32, Failure> {
    match command {
        PolicyCommand::Check { policy, call, work_dir, json } => {
            let policy = load(&policy)?;
            check(&policy, &call, work_dir.as_deref().unwrap_or(Path::new(".")), json)
        }
        PolicyCommand::Explain { policy, json } => explain(&load(&policy)?, json),
    }
}

fn load(path: &Path) -> Result<Policy, Failure> {
    Policy::named_os(path).map_err(|error| Failure::wrong("POLICY", reason(error)))
}

/// Returns the text of an error without the name of the option, which the command calls differently.
pub(crate) fn reason(error: Error) -> String {
    match error {
        Error::InvalidOption { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn check(policy: &Policy, call: &str, work_dir: &Path, as_json: bool) -> Result<i32, Failure> {
    let mut text = String::new();
    if call == "-" {
        let read = std::io::stdin().lock().take(MAX_CALL + 1).read_to_string(&mut text);
        read.map_err(|error| Failure::wrong("CALL", format!("the standard input cannot be read: {error}")))?;
        if text.len() as u64 > MAX_CALL {
            return Err(Failure::wrong("CALL", "expected at most 16 MiB"));
        }
    } else {
        call.clone_into(&mut text);
    }
    let call = if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).map_err(|error| Failure::wrong("CALL", format!("not valid JSON: {error}")))?
    } else {
        json!({"name": "Shell", "arguments": {"command": text}})
    };
    let verdict = policy.check_json(&call, work_dir).map_err(|error| Failure::wrong("CALL", reason(error)))?;
    let out = if as_json {
        format!("{}\n", visible_json(&serde_json::to_string(&verdict).unwrap_or_default()))
    } else {
        let mut out = format!("{}\n", verdict.decision);
        let rule = verdict.rule.as_ref().map(|rule| match &verdict.source {
            Some(source) => format!("{rule} ({source})"),
            None => rule.clone(),
        });
        for (name, value) in [("rule", rule), ("part", verdict.part), ("reason", Some(verdict.reason))] {
            if let Some(value) = value {
                writeln!(out, "  {name}: {}", printable_line(&unambiguous(&value))).ok();
            }
        }
        out
    };
    write_out(out.as_bytes())?;
    Ok(match verdict.decision {
        Decision::Allow => exit::SUCCEEDED,
        _ => exit::FAILED,
    })
}

fn explain(policy: &Policy, as_json: bool) -> Result<i32, Failure> {
    let out = if as_json {
        let described = |((list, rule, source), meaning): ((&str, &str, &str), String)| json!({"list": list, "rule": rule, "source": source, "meaning": meaning});
        let rules: Vec<Value> = policy.rules().zip(policy.meanings()).map(described).collect();
        let found = json!({"default": policy.default_decision(), "rules": rules, "warnings": policy.warnings()});
        format!("{}\n", visible_json(&found.to_string()))
    } else {
        let mut out = String::new();
        for ((list, rule, source), meaning) in policy.rules().zip(policy.meanings()) {
            writeln!(out, "{list:<6} {} ({})", printable_line(rule), printable_line(source)).ok();
            writeln!(out, "       a call that {}", printable_line(&meaning)).ok();
        }
        writeln!(out, "all others: {}", policy.default_decision()).ok();
        for warning in policy.warnings() {
            writeln!(out, "warning: {}", printable_line(warning)).ok();
        }
        out
    };
    write_out(out.as_bytes())?;
    Ok(if policy.warnings().is_empty() { exit::SUCCEEDED } else { exit::FAILED })
}
