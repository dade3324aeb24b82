//! The requests of the agent to its client, and the answers to them.

use serde_json::{Map, Value, json};

use super::Acp;
use super::words::{diff, text_block};
use crate::server::Server;
use crate::types::{Failure, Incoming};

/// A request without an answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) number: u64,
    /// The server's own id of the request.
    pub(super) rpc_id: String,
    pub(super) call: String,
    pub(super) choice: Choice,
}

#[derive(Debug)]
pub(super) enum Choice {
    Approval,
    /// The question, and the choices.
    Question(String, Vec<String>),
    /// A form: the questions, by property.
    Form(Vec<(String, String)>),
    /// A request that the protocol does not have.
    Unknown,
}

impl Acp {
    /// Returns the permission request. `None` if ACP has no such request.
    pub(super) fn permission(&mut self, kind: &str, payload: &Value) -> Option<(Choice, Vec<Value>, Value)> {
        let call = payload["tool_call_id"].as_str().unwrap_or_default();
        let shown = self.shown(call);
        let found = self.calls.iter_mut().rev().find(|known| known.id == call);
        let name = found.as_ref().map_or_else(|| payload["sender"].as_str().unwrap_or_default(), |call| &*call.name);
        let mut about = json!({"toolCallId": shown, "title": name});
        match kind {
            "ApprovalRequest" => {
                let description = payload["description"].as_str().unwrap_or_default();
                let mut content: Vec<Value> =
                    payload["display"].as_array().into_iter().flatten().filter_map(diff).collect();
                content.push(text_block(&format!("Requesting approval to {description}")));
                about["content"] = json!(content);
                if let (Some(about), Some(given)) = (about.as_object_mut(), payload["tool_call"].as_object()) {
                    about.extend(given.clone());
                }
                if let Some(call) = found {
                    description.clone_into(&mut call.title);
                    call.waits = true;
                }
                let option = |id, name, kind| json!({"optionId": id, "name": name, "kind": kind});
                let options = vec![
                    option("approve_once", "Approve once", "allow_once"),
                    option("approve_always", "Approve for this session", "allow_always"),
                    option("reject", "Reject", "reject_once"),
                ];
                Some((Choice::Approval, options, about))
            }
            "QuestionRequest" => {
                // The real agent sends only the first of several questions.
                let question = payload["questions"].get(0)?;
                let text = question["question"].as_str().unwrap_or_default();
                about["content"] = json!([text_block(text)]);
                let label = |option: &Value| option["label"].as_str().unwrap_or_default().to_owned();
                let labels: Vec<String> = question["options"].as_array().into_iter().flatten().map(label).collect();
                let numbered = labels.iter().enumerate();
                let mut options: Vec<Value> = numbered
                    .map(|(i, name)| json!({"optionId": format!("q0_opt_{i}"), "name": name, "kind": "allow_once"}))
                    .collect();
                options.push(json!({"optionId": "q0_skip", "name": "Skip", "kind": "reject_once"}));
                Some((Choice::Question(text.to_owned(), labels), options, about))
            }
            _ => None,
        }
    }
}

impl Server {
    /// Reads an answer.
    pub(super) fn acp_answer(&mut self, number: u64, message: &Map<String, Value>) -> Option<Incoming> {
        let place = self.acp.asked.iter().position(|asked| asked.number == number);
        let Some(asked) = place.map(|place| self.acp.asked.remove(place)).filter(|it| self.take_pending(&it.rpc_id))
        else {
            self.unasked += 1;
            return None;
        };
        let outcome = match message.get("error").filter(|error| !error.is_null()) {
            Some(error) => {
                let text = error["message"].as_str().unwrap_or_default();
                Err(Failure { code: error["code"].as_i64().unwrap_or(0), message: text.to_owned(), data: None })
            }
            None => {
                let result = message.get("result").cloned().unwrap_or_default();
                let chosen = result["outcome"]["optionId"].as_str().unwrap_or_default();
                Ok(match asked.choice {
                    Choice::Approval => {
                        self.acp.waits(&asked.call, !chosen.starts_with("approve"));
                        let response = match chosen {
                            "approve_once" => "approve",
                            "approve_always" => "approve_for_session",
                            _ => "reject",
                        };
                        json!({"request_id": asked.rpc_id, "response": response})
                    }
                    Choice::Question(question, labels) => {
                        let number = chosen.strip_prefix("q0_opt_").and_then(|number| number.parse::<usize>().ok());
                        let answer = number.and_then(|number| labels.get(number));
                        let answers = answer.map(|label| (question, json!(label)));
                        json!({"request_id": asked.rpc_id, "answers": Map::from_iter(answers)})
                    }
                    Choice::Form(questions) => {
                        let answer = |(property, question): (String, String)| {
                            let chosen = result["content"].get(&property)?;
                            let label = |value: &Value| value.as_str().map(str::to_owned);
                            let all = chosen.as_array().map(|all| all.iter().filter_map(label).collect::<Vec<_>>());
                            Some((question, json!(all.map(|all| all.join(",")).or_else(|| label(chosen))?)))
                        };
                        let given = questions.into_iter().filter(|_| result["action"] == "accept");
                        let answers: Map<String, Value> = given.filter_map(answer).collect();
                        json!({"request_id": asked.rpc_id, "answers": answers})
                    }
                    Choice::Unknown => result,
                })
            }
        };
        if !asked.call.is_empty() && self.turn.is_some() && outcome.is_ok() {
            let begun = self.acp.begin(&asked.call);
            self.tell(begun.into_iter().collect());
        }
        Some(Incoming::Answer(asked.rpc_id, outcome))
    }
}
