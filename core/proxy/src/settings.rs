//! Settings of a proxy, and their files. The user's file sets what holds. The file of a working directory comes with the
//! project, so it can only make it stricter.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kimi_agent_client::host::{Naming, parse_budget};
use kimi_agent_client::{Budget, Enforce, Error, Result};
use kimi_agent_policy::Policy;
use kimi_agent_protocol::error::invalid_option;
use serde_json::{Map, Value};

use crate::place::PlaceName;

/// The name of the file in a working directory.
pub(crate) const FILE: &str = ".kimi-agent.toml";
/// The path of the user's file in the folder of the user's settings.
const USER_FILE: &str = "kimi-agent/settings.toml";
/// The limit of a file, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The table of the file.
const TABLE: &str = "proxy";

/// The settings of a proxy. Each is unset at first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) policy: Option<Arc<Policy>>,
    pub(crate) enforce: Option<Enforce>,
    pub(crate) session_budget: Option<Budget>,
    pub(crate) turn_budget: Option<Budget>,
    pub(crate) day_budget: Option<Budget>,
    pub(crate) record: Option<PathBuf>,
    pub(crate) place: Option<PlaceName>,
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The user's own.
    User,
    /// The project's. It names files in its directory only, and nothing to write.
    Project,
}

impl Settings {
    /// Reads the file of a working directory. The settings are unset if there is no such file.
    pub(crate) fn of_work_dir(work_dir: &Path) -> Result<Self> {
        Self::read(&work_dir.join(FILE), Owner::Project)
    }

    /// Reads the user's file. The settings are unset if there is no such file.
    pub(crate) fn of_user() -> Result<Self> {
        user_file().map_or_else(|| Ok(Self::default()), |path| Self::read(&path, Owner::User))
    }

    /// Reads a file.
    pub(crate) fn read(path: &Path, owner: Owner) -> Result<Self> {
        let wrong = |reason: String| invalid_option("settings", format!("{}: {reason}", path.display()));
        let read = match owner {
            Owner::Project => kimi_agent_files::read_regular(path, MAX_FILE),
            // The files of a user are often links.
            Owner::User => path.canonicalize().and_then(|path| kimi_agent_files::read_regular(&path, MAX_FILE)),
        };
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(wrong(format!("it cannot be read: {error}"))),
        };
        let text = String::from_utf8(bytes).map_err(|_| wrong("expected text in UTF-8".to_owned()))?;
        let value: Value = toml::from_str(text.strip_prefix('\u{feff}').unwrap_or(&text))
            .map_err(|error| wrong(format!("not valid TOML: {}", error.message())))?;
        Self::of_value(&value, path, owner).map_err(wrong)
    }

    pub(crate) fn of_value(value: &Value, path: &Path, owner: Owner) -> std::result::Result<Self, String> {
        let unknown = |key: &str, expected: &str| format!("the key `{key}` is unknown; expected {expected}");
        let Value::Object(tables) = value else { return Err("expected a table".to_owned()) };
        if let Some(key) = tables.keys().find(|key| *key != TABLE) {
            return Err(unknown(key, "the table `[proxy]`"));
        }
        let members = match tables.get(TABLE) {
            None => return Ok(Self::default()),
            Some(Value::Object(members)) => members,
            Some(_) => return Err("`proxy`: expected a table".to_owned()),
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut settings = Self::default();
        for (key, value) in members {
            match (key.as_str(), value) {
                ("policy", Value::String(name)) => settings.policy = Some(Arc::new(named(name, folder, owner)?)),
                ("policy", rules) => {
                    let policy = Policy::from_value(rules).map_err(|error| reason(error, "policy"))?;
                    settings.policy = Some(Arc::new(policy));
                }
                ("enforce", Value::String(word)) if word == "approvals" => settings.enforce = Some(Enforce::Approvals),
                ("enforce", Value::String(word)) if word == "calls" => settings.enforce = Some(Enforce::Calls),
                ("enforce", other) => {
                    return Err(format!("`enforce`: expected \"approvals\" or \"calls\", got {other}"));
                }
                ("budget", Value::Object(limits)) => settings.session_budget = Some(budget(limits, "budget")?),
                ("turn_budget", Value::Object(limits)) => settings.turn_budget = Some(budget(limits, "turn_budget")?),
                ("day_budget", Value::Object(limits)) => settings.day_budget = Some(budget(limits, "day_budget")?),
                ("budget" | "turn_budget" | "day_budget", other) => {
                    return Err(format!("`{key}`: expected a table such as {{ tokens = 1000000 }}, got {other}"));
                }
                ("record", _) if owner == Owner::Project => {
                    return Err("`record`: only the user's file can say where recordings are written".to_owned());
                }
                ("record", Value::String(to)) => settings.record = Some(folder.join(expanded(to))),
                ("record", other) => return Err(format!("`record`: expected a path, got {other}")),
                ("place", _) if owner == Owner::Project => {
                    return Err("`place`: only the user's file can say where the agent runs".to_owned());
                }
                ("place", Value::String(name)) => {
                    settings.place = Some(PlaceName::parse(name).map_err(|problem| format!("`place`: {problem}"))?);
                }
                ("place", other) => return Err(format!("`place`: expected text such as \"sandbox\", got {other}")),
                _ => {
                    return Err(unknown(
                        key,
                        "`policy`, `enforce`, `budget`, `turn_budget`, `day_budget`, `record` or `place`",
                    ));
                }
            }
        }
        Ok(settings)
    }

    /// Adds settings that were given otherwise, and hold in place of these.
    pub(crate) fn overridden_by(self, given: Self) -> Self {
        Self {
            policy: given.policy.or(self.policy),
            enforce: given.enforce.or(self.enforce),
            session_budget: given.session_budget.or(self.session_budget),
            turn_budget: given.turn_budget.or(self.turn_budget),
            day_budget: given.day_budget.or(self.day_budget),
            record: given.record.or(self.record),
            place: given.place.or(self.place),
        }
    }
}

/// The limits of one session: the user's, and those of its working directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// All of them must allow a call.
    pub(crate) policies: Vec<Arc<Policy>>,
    pub(crate) enforces_calls: bool,
    pub(crate) session_budget: Option<Budget>,
    pub(crate) turn_budget: Option<Budget>,
    pub(crate) day_budget: Option<Budget>,
}

impl Limits {
    /// Returns the limits of a session: the stricter of the user's settings and of the project's.
    pub(crate) fn of(user: &Settings, project: &Settings) -> Result<Self> {
        let stricter = |one: Option<Budget>, other: Option<Budget>| match (one, other) {
            (Some(one), Some(other)) => Some(one.stricter(other)),
            (one, other) => one.or(other),
        };
        let mut policies: Vec<_> = user.policy.iter().cloned().collect();
        if let Some(policy) = &project.policy {
            if policies.is_empty() {
                // Without rules of the user, the user is asked about everything. The project's rules approve nothing.
                policies.push(Arc::new(Policy::from_value(&serde_json::json!({"default": "ask"}))?));
            }
            policies.push(Arc::clone(policy));
        }
        let enforces_calls = [user.enforce, project.enforce].contains(&Some(Enforce::Calls));
        Ok(Self {
            policies,
            enforces_calls,
            session_budget: stricter(user.session_budget, project.session_budget),
            turn_budget: stricter(user.turn_budget, project.turn_budget),
            day_budget: stricter(user.day_budget, project.day_budget),
        })
    }
}

fn named(name: &str, folder: &Path, owner: Owner) -> std::result::Result<Policy, String> {
    if let Ok(preset) = Policy::preset(name) {
        return Ok(preset);
    }
    let path = folder.join(if owner == Owner::User { expanded(name) } else { PathBuf::from(name) });
    if owner == Owner::Project {
        let is_inside = path.canonicalize().and_then(|path| Ok(path.starts_with(folder.canonicalize()?)));
        match is_inside {
            Ok(true) => {}
            Ok(false) => return Err(format!("`policy`: {name} is not in the directory of this file")),
            Err(error) => return Err(format!("`policy`: {name} cannot be read: {error}")),
        }
    }
    Policy::load(&path).map_err(|error| reason(error, "policy"))
}

fn budget(limits: &Map<String, Value>, key: &str) -> std::result::Result<Budget, String> {
    parse_budget(limits.clone(), Naming::Snake).map_err(|problem| format!("`{key}`: {problem}"))
}

/// Returns the text of an error without the name of an option.
fn reason(error: Error, key: &str) -> String {
    match error {
        Error::InvalidOption { reason, .. } => format!("`{key}`: {reason}"),
        other => format!("`{key}`: {other}"),
    }
}

/// Returns a path with the user's folder in place of `~`.
fn expanded(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

/// Returns the path of the user's file.
fn user_file() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = match cfg!(windows) {
        true => variable("APPDATA"),
        false => variable("XDG_CONFIG_HOME").or_else(|| {
            // A relative one names a file of the current directory, which can be the project's.
            Some(std::env::home_dir().filter(|home| home.is_absolute())?.join(".config"))
        }),
    };
    Some(folder?.join(USER_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn problem(text: &str, owner: Owner) -> String {
        let (_dir, path) = written(text);
        Settings::read(&path, owner).unwrap_err().to_string()
    }

    #[test]
    fn file_holds_all_settings() {
        let (dir, path) = written(
            "[proxy]\npolicy = \"team.toml\"\nenforce = \"calls\"\nbudget = { tokens = 1000 }\n\
             turn_budget = { tool_calls = 5 }\nday_budget = { usd = 2.5 }\nrecord = \"runs\"\nplace = \"sandbox\"\n",
        );
        std::fs::write(dir.path().join("team.toml"), "deny = [\"execute(rm *)\"]").unwrap();
        let settings = Settings::read(&path, Owner::User).unwrap();
        assert_eq!(settings.policy.unwrap().rules().count(), 1);
        assert_eq!(settings.enforce, Some(Enforce::Calls));
        assert_eq!(settings.session_budget, Some(Budget::new().tokens(1000)));
        assert_eq!(settings.turn_budget, Some(Budget::new().tool_calls(5)));
        assert_eq!(settings.day_budget, Some(Budget::new().usd(2.5)));
        assert_eq!(settings.record, Some(dir.path().join("runs")));
        assert_eq!(settings.place, Some(PlaceName::Sandbox));
        let none = Settings::of_work_dir(&dir.path().join("none")).unwrap();
        assert!(none.policy.is_none() && none.record.is_none());
    }

    #[test]
    fn wrong_files_are_refused() {
        for (text, expected) in [
            ("[proxy]\npolice = 1", "`police` is unknown"),
            ("policy = \"read-only\"", "`policy` is unknown"),
            ("proxy = 1", "expected a table"),
            ("[proxy]\nenforce = \"all\"", "`enforce`"),
            ("[proxy]\nbudget = 5", "`budget`"),
            ("[proxy]\nbudget = { token = 5 }", "`budget`"),
            ("[proxy]\npolicy = \"none.toml\"", "`policy`"),
            ("[proxy]\npolicy = { deny = 1 }", "`policy`"),
            ("[proxy]\nplace = \"docker\"", "`place`"),
            ("[proxy", "not valid TOML"),
        ] {
            for owner in [Owner::User, Owner::Project] {
                let problem = problem(text, owner);
                assert!(problem.contains(expected) && problem.contains(FILE), "{text}: {problem}");
            }
        }
    }

    #[test]
    fn project_names_no_file_outside() {
        assert!(problem("[proxy]\nrecord = \"/tmp/runs\"", Owner::Project).contains("only the user's file"));
        assert!(problem("[proxy]\nplace = \"sandbox\"", Owner::Project).contains("only the user's file"));
        let outside = tempfile::tempdir().unwrap();
        let other = outside.path().join("other.toml");
        std::fs::write(&other, "allow = [\"execute\"]").unwrap();
        let text = format!("[proxy]\npolicy = {:?}", other.to_str().unwrap());
        assert!(problem(&text, Owner::Project).contains("not in the directory"));
        #[cfg(unix)]
        {
            let (dir, path) = written("[proxy]\npolicy = \"link.toml\"");
            std::os::unix::fs::symlink(&other, dir.path().join("link.toml")).unwrap();
            assert!(Settings::read(&path, Owner::Project).unwrap_err().to_string().contains("not in the directory"));
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&other, &path).unwrap();
            assert!(Settings::read(&path, Owner::Project).is_err());
        }
    }

    #[test]
    fn project_only_tightens() {
        let settings = |text: &str, owner| {
            let (_dir, path) = written(text);
            Settings::read(&path, owner).unwrap()
        };
        let user = settings("[proxy]\nbudget = { tokens = 100, steps = 9 }\nenforce = \"calls\"", Owner::User);
        let loose = settings(
            "[proxy]\nbudget = { tokens = 1000, steps = 3 }\nenforce = \"approvals\"\npolicy = { default = \"allow\" }",
            Owner::Project,
        );
        let limits = Limits::of(&user, &loose).unwrap();
        assert!(limits.enforces_calls);
        assert_eq!(limits.session_budget, Some(Budget::new().tokens(100).steps(3)));
        // The default of the first policy asks.
        assert_eq!(limits.policies.len(), 2);
        assert_eq!(limits.policies[0].default_decision(), kimi_agent_policy::Decision::Ask);
        let strict = settings("[proxy]\npolicy = \"read-only\"", Owner::User);
        assert_eq!(Limits::of(&strict, &loose).unwrap().policies.len(), 2);
        assert_eq!(Limits::of(&strict, &Settings::default()).unwrap().policies.len(), 1);
        assert!(Limits::of(&Settings::default(), &Settings::default()).unwrap().policies.is_empty());
    }
}
