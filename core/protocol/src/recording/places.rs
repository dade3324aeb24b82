//! The directories that stand for the placeholders of a recording.

use std::path::PathBuf;

use serde_json::Value;

use super::redact::slug;

/// The names of placeholders, each with a directory of this machine.
#[derive(Clone, Debug)]
pub struct Places {
    paths: Vec<(&'static str, String)>,
}

impl Places {
    /// Takes directories with the names of their placeholders: `work_dir`, `home` and `temp`.
    pub fn new(paths: impl IntoIterator<Item = (&'static str, PathBuf)>) -> Self {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        Self { paths: paths.into_iter().map(|(name, path)| (name, text(path))).collect() }
    }

    /// Returns the directories with the names of their placeholders.
    pub fn paths(&self) -> &[(&'static str, String)] {
        &self.paths
    }

    /// Sets the directory of `work_dir`, if it has one.
    pub fn set_work_dir(&mut self, path: &str) {
        if let Some((_, work_dir)) = self.paths.iter_mut().find(|(name, _)| *name == "work_dir") {
            path.clone_into(work_dir);
        }
    }

    /// Returns a message with these directories instead of its placeholders.
    pub fn fill(&self, message: &str) -> String {
        if !message.contains("{{") {
            return message.to_owned();
        }
        let needs_escapes = |(_, path): &(_, String)| path.contains(['\\', '"']) || path.contains(char::is_control);
        if self.paths.iter().any(needs_escapes)
            && let Ok(mut value) = serde_json::from_str::<Value>(message)
        {
            self.fill_value(&mut value);
            return value.to_string();
        }
        self.fill_text(message)
    }

    /// Returns a text with these directories instead of its placeholders.
    pub fn fill_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, path) in &self.paths {
            let (whole, short) = (format!("{{{{{name}}}}}"), format!("{{{{{name}:slug}}}}"));
            if text.contains(&whole) {
                text = text.replace(&whole, path.trim_end_matches(['/', '\\']));
            }
            if text.contains(&short) {
                text = text.replace(&short, &slug(path.trim_end_matches(['/', '\\'])));
            }
        }
        text
    }

    /// Returns a value with these directories instead of its placeholders, also in texts that are JSON themselves.
    #[must_use]
    pub fn filled(&self, value: &Value) -> Value {
        let mut value = value.clone();
        self.fill_value(&mut value);
        value
    }

    fn fill_value(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains("{{") => *text = self.fill_nested(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.fill_value(value)),
            Value::Object(map) => {
                let old = std::mem::take(map);
                for (name, mut value) in old {
                    self.fill_value(&mut value);
                    map.insert(self.fill_text(&name), value);
                }
            }
            _ => {}
        }
    }

    fn fill_nested(&self, text: &str) -> String {
        if text.trim_start().starts_with(['{', '['])
            && let Ok(mut value) = serde_json::from_str::<Value>(text)
        {
            self.fill_value(&mut value);
            return value.to_string();
        }
        self.fill_text(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_become_directories() {
        let places = Places::new([("work_dir", PathBuf::from("/project"))]);
        let value = json!({"path": ["{{work_dir}}/a", 1], "{{work_dir}}": "{{unknown}}", "slug": "{{work_dir:slug}}"});
        let filled = json!({"path": ["/project/a", 1], "/project": "{{unknown}}", "slug": "-project"});
        assert_eq!(places.filled(&value), filled);
    }
}
