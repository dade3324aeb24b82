//! The violations of a value, with their places.

use std::collections::HashSet;

use serde_json::Value;

use super::super::{MAX_MESSAGE, OutputError, escaped, shortened};

/// Collects no more violations than this from one value.
const MAX_COLLECTED: usize = 200;

#[derive(Clone, Copy)]
pub(super) enum Token<'p> {
    Key(&'p str),
    Index(usize),
}

/// A part of a value, with its place.
#[derive(Clone, Copy)]
pub(super) struct At<'p> {
    pub(super) value: &'p Value,
    place: Option<(&'p At<'p>, Token<'p>)>,
}

impl<'p> At<'p> {
    pub(super) fn root(value: &'p Value) -> Self {
        Self { value, place: None }
    }

    pub(super) fn member(&'p self, key: &'p str, value: &'p Value) -> Self {
        Self { value, place: Some((self, Token::Key(key))) }
    }

    pub(super) fn item(&'p self, index: usize, value: &'p Value) -> Self {
        Self { value, place: Some((self, Token::Index(index))) }
    }

    /// Returns the JSON Pointer.
    fn pointer(&self) -> String {
        let mut tokens = Vec::new();
        let mut place = self.place;
        while let Some((parent, token)) = place {
            tokens.push(match token {
                Token::Key(key) => escaped(&shortened(key, MAX_MESSAGE)),
                Token::Index(index) => index.to_string(),
            });
            place = parent.place;
        }
        tokens.iter().rev().flat_map(|token| ["/", token]).collect()
    }
}

/// The violations that were found.
#[derive(Default)]
pub(super) struct Violations {
    found: Vec<OutputError>,
    /// Above zero, violations are not collected.
    pub(super) silence: usize,
}

impl Violations {
    pub(super) fn is_silent(&self) -> bool {
        self.silence > 0
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    pub(super) fn add(&mut self, at: At<'_>, message: impl FnOnce() -> String) {
        if !self.is_silent() && self.found.len() < MAX_COLLECTED {
            self.found.push(OutputError::new(at.pointer(), shortened(&message(), MAX_MESSAGE)));
        }
    }

    /// Moves the violations after the first `length` ones to a place.
    pub(super) fn relocate(&mut self, length: usize, at: At<'_>, prefix: &str) {
        for error in self.found.iter_mut().skip(length) {
            error.pointer = at.pointer();
            error.message = shortened(&format!("{prefix}: {}", error.message), MAX_MESSAGE);
        }
    }

    /// Returns the violations, each once.
    pub(super) fn finish(mut self) -> Vec<OutputError> {
        let mut known = HashSet::new();
        self.found.retain(|error| known.insert((error.pointer.clone(), error.message.clone())));
        self.found
    }
}
