//! The blocks that an agent shows with a request for a permission, as descriptions of its call.

use serde_json::{Map, Value};

use crate::messages::{ApprovalRequest, DisplayBlock, Extra, ToolCallInfo};

/// The limit of blocks that are looked at.
const MAX_BLOCKS: usize = 32;

/// Members of blocks that repeat arguments under other names.
const REPEATED: [&str; 2] = ["args", "detail"];

/// Returns the call as each block describes it that says more than the change of a file or a command. Each member of a block can
/// name what the call acts on, so it counts like an argument.
pub(super) fn displayed_calls(request: &ApprovalRequest, call: &ToolCallInfo) -> Vec<ToolCallInfo> {
    let mut calls = Vec::new();
    for (at, members) in request.display.iter().filter_map(members).enumerate() {
        if at == MAX_BLOCKS {
            calls.push(ToolCallInfo { arguments: None, ..call.clone() });
            break;
        }
        let arguments = call.arguments.as_ref();
        let is_said = |(name, value): &(String, Value)| {
            let is_same = arguments.and_then(|arguments| arguments.get(name)) == Some(value);
            is_same || value.is_null() || (REPEATED.contains(&&**name) && repeats(arguments, value))
        };
        let mut said = members.into_iter().filter(|member| !is_said(member)).peekable();
        if said.peek().is_some() {
            let mut arguments = arguments.cloned().unwrap_or_default();
            arguments.extend(said);
            calls.push(ToolCallInfo { arguments: Some(arguments), ..call.clone() });
        }
    }
    calls
}

/// Returns the members of a block that are not judged as a change or as a command. `None` if it has none.
fn members(block: &DisplayBlock) -> Option<Vec<(String, Value)>> {
    let (path, extra) = match block {
        // Its directory and its variables are judged with the command.
        DisplayBlock::Shell(_) => return None,
        DisplayBlock::Diff(diff) => (Some(&diff.path), &diff.extra),
        DisplayBlock::Unknown(block) => (None, &block.extra),
        DisplayBlock::Brief(block) => (None, &block.extra),
        DisplayBlock::Todo(block) => (None, &block.extra),
        DisplayBlock::BackgroundTask(block) => (None, &block.extra),
    };
    let mut members = of_extra(extra);
    if let Some(path) = path.filter(|_| !members.is_empty()) {
        members.push(("path".to_owned(), path.as_str().into()));
    }
    Some(members).filter(|members| !members.is_empty())
}

fn of_extra(extra: &Extra) -> Vec<(String, Value)> {
    let fields = extra.iter().map(|(name, value)| (name.clone(), value.clone()));
    fields.chain(extra.raw().map(|(name, json)| (name.clone(), json.to_value()))).collect()
}

/// Whether a value is that of an argument, or all arguments.
fn repeats(arguments: Option<&Map<String, Value>>, value: &Value) -> bool {
    arguments.is_some_and(|arguments| {
        value.as_object() == Some(arguments) || arguments.values().any(|argument| argument == value)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::messages::value::Decoded;

    fn displayed(arguments: Value, display: Value) -> Vec<Option<Value>> {
        let mut request = ApprovalRequest::new("WriteFile", "edit file", "Write");
        request.display = serde_json::from_str::<Decoded<_>>(&display.to_string()).expect("blocks").0;
        let arguments = arguments.as_object().cloned();
        let call = ToolCallInfo { arguments, ..ToolCallInfo::new("WriteFile", json!({})) };
        displayed_calls(&request, &call).into_iter().map(|call| call.arguments.map(Value::Object)).collect()
    }

    #[test]
    fn members_of_blocks_count_as_arguments() {
        let arguments = || json!({"path": "a", "content": "x"});
        for (block, expected) in [
            (json!({"type": "diff", "path": "b", "old_text": "", "new_text": "x"}), None),
            (json!({"type": "diff", "path": "b"}), Some(json!({"path": "b", "content": "x"}))),
            (
                json!({"type": "diff", "path": ["b"], "old_text": "", "new_text": "x"}),
                Some(json!({"path": ["b"], "content": "x", "old_text": "", "new_text": "x"})),
            ),
            (
                json!({"type": "diff", "path": "b", "old_text": "", "new_text": "x", "target": "c"}),
                Some(json!({"path": "b", "content": "x", "target": "c"})),
            ),
            (
                json!({"type": "shell", "language": "bash", "command": ["rm", "b"]}),
                Some(json!({"path": "a", "content": "x", "language": "bash", "command": ["rm", "b"]})),
            ),
            (json!({"type": "brief", "text": "b"}), None),
            (json!({"type": "brief", "text": "b", "url": "c"}), Some(json!({"path": "a", "content": "x", "url": "c"}))),
            (json!({"type": "new", "path": "a", "url": null}), None),
            (json!({"type": "new", "path": "b"}), Some(json!({"path": "b", "content": "x"}))),
            (json!({"type": "new", "detail": "x"}), None),
            (json!({"type": "new", "detail": {"content": "x", "path": "a"}}), None),
            (json!({"type": "new", "url": "x"}), Some(json!({"path": "a", "content": "x", "url": "x"}))),
        ] {
            let expected: Vec<_> = expected.map(Some).into_iter().collect();
            assert_eq!(displayed(arguments(), json!([block.clone()])), expected, "{block}");
        }
        assert_eq!(displayed(json!(null), json!([{"type": "new", "path": "b"}])), [Some(json!({"path": "b"}))]);
    }

    #[test]
    fn further_blocks_leave_arguments_unknown() {
        let block = json!({"type": "new", "path": "b"});
        let found = displayed(json!({"path": "a"}), json!(vec![block; MAX_BLOCKS + 9]));
        assert_eq!(found.len(), MAX_BLOCKS + 1);
        assert_eq!(found.last(), Some(&None));
    }
}
