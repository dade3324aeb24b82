//! The questions in the arguments of an asking tool.

use std::collections::HashMap;

use serde::Deserialize;

use super::Tools;

/// A question in the arguments of an asking tool.
#[derive(Deserialize)]
pub(in super::super) struct AskedQuestion {
    pub(in super::super) question: String,
    pub(in super::super) header: Option<String>,
    #[serde(default)]
    options: Vec<AskedChoice>,
}

#[derive(Deserialize)]
pub(super) struct AskedChoice {
    label: String,
    description: Option<String>,
}

impl AskedQuestion {
    /// Returns the descriptions of the choices that have one, by label.
    pub(in super::super) fn descriptions(&self) -> HashMap<&str, &str> {
        // Of several choices with the same label, the first one is described.
        let described = self.options.iter().rev().map(|choice| (&*choice.label, choice.description.as_deref()));
        let first: HashMap<_, _> = described.collect();
        first.into_iter().filter_map(|(label, description)| Some((label, description?))).collect()
    }
}

impl Tools {
    /// Returns the questions in the arguments of a call.
    pub(in super::super) fn questions(&self, id: &str) -> Vec<AskedQuestion> {
        #[derive(Deserialize)]
        struct Arguments {
            questions: Vec<AskedQuestion>,
        }
        let call = self.calls.iter().rev().find(|call| call.id == id);
        let arguments = call.and_then(|call| crate::json::object::<Arguments>(&call.arguments).ok());
        arguments.map_or_else(Vec::new, |arguments| arguments.questions)
    }
}
