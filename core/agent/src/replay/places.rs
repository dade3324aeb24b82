//! The directories of the machine: they replace the placeholders of a recording, and the other way round.

use std::env;
use std::path::{Path, PathBuf};

use kimi_agent_protocol::recording::{Place, Redactor};
use serde_json::Value;

/// The directories that stand for the placeholders of a recording.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// The names of the placeholders, with the paths.
    paths: Vec<(&'static str, String)>,
}

impl Places {
    /// Takes the directories of this process.
    pub(super) fn here(work_dir: &Path) -> Self {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut places = Self { paths: Vec::new() };
        places.paths.push(("work_dir", text(work_dir.to_owned())));
        places.paths.extend(env::home_dir().filter(|home| home.is_absolute()).map(|home| ("home", text(home))));
        places.paths.push(("temp", text(kimi_agent_files::temp_dir())));
        places
    }

    #[cfg(test)]
    pub(super) fn of(paths: &[(&'static str, &str)]) -> Self {
        Self { paths: paths.iter().map(|(name, path)| (*name, (*path).to_owned())).collect() }
    }

    pub(super) fn set_work_dir(&mut self, path: &str) {
        if let Some((_, work_dir)) = self.paths.iter_mut().find(|(name, _)| *name == "work_dir") {
            path.clone_into(work_dir);
        }
    }

    /// Returns a message with these directories instead of its placeholders.
    pub(super) fn fill(&self, message: &str) -> String {
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

    fn fill_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, path) in &self.paths {
            let (whole, slug) = (format!("{{{{{name}}}}}"), format!("{{{{{name}:slug}}}}"));
            if text.contains(&whole) {
                text = text.replace(&whole, path.trim_end_matches(['/', '\\']));
            }
            if text.contains(&slug) {
                text = text.replace(&slug, &slug_of(path));
            }
        }
        text
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

    /// Fills a text, which may be JSON itself.
    fn fill_nested(&self, text: &str) -> String {
        if text.trim_start().starts_with(['{', '['])
            && let Ok(mut value) = serde_json::from_str::<Value>(text)
        {
            self.fill_value(&mut value);
            return value.to_string();
        }
        self.fill_text(text)
    }

    /// Returns what replaces these directories by placeholders.
    pub(super) fn redactor(&self) -> Option<Redactor> {
        let mut places: Vec<Place> = Vec::new();
        for (name, path) in &self.paths {
            let real = std::fs::canonicalize(path).ok().map(|real| real.to_string_lossy().into_owned());
            places.push(Place { name, path: path.clone() });
            // Windows begins such a path with a mark that programs do not show.
            let real = real.map(|real| real.strip_prefix(r"\\?\").map(str::to_owned).unwrap_or(real));
            places.extend(real.filter(|real| real != path).map(|path| Place { name, path }));
        }
        Redactor::new(&places, [], &[]).ok()
    }
}

fn slug_of(path: &str) -> String {
    let path = path.trim_end_matches(['/', '\\']);
    path.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect()
}
