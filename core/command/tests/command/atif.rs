//! `kimi-agent inspect --atif`: the trajectories match the schema of the format, and have what was recorded.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::support::{agent, command, ended, ran};

/// Checks a trajectory as Harbor does.
fn check(trajectory: &Value) {
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    let schema = compiler.compile("tests/atif.schema.json", &mut schemas).unwrap();
    schemas.validate(trajectory, schema).unwrap_or_else(|problem| panic!("{problem}\n{trajectory:#}"));
    check_steps(trajectory);
}

/// Checks what the schema cannot say.
fn check_steps(trajectory: &Value) {
    for (at, step) in trajectory["steps"].as_array().unwrap().iter().enumerate() {
        assert_eq!(step["step_id"], at + 1);
        let of_agent = ["model_name", "reasoning_content", "tool_calls", "metrics"];
        assert!(step["source"] == "agent" || of_agent.iter().all(|field| step[*field].is_null()), "{step:#}");
        let calls = step["tool_calls"].as_array().into_iter().flatten();
        let calls: Vec<_> = calls.map(|call| &call["tool_call_id"]).collect();
        for result in step["observation"]["results"].as_array().into_iter().flatten() {
            assert!(result["source_call_id"].is_null() || calls.contains(&&result["source_call_id"]), "{step:#}");
        }
    }
    let subagents = trajectory["subagent_trajectories"].as_array().into_iter().flatten();
    let mut ids: Vec<_> = subagents.clone().map(|one| one["trajectory_id"].as_str().unwrap()).collect();
    subagents.for_each(check_steps);
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

/// Returns the trajectory of a recording.
fn trajectory(recording: &Path) -> Value {
    let ran = ended(command(None, &["inspect", "--atif", recording.to_str().unwrap()]).spawn().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let trajectory = serde_json::from_str(&ran.out).unwrap();
    check(&trajectory);
    trajectory
}

/// Records a run with this agent.
fn recorded(folder: &tempfile::TempDir, script: Value) -> PathBuf {
    let (path, policy) = (folder.path().join("run.jsonl"), folder.path().join("policy.toml"));
    std::fs::write(&policy, "allow = [\"Shell(ls)\"]").unwrap();
    let (policy, record) = (policy.to_str().unwrap(), path.to_str().unwrap());
    ran(&agent(script), &["run", "--policy", policy, "--record", record, "Look"]);
    path
}

fn subagent(event: &Value) -> Value {
    let payload = json!({"parent_tool_call_id": "t1", "agent_id": "a1", "subagent_type": "explorer", "event": event});
    json!({"event": {"type": "SubagentEvent", "payload": payload}})
}

#[test]
fn recordings_of_dialects_match_schema() {
    for (name, steps) in [("wire", 5), ("acp", 5), ("kimi-web", 5), ("legacy", 4)] {
        let trajectory = trajectory(&Path::new("../../tests/recordings").join(format!("{name}.jsonl")));
        let sources: Vec<_> = trajectory["steps"].as_array().unwrap().iter().map(|step| &step["source"]).collect();
        assert_eq!((sources.len(), sources[0], sources[1]), (steps, &json!("user"), &json!("agent")), "{name}");
        assert_eq!(trajectory["final_metrics"]["total_steps"], steps);
    }
}

#[test]
fn steps_have_what_agent_did() {
    let folder = tempfile::tempdir().unwrap();
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let path = recorded(
        &folder,
        json!([[
            {"think": "Hm."},
            {"text": "I look."},
            {"tool_call": {"id": "t1", "name": "Shell", "arguments": {"command": "ls"}, "approve": true, "result": "a.txt"}},
            {"usage": {"input_other": 80, "output": 10, "input_cache_read": 20}},
            {"tool_call": {"id": "t1", "name": "Read", "arguments": {}, "result": {"output": [picture], "message": "no", "is_error": true}}},
            {"event": {"type": "CompactionBegin", "payload": {}}},
            {"event": {"type": "CompactionEnd", "payload": {}}},
            {"text": "Done"},
        ]]),
    );
    let trajectory = trajectory(&path);
    assert_eq!(
        (&trajectory["schema_version"], &trajectory["extra"]["recording"]),
        (&json!("ATIF-v1.8"), &json!("run.jsonl"))
    );
    let step = &trajectory["steps"][1];
    assert_eq!((&step["message"], &step["reasoning_content"]), (&json!("I look."), &json!("Hm.")));
    assert_eq!(step["metrics"], json!({"prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 20}));
    let call = &step["tool_calls"][0];
    assert_eq!((&call["arguments"], &call["extra"]["approval"]["by"]), (&json!({"command": "ls"}), &json!("policy")));
    assert_eq!(step["observation"]["results"][0]["content"], "a.txt");
    let failed = &trajectory["steps"][2]["observation"]["results"][0];
    assert_eq!((&failed["extra"]["is_error"], &failed["content"][0]["type"]), (&json!(true), &json!("image")));
    assert!(trajectory["steps"].as_array().unwrap().iter().any(|step| step["message"] == "The context was compacted."));
    assert_eq!(trajectory["final_metrics"]["total_prompt_tokens"], 100);
}

#[test]
fn subagent_has_trajectory_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let text = json!({"type": "ContentPart", "payload": {"type": "text", "text": "Found"}});
    let path = recorded(
        &folder,
        json!([[
            {"event": {"type": "ToolCall", "payload": {"type": "function", "id": "t1", "function": {"name": "Agent", "arguments": "{}"}}}},
            subagent(&json!({"type": "StepBegin", "payload": {"n": 1}})),
            subagent(&text),
            {"event": {"type": "ToolResult", "payload": {"tool_call_id": "t1", "return_value": {"is_error": false, "output": "Found", "message": "", "display": []}}}},
            {"text": "Done"},
        ]]),
    );
    let trajectory = trajectory(&path);
    let subagent = &trajectory["subagent_trajectories"][0];
    assert_eq!((&subagent["trajectory_id"], &subagent["agent"]["name"]), (&json!("a1"), &json!("explorer")));
    assert_eq!(subagent["steps"][0]["message"], "Found");
    let result = &trajectory["steps"][1]["observation"]["results"][0];
    assert_eq!(result["subagent_trajectory_ref"], json!([{"trajectory_id": "a1"}]));
}

#[test]
fn resumed_subagent_has_trajectory_per_call() {
    let folder = tempfile::tempdir().unwrap();
    let call = |id: &str| json!({"event": {"type": "ToolCall", "payload": {"type": "function", "id": id, "function": {"name": "Agent", "arguments": "{}"}}}});
    let subagent = |parent: &str, text: &str| {
        let event = json!({"type": "ContentPart", "payload": {"type": "text", "text": text}});
        let payload = json!({"parent_tool_call_id": parent, "agent_id": "a1", "event": event});
        json!({"event": {"type": "SubagentEvent", "payload": payload}})
    };
    let path = recorded(
        &folder,
        json!([[
            call("t1"),
            subagent("t1", "one"),
            call("t2"),
            subagent("t2", "tw"),
            subagent("t2", "o"),
            subagent("t1", " more"),
            {"text": "Done"},
        ]]),
    );
    let trajectory = trajectory(&path);
    let subagents = trajectory["subagent_trajectories"].as_array().unwrap().iter();
    let found: Vec<_> = subagents.map(|one| (&one["trajectory_id"], &one["steps"][0]["message"])).collect();
    assert_eq!(found, [(&json!("a1"), &json!("one more")), (&json!("a1#2"), &json!("two"))]);
}

#[test]
fn failed_turn_is_system_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(
        &folder,
        json!([[{"text": "a"}, {"usage": {"output": 7}}, {"error": {"code": -32003, "message": "down"}}]]),
    );
    let trajectory = trajectory(&path);
    assert_eq!(trajectory["final_metrics"]["total_completion_tokens"], 7);
    let last = trajectory["steps"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["source"], &last["extra"]["error"]["code"]), (&json!("system"), &json!("llm_service_error")));
}

#[test]
fn several_recordings_are_lines() {
    let path = |name: &str| format!("../../tests/recordings/{name}.jsonl");
    let ran = ended(command(None, &["inspect", "--atif", &path("wire"), &path("acp")]).spawn().unwrap());
    let names: Vec<_> = ran.lines().iter().map(|one| one["extra"]["recording"].clone()).collect();
    assert_eq!((ran.code, names), (0, vec![json!("wire.jsonl"), json!("acp.jsonl")]));
}
