//! Places as the bindings pass them: an object with `type` and the settings of this type.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{Container, Place, Prefix, Remote, Sandbox, Ssh};
use crate::naming::Naming;
use crate::options::kind_of;

/// Reads a place. The error says what is wrong with which setting.
pub(crate) fn read(mut settings: Map<String, Value>, naming: Naming) -> Result<Place, String> {
    let kind = settings.remove("type");
    let mut settings = Settings { settings, naming };
    let place = match kind.as_ref().and_then(Value::as_str) {
        Some("prefix") => settings.prefix()?.into(),
        Some("sandbox") => settings.sandbox()?.into(),
        Some("container") => settings.container()?.into(),
        Some("ssh") => settings.ssh()?.into(),
        Some("remote") => settings.remote()?.into(),
        _ => {
            let got = kind.map_or_else(|| "none".to_owned(), |kind| kind.to_string());
            return Err(format!(
                "`type`: expected \"container\", \"prefix\", \"remote\", \"sandbox\" or \"ssh\", got {got}"
            ));
        }
    };
    match settings.settings.keys().next() {
        None => Ok(place),
        Some(unknown) => Err(format!("it has no setting `{unknown}`")),
    }
}

struct Settings {
    settings: Map<String, Value>,
    naming: Naming,
}

impl Settings {
    /// Takes a setting. Null is unset.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.settings.remove(&self.naming.name(name)).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, expected: &str, got: &Value) -> String {
        format!("`{}`: expected {expected}, got {}", self.naming.name(name), kind_of(got))
    }

    fn words(&mut self, name: &str) -> Result<Vec<OsString>, String> {
        const EXPECTED: &str = "a list of text";
        let given = self.take(name);
        let word = |value: Value| match value {
            Value::String(word) => Ok(OsString::from(word)),
            other => Err(self.wrong(name, EXPECTED, &other)),
        };
        match given {
            None => Ok(Vec::new()),
            Some(Value::Array(words)) => words.into_iter().map(word).collect(),
            Some(other) => Err(self.wrong(name, EXPECTED, &other)),
        }
    }

    fn paths(&mut self, name: &str) -> Result<Vec<(PathBuf, String)>, String> {
        const EXPECTED: &str = "an object of paths";
        let paths = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Value::Object(paths)) => paths,
            Some(other) => return Err(self.wrong(name, EXPECTED, &other)),
        };
        let path = |(directory, inside): (String, Value)| match inside {
            Value::String(inside) => Ok((PathBuf::from(directory), inside)),
            other => Err(self.wrong(name, EXPECTED, &other)),
        };
        paths.into_iter().map(path).collect()
    }

    fn list(&mut self, name: &str) -> Result<Option<Vec<PathBuf>>, String> {
        let is_set = self.settings.get(&self.naming.name(name)).is_some_and(|value| !value.is_null());
        let words = self.words(name)?;
        Ok(is_set.then(|| words.into_iter().map(PathBuf::from).collect()))
    }

    fn boolean(&mut self, name: &str) -> Result<Option<bool>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(self.wrong(name, "a boolean", &other)),
        }
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "text", &other)),
        }
    }

    fn container(&mut self) -> Result<Container, String> {
        let made = Container::default();
        let has_mounts = self.settings.get("mount").is_some_and(|value| !value.is_null());
        let mount = self.paths("mount")?;
        Ok(Container {
            image: self.text("image")?,
            name: self.text("name")?,
            mount: has_mounts.then_some(mount),
            user: self.text("user")?,
            network: self.boolean("network")?.unwrap_or(made.network),
            runtime: self.text("runtime")?.map_or(made.runtime, OsString::from),
            args: self.words("args")?,
        })
    }

    fn ssh(&mut self) -> Result<Ssh, String> {
        let (host, work_dir) = (self.text("host")?.unwrap_or_default(), self.text("work_dir")?.unwrap_or_default());
        Ok(Ssh::new(host, work_dir).options(self.words("options")?))
    }

    fn remote(&mut self) -> Result<Remote, String> {
        const EXPECTED: &str = "an object of text";
        let mut remote = Remote::new(self.text("url")?.unwrap_or_default());
        remote.work_dir = self.text("work_dir")?;
        remote.headers = match self.take("headers") {
            None => Vec::new(),
            Some(Value::Object(headers)) => {
                let header = |(name, value)| match value {
                    Value::String(value) => Ok((name, value)),
                    other => Err(self.wrong("headers", EXPECTED, &other)),
                };
                headers.into_iter().map(header).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(self.wrong("headers", EXPECTED, &other)),
        };
        Ok(remote)
    }

    fn sandbox(&mut self) -> Result<Sandbox, String> {
        let made = Sandbox::default();
        Ok(Sandbox {
            write: self.list("write")?.unwrap_or(made.write),
            read: self.list("read")?,
            network: self.boolean("network")?.unwrap_or(made.network),
            hide: self.list("hide")?.unwrap_or(made.hide),
            base: None,
        })
    }

    fn prefix(&mut self) -> Result<Prefix, String> {
        let command = self.words("command")?;
        Ok(Prefix { command, paths: self.paths("paths")? })
    }
}
