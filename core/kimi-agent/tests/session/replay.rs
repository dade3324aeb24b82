//! TEMP
use kimi_agent::{Answers, Approval, Dialect, ExternalTool, SessionOptions};
use kimi_agent::testing::scripted_agent;
use serde_json::{Value, json};

#[tokio::test]
async fn temp_dump() {
    let turns = json!([
        [{"think": "hm"}, {"text": "Look"},
            {"tool_call": {"name": "Shell", "arguments": {"command": "ls {{work_dir}}"}, "approve": true, "result": "a.txt"}},
            {"question": {"questions": [{"question": "Sure?", "options": [{"label": "yes"}]}]}},
            {"usage": {"input_other": 10, "output": 2}},
            {"text": "Done"}],
        [{"text": "x"}, {"wait_cancel": true}],
        [{"error": {"code": -32003, "message": "down"}}],
    ]);
    for name in ["wire", "legacy", "acp", "kimi-web"] {
        let mut script = json!({"turns": turns});
        let mut options = SessionOptions::new();
        match name {
            "legacy" => { script["release"] = json!("0.50.0"); options = options.yolo(true).dialect(Dialect::Legacy); }
            "acp" => { script["release"] = json!("2.1.0"); }
            "kimi-web" => { options = options.dialect(Dialect::KimiWeb); }
            _ => {}
        }
        if name == "legacy" { script["turns"] = json!([[{"text": "x"}],[{"text":"y"}],[{"error": {"code": -32003, "message": "down"}}]]); }
        let agent = scripted_agent(script);
        options = options.executable(&agent).record(format!("/tmp/dump-{name}.jsonl"));
        if name == "wire" || name == "acp" {
            options = options.tool(ExternalTool::new("add", "Adds", json!({"type": "object"}), |_: Value| async { Ok("2") }));
        }
        if name != "legacy" {
            options = options.on_approval(|_| async { Ok(Approval::Approve) })
            .on_question(|_| async { Ok(Some(Answers::new().answer("Sure?", "yes"))) });
        }
        let session = match options.start().await { Ok(s) => s, Err(e) => { println!("{name}: {e}"); continue } };
        println!("{name} {:?}", session.prompt("go").unwrap().result().await);
        let mut turn = session.prompt("wait").unwrap();
        if name != "legacy" {
        while let Some(e) = turn.next().await { if e.unwrap().type_name() == "ContentPart" { turn.cancel().await.unwrap(); break } }
        }
        println!("{name} {:?}", turn.result().await);
        println!("{name} {:?}", session.prompt("third").unwrap().result().await);
        session.close().await.unwrap();
    }
}
