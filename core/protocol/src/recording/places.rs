//! The directories that stand for the placeholders of a recording.

use std::path::PathBuf;

use serde_json::Value;

use super::names::{
    FOLDER_PLACEHOLDER, KEPT_IN_URLS, LITERAL_PLACEHOLDER, ascii_slug, folder_id, path_in_url, posix, slug,
};
use crate::json::of_text;

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
        let mut fill = |placeholder: &str, form: &dyn Fn() -> String| {
            if text.contains(placeholder) {
                text = text.replace(placeholder, &form());
            }
        };
        for (name, path) in &self.paths {
            let path = path.trim_end_matches(['/', '\\']);
            fill(&format!("{{{{{name}}}}}"), &|| path.to_owned());
            fill(&format!("{{{{{name}:slug}}}}"), &|| slug(path));
            fill(&format!("{{{{{name}:ascii-slug}}}}"), &|| ascii_slug(path));
            fill(&format!("{{{{{name}:url}}}}"), &|| path_in_url(path, KEPT_IN_URLS));
            fill(&format!("{{{{{name}:posix}}}}"), &|| posix(path));
            if *name == "work_dir" {
                fill(FOLDER_PLACEHOLDER, &|| folder_id(path));
            }
        }
        // The last one, because it makes texts that look like placeholders.
        fill(LITERAL_PLACEHOLDER, &|| "{{".to_owned());
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
            && let Some(mut value) = of_text(text)
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

    use super::super::redact::{Place, Redactor};
    use super::*;

    #[test]
    fn forms_of_directories_are_filled() {
        let path = "/Müller & 𝄞/app";
        let places = Places::new([("work_dir", PathBuf::from(path))]);
        let redactor = Redactor::of_places(&[Place { name: "work_dir", path: path.to_owned() }]);
        for (text, recorded) in [
            ("a/-Müller-----app/b", "a/{{work_dir:slug}}/b"),
            ("a/-M-ller------app/b", "a/{{work_dir:ascii-slug}}/b"),
            ("file:///M%C3%BCller%20&%20%F0%9D%84%9E/app/b", "file://{{work_dir:url}}/b"),
        ] {
            assert_eq!(redactor.redacted(text.as_bytes()), recorded.as_bytes());
            assert_eq!(places.fill_text(recorded), text);
        }
        let strict = "file:///M%C3%BCller%20%26%20%F0%9D%84%9E/app";
        assert_eq!(redactor.redacted(strict.as_bytes()), b"file://{{work_dir:url}}".as_slice());
        let id = places.fill_text("/s/{{work_dir:id}}/t");
        assert!(id.starts_with("/s/wd_app_") && id.len() == "/s/wd_app_/t".len() + 12, "{id}");
        for text in [&id, "/s/wd_app_089caa4c9705/t"] {
            assert_eq!(redactor.redacted(text.as_bytes()), b"/s/{{work_dir:id}}/t".as_slice());
        }
        for text in ["wd_app_089caa4c970", "wd_app_089caa4c97055", "wd_apple_089caa4c9705"] {
            assert_eq!(redactor.redacted(text.as_bytes()), text.as_bytes());
        }
    }

    #[test]
    fn slug_with_one_dash_is_name_of_folder() {
        let places = [Place { name: "work_dir", path: "/work".to_owned() }];
        let redactor = Redactor::of_places(&places);
        assert_eq!(redactor.redacted(b"projects/-work/a"), b"projects/{{work_dir:slug}}/a".as_slice());
        assert_eq!(redactor.redacted(b"projects/-work"), b"projects/{{work_dir:slug}}".as_slice());
        for text in ["rm -work", "home-work", "/-workers/a", "-work"] {
            assert_eq!(redactor.redacted(text.as_bytes()), text.as_bytes());
        }
    }

    #[test]
    fn drive_is_filled_in_each_form() {
        let places = Places::new([("home", PathBuf::from(r"C:\Users\Ada"))]);
        for (recorded, text) in [
            ("{{home:posix}}/x", "/c/Users/Ada/x"),
            ("file:///{{home:url}}/x", "file:///C:/Users/Ada/x"),
            ("{{home:slug}}", "C--Users-Ada"),
        ] {
            assert_eq!(places.fill_text(recorded), text);
        }
        let places = Places::new([("home", PathBuf::from("/home/ada"))]);
        assert_eq!(places.fill_text("{{home:posix}}/x"), "/home/ada/x");
    }

    #[test]
    fn texts_like_placeholders_stay() {
        let names = ["work_dir", "home"];
        let path = |name: &str| format!("/of/{name}");
        let places = Places::new(names.map(|name| (name, PathBuf::from(path(name)))));
        let redactor = Redactor::of_places(&names.map(|name| Place { name, path: path(name) }));
        for (text, recorded) in [
            ("a {{home}} b", "a {{literal}}home}} b"),
            ("/of/home {{work_dir:slug}} {{{home}}}", "{{home}} {{literal}}work_dir:slug}} {{{literal}}home}}}"),
            ("{{literal}}home}}", "{{literal}}literal}}home}}"),
            (
                r#"{"{{home}}":"{{ home }} {{homes}} {{temp}}"}"#,
                r#"{"{{literal}}home}}":"{{ home }} {{homes}} {{temp}}"}"#,
            ),
        ] {
            assert_eq!(String::from_utf8_lossy(&redactor.redacted(text.as_bytes())), recorded);
            assert_eq!(places.fill(recorded), text);
        }
    }

    #[test]
    fn placeholders_become_directories() {
        let places = Places::new([("work_dir", PathBuf::from("/project"))]);
        let value = json!({"path": ["{{work_dir}}/a", 1], "{{work_dir}}": "{{unknown}}", "slug": "{{work_dir:slug}}"});
        let filled = json!({"path": ["/project/a", 1], "/project": "{{unknown}}", "slug": "-project"});
        assert_eq!(places.filled(&value), filled);
    }
}
