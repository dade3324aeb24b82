//! Plans: `plan`, `plan_update`, `plan_removed`.

use super::*;

fn told(updates: &[Value]) -> Vec<String> {
    let mut player = prompted();
    updates.iter().for_each(|each| player.hear(&update(each.clone())));
    assert_eq!(player.trace.remove(0), "StepBegin");
    player.trace
}

fn plan(entries: Value) -> Value {
    json!({"sessionUpdate": "plan", "entries": entries})
}

#[test]
fn unknown_plan_status_is_kept() {
    let entry = |status: &str| json!({"content": "a", "status": status, "priority": "urgent", "size": 3});
    let told = told(&[plan(json!([entry("pending"), entry("blocked")])), plan(json!([]))]);
    let expected = r#"{"entries":[{"content":"a","status":"pending","priority":"urgent","size":3},{"content":"a","status":"blocked","priority":"urgent","size":3}]}"#;
    assert_eq!(told, [format!("plan {expected}"), r#"plan {"entries":[]}"#.to_owned()]);
}

#[test]
fn plan_entry_without_optional_members_is_read() {
    let told = told(&[plan(json!([{"content": "a", "status": "pending"},
        {"content": "b", "status": "pending", "priority": 7, "_meta": {"x": 1}}]))]);
    let expected = r#"{"entries":[{"content":"a","status":"pending"},{"content":"b","status":"pending","priority":7,"_meta":{"x":1}}]}"#;
    assert_eq!(told, [format!("plan {expected}")]);
}

#[test]
fn unreadable_entry_is_left_out_and_kept_beside() {
    let entries =
        json!([{"content": "a", "status": "pending"}, {"status": "pending"}, 7, {"content": "b", "status": 1}]);
    let expected = r#"{"entries":[{"content":"a","status":"pending"}],"unreadable_entries":[{"status":"pending"},7,{"content":"b","status":1}]}"#;
    assert_eq!(told(&[plan(entries)]), [format!("plan {expected}")]);
}

#[test]
fn unreadable_plan_keeps_last_plan() {
    let unreadable = [json!(null), json!("all"), json!({"a": 1}), json!([{"content": "a"}]), json!([7])];
    let mut updates: Vec<_> = unreadable.into_iter().map(plan).collect();
    updates.push(json!({"sessionUpdate": "plan"}));
    assert_eq!(told(&updates), ["unknown plan"; 6]);
}

#[test]
fn plans_with_ids_are_replaced_and_removed() {
    let entries = json!([{"content": "a", "status": "completed", "priority": "low"}]);
    let update = |plan: Value| json!({"sessionUpdate": "plan_update", "plan": plan});
    let told = told(&[
        update(json!({"type": "items", "planId": "p", "entries": entries})),
        update(json!({"type": "markdown", "planId": "q", "content": "# Do", "path": "/p.md"})),
        update(json!({"type": "markdown", "planId": "q", "content": "", "path": 7})),
        json!({"sessionUpdate": "plan_removed", "planId": "p"}),
    ]);
    assert_eq!(
        told,
        [
            r#"plan {"entries":[{"content":"a","status":"completed","priority":"low"}],"plan_id":"p"}"#,
            r##"plan text {"content":"# Do","file_path":"/p.md","plan_id":"q"}"##,
            r#"plan text {"content":"","file_path":"","path":7,"plan_id":"q"}"#,
            r#"plan {"entries":[],"plan_id":"p","removed":true}"#,
        ]
    );
}

#[test]
fn unreadable_plan_update_is_unknown() {
    let update = |plan: Value| json!({"sessionUpdate": "plan_update", "plan": plan});
    let told = told(&[
        json!({"sessionUpdate": "plan_update"}),
        update(json!(7)),
        update(json!({"type": "items", "entries": []})),
        update(json!({"type": "items", "planId": 1, "entries": []})),
        update(json!({"type": "table", "planId": "p"})),
        update(json!({"planId": "p", "entries": []})),
        update(json!({"type": "markdown", "planId": "p"})),
        json!({"sessionUpdate": "plan_removed"}),
    ]);
    assert_eq!(told[..7], ["unknown plan_update"; 7]);
    assert_eq!(told[7], "unknown plan_removed");
}

#[test]
fn plan_has_metadata_of_its_update() {
    let mut update = plan(json!([]));
    update["_meta"] = json!({"from": "a"});
    assert_eq!(told(&[update]), [r#"plan {"entries":[],"_meta":{"from":"a"}}"#]);
}
