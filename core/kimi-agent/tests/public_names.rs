//! The list of the public names in Rust. Each is used in a function that is compiled and never called. The scenarios read
//! the names here, to require that each is played; `tests/api/names.json` has those of Python and Node.

#![allow(dead_code, reason = "it only has to compile")]

use std::time::Duration;

use futures_core::Stream;
use kimi_agent::testing::{
    Cassette, CassetteMode, ReplayMode, ReplayedAgent, ScriptedAgent, replayed_agent, scripted_agent,
};
use kimi_agent::wire::{self, ContentPart, Event};
use kimi_agent::{
    Agent, AgentExit, AgentOptions, Answers, Approval, Budget, BudgetCounter, BudgetExceeded, Capabilities,
    ConfigOption, ConfigValue, Container, Decision, Dialect, Enforce, Error, ExternalTool, HandlerError, Hook,
    HookDecision, InheritEnv, OnError, Output, OutputError, OutputInvalid, OutputMode, Partial, Place, Policy,
    PolicyReach, PolicyVerdict, Prefix, Price, Prices, PromptOptions, PromptResult, ProxyOptions, Remote, Replay,
    RpcError, RpcErrorKind, Sandbox, Session, SessionInfo, SessionOptions, SessionState, Ssh, Step, TextStream,
    ToolContext, Turn, TurnStatus,
};
use serde_json::{Value, json};

macro_rules! names {
    ($($group:ident($($arg:ident: $ty:ty),*) { $($name:literal => $use:expr;)* })*) => {
        $(async fn $group($($arg: $ty),*) -> Result<(), HandlerError> {
            $(let _ = $use;)*
            Ok(())
        })*
    };
}

fn is_text_stream<S: Stream<Item = kimi_agent::Result<String>>>(_: &S) {}
fn is_stream<S: Stream<Item = kimi_agent::Result<Event>>>(_: &S) {}

names! {
    functions() {
        "prompt" => kimi_agent::prompt("", SessionOptions::new()).result().await?;
        "printable" => kimi_agent::printable("");
        "testing.scripted_agent" => { let agent: ScriptedAgent = scripted_agent("[]"); SessionOptions::new().executable(&agent) };
        "testing.replayed_agent" => { let agent: ReplayedAgent = replayed_agent(""); SessionOptions::new().executable(&agent) };
        "testing.ReplayedAgent.mode" => replayed_agent("").mode(ReplayMode::Stub);
        "testing.ReplayMode" => [ReplayMode::Replay, ReplayMode::Verify].len();
        "testing.Cassette" => { let cassette: Cassette = Cassette::new("a"); cassette };
        "testing.Cassette.executable" => Cassette::new("a").executable("kimi");
        "testing.Cassette.mode" => Cassette::new("a").mode(CassetteMode::All);
        "testing.Cassette.verify" => Cassette::new("a").verify(false);
        "testing.Cassette.is_recording" => Cassette::new("a").mode(CassetteMode::Rewrite).is_recording()?;
        "testing.CassetteMode" => [CassetteMode::Once, CassetteMode::None].len();
        "testing.CassetteMode.as_str" => CassetteMode::Once.as_str().len();
        "testing.Cassette.path" => Cassette::new("a").path().is_absolute();
        "testing.Cassette.agent_options" => Cassette::new("").mode(CassetteMode::None).agent_options().is_err();
        "testing.Cassette.options" => Cassette::new("").mode(CassetteMode::None).options().is_err();
    }
    guards(options: ProxyOptions, policy: Policy) {
        "ProxyOptions.new" => ProxyOptions::new("gemini");
        "ProxyOptions.policy" => options.clone().policy(policy);
        "ProxyOptions.enforce" => options.clone().enforce(Enforce::Calls);
        "ProxyOptions.session_budget" => options.clone().session_budget(Budget::new());
        "ProxyOptions.turn_budget" => options.clone().turn_budget(Budget::new());
        "ProxyOptions.day_budget" => options.clone().day_budget(Budget::new());
        "ProxyOptions.record_to" => options.clone().record_to("runs/");
        "ProxyOptions.redact" => options.clone().redact([""]);
        "ProxyOptions.work_dir" => options.clone().work_dir(".");
        "ProxyOptions.place" => options.clone().place(Place::sandbox());
        "ProxyOptions.place_named" => options.clone().place_named("sandbox");
        "ProxyOptions.on_stderr" => options.clone().on_stderr(|_| {});
        "ProxyOptions.with_user_settings" => options.clone().with_user_settings();
        "proxy" => kimi_agent::proxy(tokio::io::empty(), tokio::io::sink(), options).await?;
    }
    agents(agent: &Agent) {
        "Agent.builder" => Agent::builder().open()?;
        "Agent.create_session" => agent.create_session(SessionOptions::new()).await?;
        "Agent.list_sessions" => agent.list_sessions(None).await?;
        "Agent.list_archived_sessions" => agent.list_archived_sessions(None).await?;
        "Agent.rename_session" => agent.rename_session("", "").await?.len();
        "Agent.archive_session" => agent.archive_session("").await?;
        "Agent.unarchive_session" => agent.unarchive_session("").await?;
        "Agent.delete_session" => agent.delete_session("").await?;
        "Agent.resume" => agent.resume("", SessionOptions::new()).await?;
        "Agent.fork" => agent.fork("", SessionOptions::new()).await?;
        "Agent.close" => agent.close().await?;
        "Agent.close_with_timeout" => agent.close_with_timeout(Duration::ZERO).await?;
    }
    listed(session: SessionInfo) {
        "SessionInfo.id" => session.id.len();
        "SessionInfo.work_dir" => session.work_dir.is_dir();
        "SessionInfo.title" => session.title.as_deref();
        "SessionInfo.updated_at" => session.updated_at.as_deref();
    }
    config_options(option: ConfigOption, choice: kimi_agent::ConfigChoice) {
        "ConfigOption.id" => option.id.len();
        "ConfigOption.name" => option.name.len();
        "ConfigOption.description" => option.description.as_deref();
        "ConfigOption.category" => option.category.as_deref();
        "ConfigOption.value" => option.value == ConfigValue::from(true) || option.value == ConfigValue::Text(String::new());
        "ConfigOption.choices" => option.choices.len();
        "ConfigChoice.value" => choice.value.len();
        "ConfigChoice.name" => choice.name.len();
        "ConfigChoice.description" => choice.description.as_deref();
    }
    agent_options(o: AgentOptions, time: Duration) {
        "AgentOptions.executable" => o.clone().executable("").executable(["", ""]);
        "AgentOptions.env" => o.clone().env([("", "")]);
        "AgentOptions.auth" => o.clone().auth("auto");
        "AgentOptions.extra_args" => o.clone().extra_args([""]);
        "AgentOptions.dialect" => o.clone().dialect(Dialect::Auto);
        "AgentOptions.on_stderr" => o.clone().on_stderr(|_: &str| ());
        "AgentOptions.client_name" => o.clone().client_name("");
        "AgentOptions.client_version" => o.clone().client_version("");
        "AgentOptions.handshake_timeout" => o.clone().handshake_timeout(time);
        "AgentOptions.close_timeout" => o.clone().close_timeout(time);
        "AgentOptions.validate" => o.validate()?;
        "AgentOptions.open" => o.open()?;
    }
    sessions(session: &Session) {
        "Session.builder" => Session::builder().start().await?;
        "Session.id" => session.id().len();
        "Session.work_dir" => session.work_dir().is_dir();
        "Session.state" => [SessionState::Idle, SessionState::Active, SessionState::Closed].contains(&session.state());
        "Session.pid" => session.pid() == Some(1_u32);
        "Session.protocol_version" => session.protocol_version().len();
        "Session.server" => session.server().map(|server| (&server.name, &server.version));
        "Session.capabilities" => session.capabilities();
        "Session.slash_commands" => session.slash_commands().iter().any(|command| command.name.is_empty());
        "Session.external_tools" => (&session.external_tools().accepted, &session.external_tools().rejected);
        "Session.usage" => session.usage().total();
        "Session.status" => session.status().plan_mode;
        "Session.prompt" => session.prompt("a")?;
        "Session.replay" => session.replay();
        "Session.set_plan_mode" => session.set_plan_mode(true).await?;
        "Session.config_options" => session.config_options().iter().any(|option: &ConfigOption| option.id.is_empty());
        "Session.set_config_option" => session.set_config_option("", "").await?;
        "Session.undo" => session.undo(1).await?;
        "Session.close" => session.close().await?;
        "Session.close_with_timeout" => session.close_with_timeout(Duration::ZERO).await?;
        "Session.cancel" => session.cancel().await?;
    }
    prompt_options(session: &Session, o: PromptOptions, time: Duration) {
        "PromptOptions.new" => kimi_agent::prompt(PromptOptions::new(""), SessionOptions::new());
        "PromptOptions.timeout" => session.prompt(o.clone().timeout(time))?;
        "PromptOptions.idle_timeout" => session.prompt(o.clone().idle_timeout(time))?;
        "PromptOptions.budget" => session.prompt(o.budget(Budget::new().tokens(1).output_tokens(1).steps(1)))?;
        "PromptOptions.output" => session.prompt(PromptOptions::new("").output(Output::new(json!({}))))?;
        "Budget" => Budget::new().tool_calls(0).seconds(1.0).usd(1.0);
        "Price" => Price::new(1.0, 2.0).cache_read(0.1).cache_write(1.0);
        "Prices" => Prices::new().model("*", Price::new(1.0, 2.0));
    }
    texts(text: &mut TextStream<'_>) {
        "TextStream" => is_text_stream(text);
        "TextStream.next" => text.next().await;
    }
    turns(turn: &mut Turn) {
        "Turn" => is_stream(turn);
        "Turn.id" => turn.id().len();
        "Turn.usage" => turn.usage().output;
        "Turn.discarded" => turn.discarded();
        "Turn.next" => turn.next().await;
        "Turn.steps" => turn.steps().next().await.map(|_: Step<'_>| ());
        "Turn.text_stream" => turn.text_stream().next().await;
        "Turn.result" => turn.result().await?;
        "Turn.cancel" => turn.cancel().await?;
        "Turn.steer" => turn.steer("").await?;
        "Turn.cancel_subagent" => turn.cancel_subagent("").await?;
    }
    steps(step: &mut Step<'_>) {
        "Step" => is_stream(step);
        "Step.n" => step.n();
        "Step.next" => step.next().await;
    }
    replays(replay: &mut Replay) {
        "Replay" => is_stream(replay);
        "Replay.next" => replay.next().await;
    }
    answers(
        session: &Session,
        turn: &Turn,
        approval: &wire::ApprovalRequest,
        question: &wire::QuestionRequest
    ) {
        "Session.respond" => session.respond(approval, Approval::Approve).await?;
        "Session.respond_question" => session.respond_question(question, None).await?;
        "Turn.respond" => turn.respond(approval, Approval::ApproveForSession).await?;
        "Turn.respond_question" => turn.respond_question(question, Some(Answers::new().answer("", ""))).await?;
        "Approval" => (Approval::Approve, Approval::ApproveForSession, Approval::Reject { feedback: None });
        "Approval.reject" => Approval::reject("");
        "Answers" => Answers::new().answer_all("", ["", ""]).get("").is_some();
    }
    results(result: PromptResult) {
        "PromptResult.stop_reason" => result.stop_reason.as_deref() == Some("end_turn");
        "PromptResult.status" => [TurnStatus::Finished, TurnStatus::Cancelled, TurnStatus::MaxStepsReached].contains(&result.status);
        "PromptResult.steps" => result.steps;
        "PromptResult.text" => result.text.len();
        "PromptResult.output" => (result.output.is_none(), result.output::<Value>()?);
        "PromptResult.usage" => result.usage.input();
        "PromptResult.tool_calls" => result.tool_calls.iter().all(|call: &kimi_agent::ToolCallRecord| call.duration.is_none());
        "PromptResult.rejected" => result.rejected.iter().all(|rejected| rejected.by == kimi_agent::RejectedBy::NoHandler);
        "PromptResult.handler_failures" => result.handler_failures.iter().all(|failure| failure.message.is_empty());
        "PromptResult.cost" => result.cost.as_ref().is_some_and(|cost| cost.source == wire::CostSource::Reported && cost.amount > 0.0);
        "PromptResult.plan" => result.plan.iter().flat_map(|plan| &plan.entries).all(|entry| entry.status == wire::PlanStatus::Completed);
        "PromptResult.raise_for_status" => result.raise_for_status()?;
    }
    capabilities(can: &Capabilities) {
        "Capabilities.external_tools" => can.external_tools;
        "Capabilities.questions" => can.questions;
        "Capabilities.approval_feedback" => can.approval_feedback;
        "Capabilities.steer" => can.steer;
        "Capabilities.plan_mode" => can.plan_mode;
        "Capabilities.config_options" => can.config_options;
        "Capabilities.replay" => can.replay;
        "Capabilities.undo" => can.undo;
        "Capabilities.fork" => can.fork;
        "Capabilities.hooks" => can.hooks.len();
        "Capabilities.policy" => (can.policy == PolicyReach::Approvals, can.policy.as_str());
        "Capabilities.files" => can.files;
        "Capabilities.terminals" => can.terminals;
    }
    policy(policy: Policy, call: wire::ToolCallInfo, text: &str) {
        "Policy.load" => Policy::load("")?;
        "Policy.from_toml" => Policy::from_toml(text)?;
        "Policy.from_json" => Policy::from_json(text)?;
        "Policy.from_value" => Policy::from_value(&json!({}))?;
        "Policy.preset" => Policy::preset("read-only")?;
        "Policy.named" => Policy::named("read-only")?;
        "Policy.rules" => policy.rules().count();
        "Policy.default_decision" => policy.default_decision();
        "Policy.warnings" => policy.warnings().len();
        "Policy.check" => {
            let PolicyVerdict { decision, rule, source, reason, part, .. } = policy.check(&call, ".");
            (decision == Decision::Ask, rule, source, reason, part)
        };
        "Policy.check_json" => policy.check_json(&json!({}), ".").is_ok();
    }
    requests() {
        "wire.ApprovalRequest.new" => wire::ApprovalRequest::new("", "", "");
        "wire.HookRequest.new" => wire::HookRequest::new("", "");
        "wire.Question.new" => wire::Question::new("", [""]);
        "wire.QuestionRequest.new" => wire::QuestionRequest::new([]);
        "wire.ReadFileRequest.new" => wire::ReadFileRequest::new("");
        "wire.TerminalRequest.new" => wire::TerminalRequest::new("", [""], "");
        "wire.ToolCallInfo.new" => wire::ToolCallInfo::new("", json!({}));
        "wire.WriteFileRequest.new" => wire::WriteFileRequest::new("", "");
    }
    options(o: SessionOptions, tool: ExternalTool, hook: Hook, time: Duration) {
        "SessionOptions.work_dir" => o.clone().work_dir("");
        "SessionOptions.session_id" => o.clone().session_id("");
        "SessionOptions.model" => o.clone().model("");
        "SessionOptions.thinking" => o.clone().thinking(true);
        "SessionOptions.yolo" => o.clone().yolo(true);
        "SessionOptions.read_session_files" => o.clone().read_session_files(false);
        "SessionOptions.config_file" => o.clone().config_file("");
        "SessionOptions.config" => o.clone().config(json!({}));
        "SessionOptions.executable" => o.clone().executable("").executable(["", ""]);
        "SessionOptions.env" => o.clone().env([("", "")]);
        "SessionOptions.mcp_configs" => o.clone().mcp_configs([json!({})]);
        "SessionOptions.agent_file" => o.clone().agent_file("");
        "SessionOptions.system_prompt" => o.clone().system_prompt("").system_prompt(String::new());
        "SystemPrompt.overriding" => o.clone().system_prompt(kimi_agent::SystemPrompt::overriding(""));
        "SessionOptions.additional_directories" => o.clone().additional_directories([""]);
        "SessionOptions.agent_meta" => o.clone().agent_meta(json!({}));
        "SessionOptions.skills_dir" => o.clone().skills_dir("");
        "SessionOptions.tools" => o.clone().tools([tool.clone()]).tool(tool);
        "SessionOptions.prices" => o.clone().prices(Prices::new());
        "SessionOptions.session_budget" => o.clone().session_budget(Budget::new().steps(1));
        "SessionOptions.output" => o.clone().output(Output::new(json!({})));
        "SessionOptions.max_steps_per_turn" => o.clone().max_steps_per_turn(1);
        "SessionOptions.max_retries_per_step" => o.clone().max_retries_per_step(1);
        "SessionOptions.env_remove" => o.clone().env_remove(["X"]);
        "SessionOptions.auth" => o.clone().auth("auto");
        "SessionOptions.place" => o.clone().place(Place::prefix(["nice"]));
        "Prefix" => { let prefix: Prefix = Place::prefix(["nice"]).path(".", "/work"); Place::from(prefix) };
        "Sandbox" => { let sandbox: Sandbox = Place::sandbox().write(["."]).read(["."]).network(true).hide(["."]); Place::from(sandbox) };
        "Container" => {
            let container: Container = Place::container("a").mount(".", "/work").user("1").network(true).runtime("podman").args(["-q"]);
            [Place::from(container), Place::from(Place::running_container("a"))]
        };
        "Ssh" => { let ssh: Ssh = Place::ssh("host", "/work").options(["-4"]); Place::from(ssh) };
        "Remote" => {
            let remote: Remote = Place::remote("wss://host/acp").header("Authorization", "x").work_dir("/work");
            Place::from(remote)
        };
        "SessionOptions.inherit_env" => o.clone().inherit_env(InheritEnv::Needed);
        "SessionOptions.enforce" => o.clone().enforce(Enforce::Calls);
        "SessionOptions.policy" => Policy::load("").map(|policy| o.clone().policy(policy));
        "SessionOptions.on_approval" => o.clone().on_approval(|_| async { Ok(Approval::Approve) });
        "SessionOptions.on_approval_manual" => o.clone().on_approval_manual();
        "SessionOptions.on_question" => o.clone().on_question(|_| async { Ok(None) });
        "SessionOptions.on_question_manual" => o.clone().on_question_manual();
        "SessionOptions.on_read_file" => o.clone().on_read_file(|_| async { Ok(None) });
        "SessionOptions.on_write_file" => o.clone().on_write_file(|_| async { Ok(()) });
        "SessionOptions.on_terminal" => o.clone().on_terminal(|_| async { Ok(kimi_agent::wire::TerminalResult::new("", 0)) });
        "SessionOptions.hooks" => o.clone().hooks([hook.clone()]).hook(hook);
        "SessionOptions.on_event" => o.clone().on_event(|_: Event| ());
        "SessionOptions.on_stderr" => o.clone().on_stderr(|_: &str| ());
        "SessionOptions.client_name" => o.clone().client_name("");
        "SessionOptions.client_version" => o.clone().client_version("");
        "SessionOptions.extra_args" => o.clone().extra_args([""]);
        "SessionOptions.dialect" => o.clone().dialect(Dialect::Auto);
        "SessionOptions.handshake_timeout" => o.clone().handshake_timeout(time);
        "SessionOptions.cancel_timeout" => o.clone().cancel_timeout(time);
        "SessionOptions.close_timeout" => o.clone().close_timeout(time);
        "SessionOptions.idle_timeout" => o.clone().idle_timeout(time);
        "SessionOptions.turn_timeout" => o.clone().turn_timeout(time);
        "SessionOptions.max_line_bytes" => o.clone().max_line_bytes(1);
        "SessionOptions.event_buffer_bytes" => o.clone().event_buffer_bytes(1);
        "SessionOptions.validate" => o.validate()?;
        "SessionOptions.start" => o.start().await?;
    }
    tools(tool: &ExternalTool, context: &ToolContext) {
        "ExternalTool.new" => ExternalTool::new("", "", json!({}), |_: Value| async { Ok("") });
        "ExternalTool.with_context" => ExternalTool::with_context("", "", json!({}), |_: Value, _: ToolContext| async { Ok("") });
        "ExternalTool.typed_with_context" =>
            ExternalTool::typed_with_context("", "", |text: String, _: ToolContext| async move { Ok(text) });
        "ToolContext.call_id" => context.call_id().len();
        "ToolContext.is_cancelled" => context.is_cancelled();
        "ToolContext.cancelled" => context.cancelled().await;
        "ToolContext.progress" => context.progress(Some(0.5), Some("half"));
        "ExternalTool.typed" => ExternalTool::typed("", "", |text: String| async move { Ok(text) });
        "ExternalTool.name" => tool.name().len();
        "ExternalTool.description" => tool.description().len();
        "ExternalTool.parameters" => tool.parameters().is_object();
    }
    hooks(hook: Hook, time: Duration) {
        "Hook.new" => Hook::new("", |_: wire::HookRequest| async { Ok(HookDecision::Allow) });
        "Hook.event" => hook.event().len();
        "Hook.matcher" => hook.clone().matcher("");
        "Hook.timeout" => hook.clone().timeout(time);
        "Hook.on_error" => (hook.clone().on_error(OnError::Allow), hook.clone().on_error(OnError::Block));
        "HookDecision.Allow" => HookDecision::Allow;
        "HookDecision.Block" => HookDecision::Block(String::new());
    }
    budgets(exceeded: &BudgetExceeded) {
        "BudgetExceeded.option" => exceeded.option.len();
        "BudgetExceeded.counter" => exceeded.counter == BudgetCounter::Tokens;
        "BudgetExceeded.limit" => exceeded.limit;
        "BudgetExceeded.used" => exceeded.used;
        "BudgetExceeded.result" => exceeded.result.text.len();
    }
    outputs(o: Output, invalid: &OutputInvalid) {
        "Output.new" => Output::new(json!({}));
        "Output.of" => Output::of::<String>();
        "Output.name" => o.clone().name("");
        "Output.description" => o.clone().description("");
        "Output.mode" => [OutputMode::Auto, OutputMode::Tool, OutputMode::Text].map(|mode| o.clone().mode(mode));
        "Output.retries" => o.clone().retries(0);
        "Output.check" => o.clone().check(|_| async { Err(vec![OutputError::new("", "")]) });
        "OutputInvalid.attempts" => invalid.attempts;
        "OutputInvalid.text" => invalid.text.len();
        "OutputInvalid.errors" => invalid.errors.iter().all(|error| error.pointer.is_empty() && error.message.is_empty());
        "OutputInvalid.result" => invalid.result.text.len();
    }
    errors(error: &Error, exit: &AgentExit, rpc: &RpcError) {
        "Error.code" => error.code().len();
        "Error.help" => error.help().len();
        "Error.is_retryable" => !error.is_retryable();
        "Error.InvalidOption" => matches!(error, Error::InvalidOption { option: _, reason: _ });
        "Error.Spawn" => matches!(error, Error::Spawn(_));
        "Error.Handshake" => matches!(error, Error::Handshake(_));
        "Error.AgentExited" => matches!(error, Error::AgentExited(AgentExit { .. }));
        "Error.Protocol" => matches!(error, Error::Protocol(_));
        "Error.Unsupported" => matches!(error, Error::Unsupported(_));
        "Error.session_closed" => Error::session_closed();
        "Partial" => drop(Partial::default());
        "Error.SessionClosed" => matches!(error, Error::SessionClosed(_));
        "Error.Timeout" => matches!(error, Error::Timeout(_));
        "Error.EventBufferFull" => matches!(error, Error::EventBufferFull(_));
        "Error.Rpc" => matches!(error, Error::Rpc(RpcError { .. }));
        "Error.TurnCancelled" => matches!(error, Error::TurnCancelled(_));
        "Error.BudgetExceeded" => matches!(error, Error::BudgetExceeded(_));
        "Error.OutputInvalid" => matches!(error, Error::OutputInvalid(_));
        "Error.result" => error.result().is_none();
        "Error.AnswerTruncated" => matches!(error, Error::AnswerTruncated(_));
        "Error.AnswerRefused" => matches!(error, Error::AnswerRefused(_));
        "Error.MaxStepsReached" => matches!(error, Error::MaxStepsReached { .. });
        "AgentExit.exit_code" => exit.exit_code == Some(1_i32);
        "AgentExit.signal" => exit.signal.as_deref() == Some("SIGKILL");
        "AgentExit.stderr" => exit.stderr.len();
        "AgentExit.hint" => exit.hint.as_deref() == Some("");
        "RpcError.new" => RpcError::new(RpcErrorKind::Other, "");
        "RpcError.kind" => rpc.kind;
        "RpcError.rpc_code" => rpc.rpc_code == Some(-1_i64);
        "RpcError.status" => rpc.status() == Some(429_u16);
        "RpcError.retry_after" => rpc.retry_after().is_none();
        "RpcError.result" => rpc.result.is_none();
        "AgentExit.result" => exit.result.is_none();
        "RpcError.message" => rpc.message.len();
        "RpcError.methods" => rpc.methods.iter().all(|method: &kimi_agent::AuthMethod| method.description.is_none());
        "AuthMethod.id" => rpc.methods.iter().all(|method| [&*method.id, &*method.name, &*method.kind].len() == 3);
        "RpcError.hint" => rpc.hint.as_deref() == Some("");
        "RpcError.data" => rpc.data.as_ref().map(wire::Json::to_value);
        "RpcErrorKind.TurnInProgress" => RpcErrorKind::TurnInProgress;
        "RpcErrorKind.NoActiveTurn" => RpcErrorKind::NoActiveTurn;
        "RpcErrorKind.LlmNotSet" => RpcErrorKind::LlmNotSet;
        "RpcErrorKind.LlmNotSupported" => RpcErrorKind::LlmNotSupported;
        "RpcErrorKind.LlmServiceError" => RpcErrorKind::LlmServiceError;
        "RpcErrorKind.AuthExpired" => RpcErrorKind::AuthExpired;
        "RpcErrorKind.ContextTooLong" => RpcErrorKind::ContextTooLong;
    }
    events(event: &Event) {
        "wire.Event.type_name" => event.type_name().len();
        "wire.Event.text" => event.text().is_some();
        "wire.Event.request_id" => event.request_id().is_some();
        "wire.Event.TurnBegin" => matches!(event, Event::TurnBegin(wire::TurnBegin { .. }));
        "wire.Event.TurnEnd" => matches!(event, Event::TurnEnd(wire::TurnEnd { .. }));
        "wire.Event.SteerInput" => matches!(event, Event::SteerInput(wire::SteerInput { .. }));
        "wire.Event.StepBegin" => matches!(event, Event::StepBegin(wire::StepBegin { .. }));
        "wire.Event.StepInterrupted" => matches!(event, Event::StepInterrupted(wire::StepInterrupted { .. }));
        "wire.Event.StepRetry" => matches!(event, Event::StepRetry(wire::StepRetry { .. }));
        "wire.Event.CompactionBegin" => matches!(event, Event::CompactionBegin(wire::CompactionBegin { .. }));
        "wire.Event.CompactionEnd" => matches!(event, Event::CompactionEnd(wire::CompactionEnd { .. }));
        "wire.Event.MCPLoadingBegin" => matches!(event, Event::MCPLoadingBegin(wire::MCPLoadingBegin { .. }));
        "wire.Event.MCPLoadingEnd" => matches!(event, Event::MCPLoadingEnd(wire::MCPLoadingEnd { .. }));
        "wire.Event.StatusUpdate" => matches!(event, Event::StatusUpdate(wire::StatusUpdate { .. }));
        "wire.Event.Notification" => matches!(event, Event::Notification(wire::Notification { .. }));
        "wire.Event.PlanDisplay" => matches!(event, Event::PlanDisplay(wire::PlanDisplay { .. }));
        "wire.Event.Plan" => matches!(event, Event::Plan(wire::Plan { entries: _, plan_id: None, removed: None, .. }));
        "wire.Event.HookTriggered" => matches!(event, Event::HookTriggered(wire::HookTriggered { .. }));
        "wire.Event.HookResolved" => matches!(event, Event::HookResolved(wire::HookResolved { .. }));
        "wire.Event.BtwBegin" => matches!(event, Event::BtwBegin(wire::BtwBegin { .. }));
        "wire.Event.BtwEnd" => matches!(event, Event::BtwEnd(wire::BtwEnd { .. }));
        "wire.Event.ToolCall" => matches!(event, Event::ToolCall(wire::ToolCall { .. }));
        "wire.Event.ToolCallPart" => matches!(event, Event::ToolCallPart(wire::ToolCallPart { .. }));
        "wire.Event.ToolResult" => matches!(event, Event::ToolResult(wire::ToolResult { return_value: wire::ToolReturnValue { .. }, .. }));
        "wire.Event.ApprovalResponse" => matches!(event, Event::ApprovalResponse(wire::ApprovalResponse { .. }));
        "wire.Event.SubagentEvent" => matches!(event, Event::SubagentEvent(wire::SubagentEvent { .. }));
        "wire.Event.PolicyDecision" => matches!(event, Event::PolicyDecision(wire::PolicyDecision { .. }));
        "wire.Event.HandlerFailed" => matches!(event, Event::HandlerFailed(wire::HandlerFailed { .. }));
        "wire.Event.ApprovalRequest" => matches!(event, Event::ApprovalRequest(wire::ApprovalRequest { .. }));
        "wire.Event.ToolCallRequest" => matches!(event, Event::ToolCallRequest(wire::ToolCallRequest { .. }));
        "wire.Event.QuestionRequest" => matches!(event, Event::QuestionRequest(wire::QuestionRequest { .. }));
        "wire.Event.HookRequest" => matches!(event, Event::HookRequest(wire::HookRequest { .. }));
        "wire.Event.Unknown" => matches!(event, Event::Unknown(wire::UnknownEvent { kind: _, payload: _, .. }));
        "wire.ContentPart.Text" => matches!(event, Event::ContentPart(ContentPart::Text(wire::TextPart { text: _, .. })));
        "wire.ContentPart.Think" => matches!(event, Event::ContentPart(ContentPart::Think(wire::ThinkPart { .. })));
        "wire.ContentPart.ImageUrl" => matches!(event, Event::ContentPart(ContentPart::ImageUrl(wire::ImageURLPart { .. })));
        "wire.ContentPart.AudioUrl" => matches!(event, Event::ContentPart(ContentPart::AudioUrl(wire::AudioURLPart { .. })));
        "wire.ContentPart.VideoUrl" => matches!(event, Event::ContentPart(ContentPart::VideoUrl(wire::VideoURLPart { .. })));
        "wire.ContentPart.Resource" => matches!(event, Event::ContentPart(ContentPart::Resource(wire::ResourcePart { .. })));
        "wire.ContentPart.file" => ContentPart::file("notes.md")?;
        "wire.ResourcePart.new" => wire::ResourcePart::new("issue:7");
        "wire.ResourcePart.with_text" => wire::ResourcePart::new("issue:7").with_text("text");
        "wire.ResourcePart.with_data" => wire::ResourcePart::new("issue:7").with_data(b"bytes");
        "wire.ResourcePart.with_mime_type" => wire::ResourcePart::new("issue:7").with_mime_type("text/plain");
        "wire.ContentPart.image_file" => ContentPart::image_file("picture.png")?;
        "wire.ContentPart.image_bytes" => ContentPart::image_bytes(b"bytes")?;
    }
}
