//! The jobs of a batch.

use std::path::PathBuf;
use std::time::Duration;

use kimi_agent_protocol::options::{OPTIONS, Scope, find};
use kimi_agent_protocol::output::OUTPUT_KEYS;
use serde_json::{Map, Value, json};

pub(super) use self::key::{hash_of_key, hex, parse_hex};
use super::json::is_batch_option;
use crate::error::invalid_option;
use crate::messages::Content;
use crate::naming::Naming;
use crate::options::{PromptOptions, SessionOptions, kind_of, parse_content, prompt_options, unknown};
use crate::{Error, Executable, Result};

mod key;

/// The number of bytes that identify a job in memory.
pub(super) type Hash = [u8; 16];

/// The options of one prompt that a job may have, too.
const OF_PROMPT: [&str; 2] = ["timeout", "budget"];

/// The fields of a job that are not options of its session.
const OF_JOB: [&str; 6] = ["prompt", "key", "work_dir", "data", "timeout", "budget"];

const EXECUTABLE: &str = "executable";

/// Options of a session that are the same for all jobs.
const OF_ALL_JOBS: [&str; 11] = [
    "record",
    "telemetry",
    "tools",
    "hooks",
    "on_approval",
    "on_question",
    "on_read_file",
    "on_write_file",
    "on_terminal",
    "on_event",
    "on_stderr",
];

/// The value of an option of a [`Job`]: JSON, or the agent of a test for the option `executable`.
///
/// # Examples
/// ```
/// use kimi_agent::batch::{Job, JobValue};
/// let values: [JobValue; 3] = ["kimi-k2".into(), true.into(), serde_json::json!(["python3", "agent.py"]).into()];
/// # drop(values);
/// ```
#[derive(Clone, Debug)]
pub struct JobValue {
    json: Value,
    executable: Option<Executable>,
}

impl<T: Into<Value>> From<T> for JobValue {
    fn from(value: T) -> Self {
        Self { json: value.into(), executable: None }
    }
}

impl JobValue {
    #[cfg(feature = "testing")]
    fn of(executable: Executable) -> Self {
        let words = executable.program().into_iter().chain(executable.args().iter().map(std::ops::Deref::deref));
        Self { json: words.map(|word| word.to_string_lossy()).collect(), executable: Some(executable) }
    }
}

#[cfg(feature = "testing")]
macro_rules! agent_of_test {
    ($($ty:ty),*) => {$(
        impl From<$ty> for JobValue {
            fn from(agent: $ty) -> Self {
                Self::of(agent.into())
            }
        }
    )*};
}

#[cfg(feature = "testing")]
agent_of_test!(
    &crate::testing::ScriptedAgent,
    crate::testing::ScriptedAgent,
    &crate::testing::ReplayedAgent,
    crate::testing::ReplayedAgent
);

/// A prompt of a batch, with options of its own. Text and content parts become jobs automatically.
///
/// # Examples
/// ```
/// use kimi_agent::batch::Job;
/// use serde_json::json;
/// let plain = Job::from("Summarize README.md");
/// let job = Job::new("Fix the issue").key("issue-12").data(json!({"issue": 12})).option("model", "kimi-k2");
/// # drop((plain, job));
/// ```
#[derive(Clone, Debug)]
pub struct Job {
    pub(super) prompt: Content,
    pub(super) key: Option<String>,
    pub(super) work_dir: Option<PathBuf>,
    pub(super) data: Value,
    /// Options of the session and of the prompt, as the caller spells them.
    options: Map<String, Value>,
    /// The agent of a test, which owns its script.
    executable: Option<Executable>,
    naming: Naming,
    /// The reason why it cannot run.
    problem: Option<Error>,
}

impl Job {
    /// Makes a job without options.
    ///
    /// # Examples
    /// ```
    /// let job = kimi_agent::batch::Job::new("Summarize README.md");
    /// # drop(job);
    /// ```
    pub fn new(prompt: impl Into<Content>) -> Self {
        Self {
            prompt: prompt.into(),
            key: None,
            work_dir: None,
            data: Value::Null,
            options: Map::new(),
            executable: None,
            naming: Naming::Snake,
            problem: None,
        }
    }

    /// Reads a job from JSON: a text, or an object with `prompt` and, if needed, `key`, `work_dir`, `data`, `timeout` and
    /// `budget`, and options of the session such as `model`. Durations are in seconds. A job with a mistake fails when it is
    /// its turn; the other jobs run.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::batch::Job;
    /// let job = Job::from_json(serde_json::json!({"prompt": "Fix the issue", "key": "issue-12", "model": "kimi-k2"}));
    /// # drop(job);
    /// ```
    #[must_use]
    pub fn from_json(value: Value) -> Self {
        Self::from_json_named(value, Naming::Snake)
    }

    /// Reads a job from JSON with the names and units of the calling language.
    pub(crate) fn from_json_named(value: Value, naming: Naming) -> Self {
        let mut job = Self { naming, ..Self::new("") };
        if let Err(problem) = job.read(value) {
            job.problem = Some(problem);
        }
        job
    }

    /// Makes a job that fails with this error, in place of one that cannot be read.
    pub(crate) fn unreadable(problem: Error) -> Self {
        Self { problem: Some(problem), ..Self::new("") }
    }

    /// Lets the job fail with this error. A wrong name of the option has precedence over its value.
    pub(crate) fn failing(mut self, problem: Error) -> Self {
        let of_name = match &problem {
            Error::InvalidOption { option, .. } => name_problem(option, self.naming),
            _ => None,
        };
        self.problem = Some(of_name.unwrap_or(problem));
        self
    }

    fn read(&mut self, value: Value) -> Result<()> {
        let mut fields = match value {
            Value::String(text) => {
                self.prompt = text.into();
                return Ok(());
            }
            Value::Object(fields) => fields,
            other => {
                let expected = "expected text, or an object with a `prompt`";
                return Err(invalid_option("job", format!("{expected}; got {}", kind_of(&other))));
            }
        };
        // First, so that the result of a job with a mistake has them.
        self.data = fields.remove("data").unwrap_or_default();
        let key = match fields.remove("key") {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(key)) => {
                self.key = Some(key);
                Ok(())
            }
            Some(other) => Err(invalid_option("key", format!("expected text, got {}", kind_of(&other)))),
        };
        let Some(prompt) = fields.remove("prompt") else {
            // The name of the prompt can be misspelled.
            if let Some(problem) = fields.keys().find_map(|name| name_problem(name, self.naming)) {
                return Err(problem);
            }
            return Err(invalid_option("prompt", "the job has none; expected an object with a `prompt`"));
        };
        self.prompt = parse_content(prompt)?;
        key?;
        let work_dir = self.naming.name("work_dir");
        match fields.remove(&work_dir) {
            None | Some(Value::Null) => {}
            Some(Value::String(path)) => self.work_dir = Some(path.into()),
            Some(other) => return Err(invalid_option(work_dir, format!("expected a path, got {}", kind_of(&other)))),
        }
        // A null means the value of the batch, as if the field was left out.
        fields.retain(|_, value| !value.is_null());
        self.options = fields;
        Ok(())
    }

    /// Sets the name of the job in results and in the journal. It must differ from those of the other jobs. Default: a hash
    /// of the prompt and the options of the job.
    ///
    /// # Examples
    /// ```
    /// let job = kimi_agent::batch::Job::new("Fix the issue").key("issue-12");
    /// # drop(job);
    /// ```
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the working directory of the job. Default: that of the batch.
    ///
    /// # Examples
    /// ```
    /// let job = kimi_agent::batch::Job::new("Fix the tests").work_dir("/src/project");
    /// # drop(job);
    /// ```
    #[must_use]
    pub fn work_dir(mut self, work_dir: impl Into<PathBuf>) -> Self {
        self.work_dir = Some(work_dir.into());
        self
    }

    /// Sets a value that the result and the journal contain unchanged. Default: null.
    ///
    /// # Examples
    /// ```
    /// let job = kimi_agent::batch::Job::new("Fix the issue").data(serde_json::json!({"issue": 12}));
    /// # drop(job);
    /// ```
    #[must_use]
    pub fn data(mut self, data: impl Into<Value>) -> Self {
        self.data = data.into();
        self
    }

    /// Sets the limit of one attempt of the job. Default: `turn_timeout` of the session.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// let job = kimi_agent::batch::Job::new("Fix the issue").timeout(Duration::from_secs(600));
    /// # drop(job);
    /// ```
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.options.insert("timeout".to_owned(), json!(limit.as_secs_f64()));
        self
    }

    /// Sets an option of the session for this job, by its name, for example `model`. Durations are in seconds. The job fails
    /// if the option is unknown or the value is wrong. The option `executable` also takes a
    /// [`ScriptedAgent`](crate::testing::ScriptedAgent) or a [`ReplayedAgent`](crate::testing::ReplayedAgent).
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::batch::Job;
    /// use kimi_agent::testing::scripted_agent;
    /// let job = Job::new("Fix the issue").option("model", "kimi-k2").option("thinking", true);
    /// let test = Job::new("Fix the issue").option("executable", scripted_agent(r#"[[{"text": "Fixed."}]]"#));
    /// # drop((job, test));
    /// ```
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<JobValue>) -> Self {
        let (name, value) = (name.into(), value.into());
        if name == EXECUTABLE {
            self.executable = value.executable;
        }
        self.options.insert(name, value.json);
        self
    }

    /// Returns the options of its session and of its prompt.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a mistake of the job.
    pub(super) fn configured(&self, base: &SessionOptions) -> Result<(SessionOptions, PromptOptions)> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let mut session = base.clone();
        session.naming = self.naming;
        let mut of_prompt = Map::new();
        for (name, value) in &self.options {
            if let Some(problem) = name_problem(name, self.naming) {
                return Err(problem);
            }
            if OF_PROMPT.contains(&name.as_str()) {
                of_prompt.insert(name.clone(), value.clone());
            } else if name == "output" {
                session.set_named(name, output_of(value.clone()))?;
            } else {
                session.set_named(name, value.clone())?;
            }
        }
        if let Some(executable) = &self.executable {
            session.executable = Some(executable.clone());
        }
        session.naming = base.naming;
        let prompt = prompt_options(self.prompt.clone(), of_prompt, self.naming)?;
        prompt.limits()?;
        Ok((session, prompt))
    }

    /// Returns the job as JSON, with an absolute path and without its key and its data.
    ///
    /// # Errors
    /// `InvalidOption` if the working directory is not UTF-8.
    pub(super) fn to_json(&self) -> Result<Value> {
        let mut object = self.options.clone();
        object.insert("prompt".to_owned(), json!(self.prompt));
        if let Some(work_dir) = &self.work_dir {
            let absolute = std::path::absolute(work_dir).unwrap_or_else(|_| work_dir.clone());
            let Some(text) = absolute.to_str() else {
                let reason = format!("with the option `on`, the path must be UTF-8; got {}", absolute.display());
                return Err(invalid_option(self.naming.name("work_dir"), reason));
            };
            object.insert("work_dir".to_owned(), text.into());
        }
        Ok(Value::Object(object))
    }

    /// Returns whether its result has a value, according to the option `output` of the job or of the batch.
    pub(super) fn has_output(&self, base: &SessionOptions) -> bool {
        self.options.get("output").map_or(base.output.is_some(), |output| !output.is_null())
    }

    /// Returns whether it needs a process of its own, because it sets an option of the agent.
    pub(super) fn needs_own_agent(&self) -> bool {
        let is_of_agent = |name: &String| {
            let option = find(OPTIONS, name, self.naming);
            option.is_some_and(|option| option.scope == Scope::Agent || option.name == "redact")
        };
        self.options.keys().any(is_of_agent)
    }
}

impl<T: Into<Content>> From<T> for Job {
    fn from(prompt: T) -> Self {
        Self::new(prompt)
    }
}

/// Returns the error for a name that a job cannot have.
fn name_problem(given: &str, naming: Naming) -> Option<Error> {
    if OF_JOB.iter().any(|name| naming.name(name) == given) {
        return None;
    }
    match find(OPTIONS, given, naming) {
        Some(option) if option.name == "session_id" => {
            Some(invalid_option(given, "a job cannot set it, because each job has a session of its own; leave it out"))
        }
        Some(option) if OF_ALL_JOBS.contains(&option.name) => {
            Some(invalid_option(given, "a job cannot set it; set it for the batch"))
        }
        Some(_) => None,
        None if is_batch_option(given, naming) => {
            Some(invalid_option(given, "it is an option of the batch, and a job cannot set it; set it for the batch"))
        }
        None => Some(unknown(given, naming, &OF_JOB)),
    }
}

/// Returns the option `output` in its full form. A JSON Schema alone is the `schema` of it.
fn output_of(given: Value) -> Value {
    let is_schema = given.as_object().is_some_and(|fields| {
        !fields.contains_key("schema") && fields.keys().any(|name| !OUTPUT_KEYS.contains(&name.as_str()))
    });
    if is_schema { json!({"schema": given}) } else { given }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(value: Value) -> String {
        Job::from_json(value).configured(&SessionOptions::new()).unwrap_err().to_string()
    }

    #[test]
    fn json_job_sets_options() {
        let value = json!({"prompt": "p", "key": "k", "data": [1], "timeout": 2, "model": "m", "work_dir": "."});
        let job = Job::from_json(value);
        let (session, prompt) = job.configured(&SessionOptions::new().yolo(true)).unwrap();
        assert_eq!((session.model.as_deref(), session.yolo), (Some("m"), true));
        assert_eq!(prompt.limits().unwrap().turn, Some(Duration::from_secs(2)));
        assert_eq!((job.key.as_deref(), job.data, job.work_dir), (Some("k"), json!([1]), Some(PathBuf::from("."))));
    }

    #[test]
    fn camel_case_job_has_milliseconds() {
        let job = Job::from_json_named(json!({"prompt": "p", "timeout": 2, "maxStepsPerTurn": 3}), Naming::Camel);
        let (session, prompt) = job.configured(&SessionOptions::new()).unwrap();
        assert_eq!(session.max_steps_per_turn, Some(3));
        assert_eq!(prompt.limits().unwrap().turn, Some(Duration::from_millis(2)));
    }

    #[test]
    fn mistake_of_a_job_is_named() {
        assert!(problem(json!(5)).contains("got a number"));
        assert!(problem(json!({})).contains("`prompt`"));
        assert!(problem(json!({"prompt": "p", "key": 5})).contains("`key`"));
        assert_eq!(Job::from_json(json!({"prompt": "p", "key": 5})).prompt, "p".into());
        assert!(problem(json!({"prompt": "p", "modle": "m"})).contains("did you mean `model`"));
        assert!(problem(json!({"prompt": "p", "record": "r/"})).contains("set it for the batch"));
        assert!(problem(json!({"prompt": "p", "telemetry": true})).contains("set it for the batch"));
        assert!(problem(json!({"prompt": "p", "on_approval": "manual"})).contains("set it for the batch"));
        assert!(problem(json!({"prompt": "p", "tools": []})).contains("set it for the batch"));
        assert!(
            problem(json!({"prompt": "p", "concurrency": 2})).contains("`concurrency`: it is an option of the batch")
        );
        assert!(problem(json!({"prompt": "p", "session_id": "one"})).contains("a job cannot set it"));
        assert!(problem(json!({"promt": "p"})).contains("`promt`: unknown option; did you mean `prompt`"));
        assert!(problem(json!({"prompt": "p", "dta": 5})).contains("did you mean `data`"));
        assert!(problem(json!({"prompt": "p", "timeout": "x"})).contains("`timeout`"));
    }

    #[test]
    fn mistake_has_names_of_binding() {
        let problem = |value| {
            let job = Job::from_json_named(value, Naming::Camel);
            job.configured(&SessionOptions::new()).unwrap_err().to_string()
        };
        assert!(problem(json!({"prompt": "p", "sessionId": "one"})).starts_with("invalid option `sessionId`: a job"));
        assert!(problem(json!({"prompt": "p", "workdir": "."})).contains("did you mean `workDir`"));
    }

    #[test]
    fn wrong_name_precedes_wrong_value() {
        let problem = |option: &str| {
            let job = Job::new("p").failing(invalid_option(option, "expected text"));
            job.configured(&SessionOptions::new()).unwrap_err().to_string()
        };
        assert!(problem("on_event").contains("set it for the batch"));
        assert!(problem("promt").contains("did you mean `prompt`"));
        assert!(problem("model").contains("expected text") && problem("prompt").contains("expected text"));
    }

    #[test]
    fn output_is_schema_or_object() {
        let schema = json!({"type": "object", "description": "d"});
        let read = |output: Value| {
            let job = Job::from_json(json!({"prompt": "p", "output": output}));
            let configured = job.configured(&SessionOptions::new());
            configured.map(|(session, _)| session.output.unwrap().plan().unwrap().spec().schema.clone())
        };
        assert_eq!(read(schema.clone()).unwrap(), schema);
        assert_eq!(read(json!({"schema": schema, "retries": 1})).unwrap(), schema);
        assert!(read(json!({"retries": 1})).unwrap_err().to_string().contains("it has no `schema`"));
    }

    #[test]
    fn null_is_not_an_option() {
        let job = Job::from_json(json!({"prompt": "p", "model": null, "timeout": null, "data": null}));
        assert_eq!(job.hash(), Job::new("p").hash());
        let base = SessionOptions::new().model("m");
        assert_eq!(job.configured(&base).unwrap().0.model.as_deref(), Some("m"));
    }

    #[cfg(unix)]
    #[test]
    fn path_that_is_not_utf8_has_a_hash() {
        use std::os::unix::ffi::OsStringExt as _;
        let path = |last| PathBuf::from(std::ffi::OsString::from_vec(vec![b'/', last]));
        let job = |last| Job::new("p").work_dir(path(last));
        assert_ne!(job(0xfe).hash(), job(0xff).hash());
        let error = job(0xff).to_json().unwrap_err().to_string();
        assert!(error.starts_with("invalid option `work_dir`: ") && error.contains("UTF-8"), "{error}");
        assert_eq!(job(b'x').to_json().unwrap()["work_dir"], "/x");
    }

    #[test]
    fn options_of_agents_need_a_process() {
        let needs = |name: &str| Job::new("p").option(name, "x").needs_own_agent();
        assert!(needs("executable") && needs("env") && needs("redact"));
        assert!(!needs("model") && !needs("close_timeout") && !needs("timeout"));
    }

    #[test]
    fn hash_ignores_the_order_of_options() {
        let one = Job::new("p").option("model", "m").option("yolo", true);
        let same = Job::new("p").option("yolo", true).option("model", "m").data(1);
        assert_eq!(one.hash(), same.hash());
        assert_ne!(one.hash(), Job::new("p").hash());
        assert_ne!(Job::new("p").key("p").hash(), Job::new("p").hash());
        let (hash, _) = one.hash();
        assert_eq!(parse_hex(&hex(&hash)), Some(hash));
    }

    #[test]
    fn hash_is_the_same_in_all_languages() {
        let job = |naming, options: Value| {
            let mut job = Job::new("p");
            (job.naming, job.options) = (naming, serde_json::from_value(options).unwrap());
            job.hash()
        };
        let snake = |options| job(Naming::Snake, options);
        let camel = |options| job(Naming::Camel, options);
        for (one, other) in [
            (json!({"max_steps_per_turn": 3}), json!({"maxStepsPerTurn": 3})),
            (json!({"timeout": 60}), json!({"timeout": 60_000})),
            (json!({"timeout": 2.3, "close_timeout": 1}), json!({"closeTimeout": 1000.0, "timeout": 2300})),
            (json!({"budget": {"output_tokens": 5, "steps": null}}), json!({"budget": {"outputTokens": 5.0}})),
            (json!({"no_option": 1.0}), json!({"no_option": 1})),
        ] {
            assert_eq!(snake(one.clone()), camel(other.clone()), "{one} {other}");
        }
        assert_eq!(snake(json!({"timeout": 60})), snake(json!({"timeout": 60.0})));
        assert_ne!(snake(json!({"timeout": 60})), camel(json!({"timeout": 60})));
        assert_ne!(snake(json!({"output": {"a": 0.5}})), snake(json!({"output": {"a": 0}})));
    }
}
