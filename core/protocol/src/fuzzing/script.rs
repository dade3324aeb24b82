//! Scenarios as text. A line that begins with `> ` is what the program, the pipe or the clock does:
//!
//! ```text
//! > speak 1.5                      first of all; legacy, 1.0, refusing, ahead, 1.1 to 1.10
//! > approval handler               who answers: nobody, yolo, manual, handler; `question` alike
//! > ungreeted, unobserved, limited
//! > prompt, image, cancel, steer, plan, replay, forget, observer_failed, stop_listening, listen, close, assume
//! > yes 0, no 0, fail 0            the function that was asked last comes back
//! > respond 1, dismiss 1, nonsense 1, unseen 1     by hand, to `id-1`
//! > pieces 3, wait 5, deadline, exit 0, finished 0, cancelled 0, refused 0
//! ```
//!
//! Any other line is the agent's, with `@prompt` for the id of the newest such call.
//!
//! A recording (`tests/recorded`) is such a text, too: there `> ` and `< ` are followed by messages.

use super::scenario::{Answering, Deed, Reply, Scenario, Spoken, Step};

const METHODS: &[&str] = &["initialize", "prompt", "cancel", "steer", "set_plan_mode", "replay"];

/// `None` where the text is none: a fuzzer need not follow it.
pub(super) fn read(data: &[u8]) -> Option<Scenario> {
    let is_recorded = data.starts_with(b"> {");
    let mut scenario = Scenario {
        spoken: if is_recorded { spoken(data) } else { Spoken::named("1.10")? },
        approval: Answering::Handler,
        question: if is_recorded { Answering::Handler } else { Answering::Manual },
        observed: true,
        limited: false,
        greeted: !is_recorded,
        steps: Vec::new(),
    };
    for line in data.split(|byte| *byte == b'\n') {
        if let Some(told) = line.strip_prefix(b"> ") {
            let told = std::str::from_utf8(told).ok()?;
            if told.starts_with('{') { scenario.steps.extend(said(told)) } else { obey(&mut scenario, told)? }
        } else if let Some(line) = line.strip_prefix(b"< ") {
            scenario.steps.push(Step::Line(renamed(line)));
        } else {
            scenario.steps.push(Step::Line(line.to_vec()));
        }
    }
    Some(scenario)
}

/// The protocol of the agent of a recording.
fn spoken(data: &[u8]) -> Spoken {
    let text = String::from_utf8_lossy(data);
    let answer = text.lines().find(|line| line.starts_with("< ") && line.contains("\"id\":\"initialize-"));
    let version = answer.and_then(|answer| answer.split_once("\"protocol_version\":\"")?.1.split_once('"'));
    match (answer, version) {
        _ if text.contains("\"method\":\"run\"") => Spoken::Legacy,
        (Some(_), Some((version, _))) => Spoken::named(version).unwrap_or(Spoken::Ahead),
        (Some(_), None) => Spoken::Refusing,
        (None, _) => Spoken::V1_0,
    }
}

/// The steps of the program of a recording, by the lines that they caused.
fn said(message: &str) -> Option<Step> {
    let has = |member: &str| message.contains(member);
    Some(match () {
        () if has("\"method\":\"prompt\"") || has("\"method\":\"run\"") => Step::Prompt,
        () if has("\"method\":\"cancel\"") || has("\"method\":\"interrupt\"") => Step::Cancel(0),
        () if has("\"method\":\"steer\"") => Step::Steer(0),
        () if has("\"method\":\"set_plan_mode\"") => Step::PlanMode(true),
        () if has("\"method\":\"replay\"") => Step::Replay,
        () if has("\"result\":") => Step::Handle(0, if has("\"reject\"") { Deed::No } else { Deed::Yes }),
        () => return None,
    })
}

/// Ids of our calls are other ones this time.
fn renamed(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    for method in METHODS {
        let id = format!("\"id\":\"{method}-");
        if let Some((before, after)) = text.split_once(&id)
            && let Some((_, after)) = after.split_once('"')
        {
            return format!("{before}\"id\":\"@{method}\"{after}").into_bytes();
        }
    }
    line.to_vec()
}

fn obey(scenario: &mut Scenario, told: &str) -> Option<()> {
    let (word, rest) = told.split_once(' ').unwrap_or((told, ""));
    let number = || if rest.is_empty() { Some(0) } else { rest.parse().ok() };
    scenario.steps.push(match word {
        "speak" => {
            scenario.spoken = Spoken::named(rest)?;
            return Some(());
        }
        "approval" | "question" => {
            let who = match rest {
                "nobody" => Answering::Nobody,
                "yolo" => Answering::Yolo,
                "manual" => Answering::Manual,
                "handler" => Answering::Handler,
                _ => return None,
            };
            *(if word == "approval" { &mut scenario.approval } else { &mut scenario.question }) = who;
            return Some(());
        }
        "ungreeted" => {
            scenario.greeted = false;
            return Some(());
        }
        "unobserved" => {
            scenario.observed = false;
            return Some(());
        }
        "limited" => {
            scenario.limited = true;
            return Some(());
        }
        "prompt" => Step::Prompt,
        "image" => Step::PromptImage,
        "cancel" => Step::Cancel(number()?),
        "steer" => Step::Steer(number()?),
        "plan" => Step::PlanMode(true),
        "replay" => Step::Replay,
        "forget" => Step::Forget(number()?),
        "observer_failed" => Step::ObserverFailed,
        "stop_listening" => Step::Listen(false),
        "listen" => Step::Listen(true),
        "close" => Step::Close,
        "assume" => Step::Assume,
        "yes" => Step::Handle(number()?, Deed::Yes),
        "no" => Step::Handle(number()?, Deed::No),
        "fail" => Step::Handle(number()?, Deed::Fail),
        "respond" => Step::Respond(number()?, Deed::Yes),
        "dismiss" => Step::Respond(number()?, Deed::No),
        "nonsense" => Step::Respond(number()?, Deed::Fail),
        "unseen" => Step::Unseen(number()?),
        "pieces" => Step::Pieces(number()?),
        "wait" => Step::Wait(number()?),
        "deadline" => Step::Deadline,
        "exit" => Step::Exit(number()?),
        "finished" => Step::Answer(number()?, Reply::Finished),
        "cancelled" => Step::Answer(number()?, Reply::Cancelled),
        "refused" => Step::Answer(number()?, Reply::NotFound),
        _ => return None,
    });
    Some(())
}
