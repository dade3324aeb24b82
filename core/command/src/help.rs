//! The pages of `--help`: examples and exit codes after the options.

use clap::CommandFactory;

use super::{Arguments, exit};

const ALL: &str = "\
Examples:
  kimi-agent doctor                                        # which agents are installed
  kimi-agent login codex-acp                               # log in to an agent
  kimi-agent run --record run.jsonl \"Summarize README.md\"  # one prompt, with a recording
  kimi-agent inspect run.jsonl                             # a page that shows the recording
  kimi-agent verify run.jsonl                              # does the agent still do the same?
  kimi-agent batch jobs.jsonl --out results.jsonl          # many prompts
  kimi-agent policy check read-only \"git status\"           # what does a policy decide?
  kimi-agent proxy --policy read-only -- gemini --acp      # the agent of an editor, with rules
  kimi-agent serve --listen 127.0.0.1:8421 -- gemini --acp # an agent on an address
  kimi-agent mcp --agent gemini --policy read-only         # an agent as a tool of another

`kimi-agent COMMAND --help` describes a command, with examples.";

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
  jq -c '{prompt: .title, key: .id}' issues.jsonl | kimi-agent batch - --workspace worktree --yolo > results.jsonl";
const BATCH_CODES: &[(i32, &str)] = &[
    (0, "All jobs finished"),
    (1, "A job failed"),
    (2, "An option is wrong, two jobs have the same key, or the journal is in use"),
    (124, "The batch took longer than --timeout"),
    (130, "Ctrl-C interrupted the batch"),
];

const REPORT: &str = "\
Examples:
  kimi-agent report batch.jsonl
  kimi-agent report batch.jsonl --html report.html";
const REPORT_CODES: &[(i32, &str)] =
    &[(0, "The page was written"), (1, "The page cannot be written"), (2, "The journal cannot be read")];

const DOCTOR: &str = "\
Examples:
  kimi-agent doctor
  kimi-agent doctor \"kimi-scripted-agent $PWD/script.json\"
  kimi-agent doctor gemini /opt/kimi/bin/kimi \"my-agent --acp\"
  kimi-agent doctor --json | jq '.agents[] | select(.state == \"usable\") | .path'";
const DOCTOR_CODES: &[(i32, &str)] =
    &[(0, "At least one agent can be used"), (1, "No agent can be used"), (2, "The arguments are wrong")];

const LOGIN: &str = "\
Examples:
  kimi-agent login codex-acp
  kimi-agent login claude-agent-acp --list
  kimi-agent login claude-agent-acp --method console-login";
const LOGIN_CODES: &[(i32, &str)] = &[
    (0, "The login succeeded"),
    (1, "The login failed"),
    (2, "The arguments are wrong, or the agent has no login for a terminal"),
    (124, "The agent did not start in time"),
    (127, "The agent could not be started, for example because it is not installed"),
    (130, "Ctrl-C interrupted the command"),
];

const VERIFY: &str = "\
Examples:
  kimi-agent verify run.jsonl
  kimi-agent verify run.jsonl -C \"$(mktemp -d)\" --model kimi-k2
  kimi-agent verify run.jsonl -x ./new/kimi --text --json | jq .differences";
const VERIFY_CODES: &[(i32, &str)] = &[
    (0, "All turns are as recorded"),
    (1, "Something differs from the recording, or the agent failed"),
    (2, "The recording cannot be used, or the arguments are wrong"),
];

const INSPECT: &str = "\
Examples:
  kimi-agent inspect run.jsonl
  kimi-agent inspect runs/*.jsonl --output runs.html
  kimi-agent inspect run.jsonl --json | jq '.[0].turns[].usage'
  kimi-agent inspect run.jsonl --atif > trajectory.json";
const INSPECT_CODES: &[(i32, &str)] = &[
    (0, "The page, the summary or the trajectory was written"),
    (1, "A recording cannot be read, or the output cannot be written"),
    (2, "The arguments are wrong"),
];

const PROXY: &str = "\
Examples:
  kimi-agent proxy --policy read-only -- gemini --acp
  kimi-agent proxy --policy ~/team.toml --enforce calls --record ~/runs -- claude-agent-acp
  kimi-agent proxy --budget tokens=1000000 --turn-budget tool-calls=100 -- opencode acp";
const PROXY_CODES: &[(i32, &str)] = &[
    (0, "The editor has ended the agent"),
    (1, "The agent failed, or the agent or the editor could not be understood"),
    (2, "An option or a file of settings is wrong"),
    (127, "The agent could not be started"),
    (130, "Ctrl-C or a signal ended the proxy"),
];

const SERVE: &str = "\
Examples:
  kimi-agent serve --policy read-only -- gemini --acp
  kimi-agent serve --listen 127.0.0.1:8421 --record ~/runs -- claude-agent-acp
  kimi-agent serve --listen 0.0.0.0:8421 --token-file token.txt --policy ~/team.toml -- opencode acp";
const SERVE_CODES: &[(i32, &str)] = &[
    (1, "The address cannot be used, for example because the port is in use"),
    (2, "An option or a file of settings is wrong, or the token is missing"),
    (127, "The agent could not be found"),
    (130, "Ctrl-C or a signal ended the server"),
];

const MCP: &str = "\
Examples:
  kimi-agent mcp --agent gemini --policy read-only
  kimi-agent mcp --agent codex-acp --agent claude-agent-acp -C ~/project --policy edit-files --record ~/runs
  kimi-agent mcp --agent \"reviewer=opencode acp\" --timeout 600";
const MCP_CODES: &[(i32, &str)] = &[
    (0, "The client has closed the connection"),
    (1, "The client could not be served"),
    (2, "The arguments are wrong"),
    (130, "Ctrl-C or a signal ended the command"),
];

const POLICY: &str = "\
Examples:
  kimi-agent policy check rules.toml \"git status && rm -rf build\"
  kimi-agent policy check read-only '{\"name\": \"ReadFile\", \"arguments\": {\"path\": \".env\"}}'
  kimi-agent policy explain edit-files";
const POLICY_CODES: &[(i32, &str)] = &[
    (0, "The call is allowed, or all rules can decide"),
    (1, "The call is asked about or denied, or a rule can never decide"),
    (2, "The policy or the call cannot be read"),
];

const COMPLETIONS: &str = "\
Examples:
  kimi-agent completions bash > ~/.local/share/bash-completion/completions/kimi-agent
  kimi-agent completions zsh > ~/.zfunc/_kimi-agent    # with ~/.zfunc in $fpath
  kimi-agent completions fish > ~/.config/fish/completions/kimi-agent.fish

Open a new shell afterwards.";

/// The description of `--executable` for `verify`, which has a default of its own.
const AGENT: &str = "The agent: a program, or a command line such as \"node agent.js --acp\". Default, with --trust: the agent that the recording names";
/// The description of `--timeout` for `batch`, whose jobs have a limit of their own.
const LIMIT: &str = "The time for the whole batch, in seconds. Default: no limit";
const WORDS: &str = "Repeat the option to give each word by itself.";

/// Returns the command with all pages of help.
pub(crate) fn command() -> clap::Command {
    let command = Arguments::command().after_help(format!("{ALL}\n\n{}", exit::table(&[])));
    command
        .mut_subcommand("run", |command| {
            command.after_help(format!("{RUN}\n\n{}", exit::table(&[(1, "The agent or the turn failed")])))
        })
        .mut_subcommand("batch", |command| {
            let limit = |argument: clap::Arg| argument.help(LIMIT).long_help(LIMIT);
            let command = command.mut_arg("timeout", limit).mut_arg("session_id", |argument| argument.hide(true));
            command.after_help(page(BATCH, BATCH_CODES))
        })
        .mut_subcommand("report", |command| command.after_help(page(REPORT, REPORT_CODES)))
        .mut_subcommand("verify", |command| {
            let executable = |argument: clap::Arg| argument.help(AGENT).long_help(format!("{AGENT}\n\n{WORDS}"));
            let codes = exit::table(VERIFY_CODES);
            command.mut_arg("executable", executable).after_help(format!("{VERIFY}\n\n{codes}"))
        })
        .mut_subcommand("doctor", |command| command.after_help(page(DOCTOR, DOCTOR_CODES)))
        .mut_subcommand("login", |command| command.after_help(page(LOGIN, LOGIN_CODES)))
        .mut_subcommand("inspect", |command| command.after_help(page(INSPECT, INSPECT_CODES)))
        .mut_subcommand("proxy", |command| command.after_help(page(PROXY, PROXY_CODES)))
        .mut_subcommand("serve", |command| command.after_help(page(SERVE, SERVE_CODES)))
        .mut_subcommand("mcp", |command| {
            let hidden = ["executable", "session_id", "output_schema"];
            let hide = |command: clap::Command, name| command.mut_arg(name, |argument| argument.hide(true));
            hidden.into_iter().fold(command, hide).after_help(page(MCP, MCP_CODES))
        })
        .mut_subcommand("policy", |command| {
            let command = command.after_help(page(POLICY, POLICY_CODES));
            ["check", "explain"].iter().fold(command, |command, name| {
                command.mut_subcommand(name, |command| command.after_help(page(POLICY, POLICY_CODES)))
            })
        })
        .mut_subcommand("completions", |command| command.after_help(COMPLETIONS))
}

fn page(examples: &str, codes: &[(i32, &str)]) -> String {
    format!("{examples}\n\n{}", exit::listed(codes.iter().copied()))
}
