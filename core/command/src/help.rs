//! The pages of `--help`: examples and exit codes after the options.

use clap::CommandFactory;

use super::{Arguments, exit};

const RUN: &str = "\
Examples:
  kimi-agent run \"Which tests fail, and why?\"
  git diff | kimi-agent run --quiet \"Review this change\" > review.md
  kimi-agent run -x gemini -C ../project --policy rules.toml --record runs/ \"Fix the failing test\"
  kimi-agent run --output-schema invoice.json --budget tokens=50000 \"Read invoice.txt\" | jq .total
  kimi-agent run --json --timeout 600 --yolo \"Update the changelog\" > events.jsonl";

const BATCH: &str = "\
Examples:
  kimi-agent batch jobs.jsonl --out results.jsonl --concurrency 8
  kimi-agent batch jobs.jsonl --journal batch.jsonl --out results.jsonl --html report.html
  jq -c '{prompt: .title, key: .id}' issues.jsonl | kimi-agent batch - --workspace worktree --yolo > results.jsonl

Exit code 0 means that all jobs finished, 1 that a job did not, 130 that Ctrl-C interrupted the batch.";

const REPORT: &str = "\
Examples:
  kimi-agent report batch.jsonl
  kimi-agent report batch.jsonl --html report.html

Exit code 0 means that the page was written, 1 that it cannot be written, 2 that the journal cannot be read.";

const DOCTOR: &str = "\
Examples:
  kimi-agent doctor
  kimi-agent doctor \"kimi-scripted-agent $PWD/script.json\"
  kimi-agent doctor gemini /opt/kimi/bin/kimi \"my-agent --acp\"
  kimi-agent doctor --json | jq '.agents[] | select(.state == \"usable\") | .path'

Exit codes:
    0  At least one agent can be used
    1  No agent can be used
    2  The arguments are wrong";

const VERIFY: &str = "\
Examples:
  kimi-agent verify run.jsonl
  kimi-agent verify run.jsonl -C \"$(mktemp -d)\" --model kimi-k2
  kimi-agent verify run.jsonl -x ./new/kimi --text --json | jq .differences

Exit code 0 means that all turns are as recorded, 1 that something differs, 2 that the recording cannot be used.";

const INSPECT: &str = "\
Examples:
  kimi-agent inspect run.jsonl
  kimi-agent inspect runs/*.jsonl --output runs.html
  kimi-agent inspect run.jsonl --json | jq '.[0].turns[].usage'
  kimi-agent inspect run.jsonl --atif > trajectory.json

Exit codes:
    0  The page, the summary or the trajectory was written
    1  A recording cannot be read, or the output cannot be written
    2  The arguments are wrong";

/// The description of `--executable` for `verify`, which has a default of its own.
const AGENT: &str =
    "The agent: a program, or a command line such as \"node agent.js --acp\". Default: that of the recording";
/// The description of `--timeout` for `batch`, whose jobs have a limit of their own.
const LIMIT: &str = "The time for the whole batch, in seconds. Default: no limit";
const WORDS: &str = "Repeat the option to give each word by itself.";

/// Returns the command with all pages of help.
pub(crate) fn command() -> clap::Command {
    let codes = exit::table();
    let command = Arguments::command().after_help(codes.clone());
    command
        .mut_subcommand("run", |command| command.after_help(format!("{RUN}\n\n{codes}")))
        .mut_subcommand("batch", |command| {
            let limit = |argument: clap::Arg| argument.help(LIMIT).long_help(LIMIT);
            let command = command.mut_arg("timeout", limit).mut_arg("session_id", |argument| argument.hide(true));
            command.after_help(format!("{BATCH}\n\n{codes}"))
        })
        .mut_subcommand("report", |command| command.after_help(REPORT))
        .mut_subcommand("verify", |command| {
            let executable = |argument: clap::Arg| argument.help(AGENT).long_help(format!("{AGENT}\n\n{WORDS}"));
            command.mut_arg("executable", executable).after_help(format!("{VERIFY}\n\n{codes}"))
        })
        .mut_subcommand("doctor", |command| command.after_help(DOCTOR))
        .mut_subcommand("inspect", |command| command.after_help(INSPECT))
}
