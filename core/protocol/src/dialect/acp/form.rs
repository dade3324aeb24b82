//! Forms (`elicitation/create`): each property of a form's schema is a question.

use std::collections::{HashMap, HashSet};

use agent_client_protocol_schema::v1 as acp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tools::AskedQuestion;
use super::{Acp, Asks, OpenRequest, meta, request_id, unknown};
use crate::answers::{Answers, labels_in};
use crate::dialect::Incoming;
use crate::json::exact;
use crate::jsonrpc::{self, Params, is_too_deep};
use crate::messages::{Event, Question, QuestionOption, QuestionRequest};

pub(super) const METHOD: &str = "elicitation/create";
/// The limit of the fields of a form. Nobody can be shown more.
const MAX_FIELDS: usize = 1000;
/// The limit of the choices of all fields of a form.
const MAX_CHOICES: usize = 10_000;
const YES: &str = "Yes";
const NO: &str = "No";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    session_id: Option<acp::SessionId>,
    tool_call_id: Option<String>,
    #[serde(default = "form")]
    mode: String,
    #[serde(default)]
    message: String,
    requested_schema: Option<Schema>,
}

/// The fields of a form's schema that are used. The type of the ACP crate sorts the properties by name.
#[derive(Deserialize)]
struct Schema {
    #[serde(default)]
    properties: Map<String, Value>,
}

/// The mode of a form that names none.
fn form() -> String {
    "form".to_owned()
}

/// An open form.
#[derive(Debug)]
pub(super) enum Form {
    Fields(Vec<Field>),
    /// A form without properties: this question is answered with yes or no.
    Confirmation(String),
}

#[derive(Debug)]
pub(super) struct Field {
    property: String,
    /// The text of the question, which the answer names.
    question: String,
    input: Input,
}

/// The type of a property.
#[derive(Debug)]
enum Input {
    OneOf(Vec<Choice>),
    AnyOf(Vec<Choice>),
    Boolean,
    Text,
    Integer,
    Number,
}

#[derive(Debug)]
struct Choice {
    label: String,
    value: Value,
    description: Option<String>,
}

/// The answer if the form is dismissed.
pub(super) fn cancelled() -> Value {
    json!({"action": "cancel"})
}

impl Form {
    pub(super) fn answer(&self, answers: &Answers) -> Value {
        let given = |field: &Field| {
            let value = field.input.value(answers.get(&field.question)?);
            if value.is_none() {
                tracing::warn!(property = field.property, "answer left out: the form does not allow it");
            }
            Some((field.property.clone(), value?))
        };
        let fields = match self {
            Self::Fields(fields) => fields,
            Self::Confirmation(question) => {
                return match answers.get(question) {
                    Some(YES) => json!({"action": "accept", "content": {}}),
                    Some(NO) => json!({"action": "decline"}),
                    _ => cancelled(),
                };
            }
        };
        let content: Map<String, Value> = fields.iter().filter_map(given).collect();
        if content.is_empty() { cancelled() } else { json!({"action": "accept", "content": content}) }
    }
}

impl Input {
    /// Reads the schema of a property. `None` if its type is not known.
    fn new(schema: &Value) -> Option<Self> {
        let single = || choices(schema.get("oneOf")).or_else(|| choices(schema.get("enum")));
        Some(match schema.get("type")?.as_str()? {
            "string" => single().map_or(Self::Text, Self::OneOf),
            "array" => {
                let items = schema.get("items")?;
                Self::AnyOf(["anyOf", "oneOf", "enum"].iter().find_map(|name| choices(items.get(name)))?)
            }
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            _ => return None,
        })
    }

    fn options(&self) -> Vec<QuestionOption> {
        let option = |label: &str, description: Option<&String>| QuestionOption {
            label: label.to_owned(),
            description: description.cloned(),
            extra: Default::default(),
        };
        match self {
            Self::OneOf(choices) | Self::AnyOf(choices) => {
                choices.iter().map(|choice| option(&choice.label, choice.description.as_ref())).collect()
            }
            Self::Boolean => vec![option(YES, None), option(NO, None)],
            Self::Text | Self::Integer | Self::Number => Vec::new(),
        }
    }

    /// Converts an answer to the property's type. `None` if the property cannot have this value.
    fn value(&self, answer: &str) -> Option<Value> {
        Some(match self {
            Self::OneOf(choices) => choices.iter().find(|choice| choice.label == answer)?.value.clone(),
            Self::AnyOf(choices) => {
                let labels: Vec<&str> = choices.iter().map(|choice| &*choice.label).collect();
                let mut chosen = labels_in(answer, &labels)?;
                chosen.sort_unstable();
                chosen.dedup();
                chosen.into_iter().map(|place| choices[place].value.clone()).collect()
            }
            Self::Boolean => match answer {
                YES => json!(true),
                NO => json!(false),
                _ => return None,
            },
            Self::Text => json!(answer),
            Self::Integer => json!(answer.trim().parse::<i64>().ok()?),
            Self::Number => json!(answer.trim().parse::<f64>().ok().filter(|number| number.is_finite())?),
        })
    }
}

/// Returns the choices in a list of constants with titles, or in a list of texts. `None` if there are none.
fn choices(listed: Option<&Value>) -> Option<Vec<Choice>> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let choice = |listed: &Value| match listed {
        Value::String(text) => Some(Choice { label: text.clone(), value: listed.clone(), description: None }),
        _ => {
            let value = text(listed.get("const"))?;
            let label = text(listed.get("title")).unwrap_or_else(|| value.clone());
            Some(Choice { label, value: json!(value), description: text(listed.get("description")) })
        }
    };
    let mut choices: Vec<Choice> = listed?.as_array()?.iter().map(choice).collect::<Option<_>>()?;
    let mut times: HashMap<String, usize> = HashMap::new();
    for choice in &choices {
        *times.entry(choice.label.clone()).or_default() += 1;
    }
    for choice in &mut choices {
        let is_repeated = times.get(&choice.label).is_some_and(|times| *times > 1);
        if let (true, Some(value)) = (is_repeated, choice.value.as_str()) {
            value.clone_into(&mut choice.label);
        }
    }
    Some(choices).filter(|choices| !choices.is_empty())
}

/// Returns the texts of the questions. An agent joins them in `message` by newlines, which a question may contain. So
/// the arguments of the asking tool are used if they contain the same text.
fn texts(message: &str, titles: &[&str], known: &[AskedQuestion]) -> Vec<String> {
    let lines: Vec<&str> = message.split('\n').collect();
    let told: Vec<&str> = known.iter().map(|asked| &*asked.question).collect();
    let texts: &[&str] = match titles.len() {
        count if told.len() == count && told.join("\n") == message => &told,
        1 => std::slice::from_ref(&message),
        count if lines.len() == count => &lines,
        _ => titles,
    };
    let mut known = HashSet::new();
    let unique = (1..).zip(texts).map(|(number, text)| {
        let is_repeated = text.is_empty() || known.contains(*text);
        let text = if is_repeated { format!("{text} ({number})") } else { (*text).to_owned() };
        known.insert(text.clone());
        text
    });
    unique.collect()
}

/// Returns the reason if a form has more fields or choices than can be shown.
fn too_large(schema: &Schema) -> Option<String> {
    let fields = schema.properties.len();
    if fields > MAX_FIELDS {
        return Some(format!("requestedSchema: {fields} properties; a form can have at most {MAX_FIELDS}"));
    }
    let listed = |schema: &Value| {
        let lists = ["oneOf", "anyOf", "enum"].iter().filter_map(|name| schema.get(name)?.as_array());
        lists.map(Vec::len).sum::<usize>()
    };
    let of_field = |schema: &Value| listed(schema) + schema.get("items").map_or(0, listed);
    let choices: usize = schema.properties.values().map(of_field).sum();
    (choices > MAX_CHOICES)
        .then(|| format!("requestedSchema: {choices} choices; a form can have at most {MAX_CHOICES}"))
}

fn questions(message: &str, schema: Schema, known: &[AskedQuestion]) -> Result<(Vec<Question>, Form), String> {
    if schema.properties.is_empty() {
        return Ok(confirmation(message));
    }
    let title = |(name, property): (&'_ String, &'_ Value)| {
        property.get("title").and_then(Value::as_str).unwrap_or(name).to_owned()
    };
    let titles: Vec<String> = schema.properties.iter().map(title).collect();
    let texts = texts(message, &titles.iter().map(String::as_str).collect::<Vec<_>>(), known);
    let is_in_questions = texts.join("\n") == message;
    let (mut questions, mut fields) = (Vec::new(), Vec::new());
    for ((question, title), (property, schema)) in texts.into_iter().zip(titles).zip(schema.properties) {
        let input = Input::new(&schema).ok_or_else(|| format!("requestedSchema: {property}: its type is not known"))?;
        let about = schema.get("description").and_then(Value::as_str);
        let message = Some(message).filter(|message| !is_in_questions && questions.is_empty() && !message.is_empty());
        let body: Vec<&str> = message.into_iter().chain(about).collect();
        questions.push(Question {
            header: Some(title).filter(|title| *title != question),
            options: input.options(),
            multi_select: Some(matches!(input, Input::AnyOf(_))),
            body: Some(body.join("\n\n")).filter(|body| !body.is_empty()),
            other_label: None,
            other_description: None,
            question: question.clone(),
            extra: Default::default(),
        });
        fields.push(Field { property, question, input });
    }
    Ok((questions, Form::Fields(fields)))
}

/// Makes the question of a form without properties.
fn confirmation(message: &str) -> (Vec<Question>, Form) {
    let question = if message.is_empty() { "Continue?" } else { message }.to_owned();
    let asked = Question {
        question: question.clone(),
        header: None,
        options: Input::Boolean.options(),
        multi_select: Some(false),
        body: None,
        other_label: None,
        other_description: None,
        extra: Default::default(),
    };
    (vec![asked], Form::Confirmation(question))
}

impl Acp {
    pub(super) fn read_form(&mut self, rpc_id: &str, params: &Params<'_>) -> Incoming {
        let event = |error: Option<String>| unknown(METHOD, params.to_json().get(), error);
        let refused =
            |error: String| Incoming::Request { rpc_id: rpc_id.to_owned(), request: Box::new(event(Some(error))) };
        if is_too_deep(params.get()) {
            return refused("nested too deep, and left out".to_owned());
        }
        let asked: Asked = match exact(params.get()) {
            Ok(asked) => asked,
            Err(error) => return refused(error),
        };
        match &asked.session_id {
            None => return refused("sessionId: missing; only a form of a session can be answered".to_owned()),
            Some(session) if !self.is_ours(&session.0) => {
                return refused(format!("sessionId: no session `{}` here", session.0));
            }
            Some(_) => {}
        }
        if asked.mode == "url" {
            // Forms by URL were not offered. The program gets the address with the event.
            let answer = jsonrpc::answer(rpc_id, &json!({"action": "decline"}));
            return Incoming::Batch(vec![Incoming::Answered(answer), Incoming::event(event(None))]);
        }
        let Some(schema) = asked.requested_schema.filter(|_| asked.mode == "form") else {
            return refused(format!("mode: `{}` is not known, or `requestedSchema` is missing", asked.mode));
        };
        if let Some(error) = too_large(&schema) {
            return refused(error);
        }
        let tool_call_id = asked.tool_call_id.unwrap_or_default();
        let (questions, form) = match questions(&asked.message, schema, &self.tools.questions(&tool_call_id)) {
            Ok(read) => read,
            Err(error) => return refused(error),
        };
        let mut all = Vec::new();
        self.begin_step(&mut all);
        let order = self.next_order();
        self.open.insert(rpc_id.to_owned(), OpenRequest { order, of_turn: self.prompting, asks: Asks::Form(form) });
        let id = request_id(rpc_id);
        let mut request = Event::from(QuestionRequest { id, tool_call_id, questions, extra: Default::default() });
        meta::put_into(
            &mut request,
            meta::read(params.member("_meta").unwrap_or_default()).filter(|meta| !meta.is_empty()),
        );
        all.push(Incoming::Request { rpc_id: rpc_id.to_owned(), request: Box::new(request) });
        Incoming::batch(all)
    }
}
