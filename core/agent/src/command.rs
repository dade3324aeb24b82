//! The command line of the scripted agent.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};

use super::io::Io;
use super::lanes;
use super::release::{is_kimi_code, unknown_flag};
use super::replay;
use super::run::{Agent, Options};
use super::script::Script;
use super::types::Profile;

const USAGE: &str = "usage: kimi-scripted-agent SCRIPT.json [--wire] [--work-dir=DIR] [--session=ID] [--yolo] \
[--max-steps-per-turn=N] [any option of kimi-cli]
       kimi-scripted-agent --play-recording RECORDING.jsonl [--verify | --stub] [--report=FILE] [any option of kimi-cli]

Speaks Wire (or ACP, if the script says so) on standard input and output, and does what the script says: a JSON list of turns, one a prompt, each a
list of actions.

    [
      [
        {\"think\": \"A greeting.\"},
        {\"text\": [\"Hel\", \"lo\"], \"delay_between\": 0.1},
        {\"tool_call\": {\"name\": \"Shell\", \"arguments\": {\"command\": \"ls\"}, \"approve\": true, \"result\": \"a.txt\"}},
        {\"text\": \"You said {{prompt}}, and {{last.response}}.\"},
        {\"usage\": {\"input_other\": 10, \"output\": 2}}
      ],
      [{\"error\": {\"code\": -32003, \"message\": \"the model is down\"}}]
    ]

Actions: text, think, step, tool_call, external_tool, question, parallel, hook, usage, status, event, request, raw,
raw_base64, end, error, never_answer, wait_cancel, wait_steer, wait_file, repeat, stderr, exit, signal, ignore_signal,
close_stdout, break_socket, wait_socket, ignore_eof, stall; each may have a \"delay\" in seconds before it. The package's documentation on testing
describes them all.

With --play-recording, it plays the agent of a recording, over the protocol of the recording. With --verify, it ends with an error
as soon as the program does something else than recorded. With --stub, it reports the results that the tools of the program return
now. With --report, the difference that --verify finds is also written to that file.
";

const VERSION: &str = concat!("kimi-scripted-agent, version ", env!("CARGO_PKG_VERSION"), "\n");

/// Runs the agent with these arguments, without the program's name. Returns its exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    ignore_broken_pipes();
    let mut arguments = arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned());
    let Some(first) = arguments.next() else { return complain(USAGE) };
    let rest: Vec<String> = arguments.collect();
    if first == "--play-recording" {
        return if rest.iter().any(|argument| argument == "--version") { show(VERSION) } else { replay::main(&rest) };
    }
    let asked = rest.iter().any(|argument| argument == "--version");
    if first == "--version" {
        return show(VERSION);
    }
    if first == "--help" || first == "-h" {
        return show(USAGE);
    }
    let script = match fs::read_to_string(&first) {
        Ok(text) => Script::parse(&text),
        Err(error) => Err(format!("can't read it: {error}")),
    };
    if asked {
        let release = script.ok().and_then(|script| script.release);
        return show(&match release {
            None => VERSION.to_owned(),
            Some(release) if is_kimi_code(release) => format!("{release}\n"),
            Some(release) => format!("kimi, version {release}\n"),
        });
    }
    if let Ok(Some(release)) = script.as_ref().map(|script| script.release)
        && let Some(flag) = unknown_flag(release, &rest)
    {
        if is_kimi_code(release) {
            complain(&format!("error: unknown option '{flag}'\n"));
            return 1;
        }
        return complain(&format!("No such option: {flag}\n"));
    }
    let is_web = rest.first().is_some_and(|argument| argument == "web");
    let (mut script, options) = match (script, Options::parse(rest)) {
        (Err(error), _) => return complain(&format!("kimi-scripted-agent: {first}: {error}\n")),
        (_, Err(error)) => return complain(&format!("kimi-scripted-agent: {error}\n")),
        (Ok(script), Ok(options)) => (script, options),
    };
    if is_web {
        if script.chooses && !script.profile.is_kimi_code() {
            complain("error: unknown command 'web'\n");
            return 1;
        }
        let server = script.profile.server.clone();
        script.profile =
            Profile { slash_commands: script.profile.slash_commands, ..Profile::web(server.name, server.version) };
    }
    if script.profile.web {
        return run_web(script, options);
    }
    if script.profile.acp {
        return lanes::run(script, options);
    }
    let agent = Agent::new(&script, options, Io::standard());
    agent.run(&script.before_handshake, script.turns).unwrap_or(0)
}

#[cfg(feature = "web")]
fn run_web(script: Script, options: Options) -> i32 {
    crate::web::run(script, options)
}

#[cfg(not(feature = "web"))]
fn run_web(_: Script, _: Options) -> i32 {
    complain("kimi-scripted-agent: this build has no web server: enable the feature `web`\n")
}

fn show(text: &str) -> i32 {
    let _ = io::stdout().write_all(text.as_bytes());
    0
}

fn complain(text: &str) -> i32 {
    let _ = io::stderr().write_all(text.as_bytes());
    2
}

/// Ignores SIGPIPE, so that a client that closes its end does not kill the agent.
fn ignore_broken_pipes() {
    #[cfg(unix)]
    // SAFETY: sets a disposition, which no other thread relies on.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}
