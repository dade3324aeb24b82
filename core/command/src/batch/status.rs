//! The progress of a batch on the standard error: a bar on a terminal, otherwise a line for each result.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kimi_agent_client::batch::{JobResult, Progress};
use kimi_agent_protocol::printable::visible_line;

use super::page::short;

/// Shows the progress.
pub(super) struct Status {
    bar: Option<ProgressBar>,
    is_quiet: bool,
    last: Mutex<Progress>,
}

impl Status {
    pub(super) fn new(is_quiet: bool) -> Self {
        let bar = (!is_quiet && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(style("{spinner} {pos} done {per_sec} {elapsed} {msg}"));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self { bar, is_quiet, last: Mutex::default() }
    }

    /// Shows the numbers of the batch.
    pub(super) fn show(&self, progress: &Progress) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = *progress;
        let Some(bar) = &self.bar else { return };
        if let Some(total) = progress.total.filter(|_| bar.length().is_none()) {
            bar.set_length(total);
            bar.set_style(style("{bar:24} {pos}/{len} {per_sec} {elapsed} ({eta} left) {msg}"));
        }
        bar.set_position(progress.done);
        bar.set_message(numbers(progress));
    }

    /// Shows a result, unless there is a bar.
    pub(super) fn result(&self, result: &JobResult) {
        if self.bar.is_some() && result.error.is_none() {
            return;
        }
        let progress = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let error = result.error.as_ref().map(|error| format!(" ({})", error.code())).unwrap_or_default();
        let reason = result.error.as_ref().map(|error| format!(": {}", short(&error.to_string()))).unwrap_or_default();
        let text = format!("{}: {}{error}{reason}", result.key, result.status.as_str());
        if self.bar.is_some() {
            return self.note(&text);
        }
        let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
        self.note(&format!("{text}; {}{total} done, {}", progress.done, numbers(&progress)));
    }

    /// Writes a line.
    pub(super) fn note(&self, text: &str) {
        if !self.is_quiet {
            self.warn(text);
        }
    }

    /// Writes a line, also if no notes are wanted.
    pub(super) fn warn(&self, text: &str) {
        let line = visible_line(text).into_owned();
        match &self.bar {
            Some(bar) => bar.println(line),
            // A closed standard error cannot show anything, and the batch continues.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// Removes the bar, and shows the last numbers.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            let progress = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(io::stderr(), "{} done, {}", progress.done, numbers(&progress)).ok();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Returns the numbers as text.
fn numbers(progress: &Progress) -> String {
    let Progress { failed, running, waiting, retried, tokens, concurrency, .. } = progress;
    format!(
        "{failed} failed, {running} running (at most {concurrency}), {waiting} waiting, {retried} retried, {tokens} tokens"
    )
}
