//! The files that an agent reads: how many at a time, and how large their answers are.

use std::collections::VecDeque;

use kimi_agent_protocol::json::encoded_size;

use super::handlers::Served;
use crate::answers::HandlerError;
use crate::connection::RequestKey;
use crate::messages::ReadFileRequest;

/// The limit of files that are read at a time for a session. [`files()`](crate::files) reads at most 16 MiB of each.
const MAX_READS: usize = 4;
/// The limit of a file's lines as JSON, in bytes. A control character takes six.
const MAX_ENCODED: usize = 24 << 20;

/// The requests for files, which wait if too many files are read or too many answers are not written.
#[derive(Default)]
pub(super) struct Reads {
    begun: Vec<RequestKey>,
    waiting: VecDeque<(RequestKey, Served, ReadFileRequest)>,
    is_held: bool,
}

impl Reads {
    fn is_full(&self) -> bool {
        self.is_held || self.begun.len() >= MAX_READS
    }

    /// Returns the request if its file can be read now. Otherwise keeps it.
    pub(super) fn admit(
        &mut self,
        key: RequestKey,
        served: &Served,
        request: ReadFileRequest,
    ) -> Option<ReadFileRequest> {
        if self.waiting.is_empty() && !self.is_full() {
            return Some(request);
        }
        self.waiting.push_back((key, served.clone(), request));
        None
    }

    /// Returns the next request whose file can be read now. With `is_held`, requests wait for the writing of answers.
    pub(super) fn next(&mut self, is_held: bool) -> Option<(RequestKey, Served, ReadFileRequest)> {
        self.is_held = is_held;
        if self.is_full() {
            return None;
        }
        self.waiting.pop_front()
    }

    pub(super) fn begun(&mut self, key: RequestKey) {
        self.begun.push(key);
    }

    /// Forgets a request that was answered or withdrawn.
    pub(super) fn ended(&mut self, key: RequestKey) {
        self.begun.retain(|begun| *begun != key);
        self.waiting.retain(|(waiting, ..)| *waiting != key);
    }
}

/// The lines that a request asks for.
#[derive(Clone, Copy)]
pub(super) struct Range {
    skipped: usize,
    limit: usize,
}

impl Range {
    pub(super) fn of(request: &ReadFileRequest) -> Self {
        let number = |field: Option<i64>| field.and_then(|number| usize::try_from(number).ok());
        Self {
            skipped: number(request.line).map_or(0, |line| line.saturating_sub(1)),
            limit: number(request.limit).unwrap_or(usize::MAX),
        }
    }

    /// Returns the size of these lines of a text as JSON, in bytes, or of the first lines that exceed the limit.
    fn encoded(self, text: &str) -> usize {
        let lines = text.split_inclusive('\n').skip(self.skipped).take(self.limit);
        let mut size = 0;
        for line in lines {
            size += encoded_size(line.as_bytes());
            if size > MAX_ENCODED {
                break;
            }
        }
        size
    }
}

/// Returns the text of a file, unless its lines are too large as JSON. A large text is measured on a thread of its own.
pub(super) async fn checked(text: Option<String>, range: Range) -> Result<Option<String>, HandlerError> {
    match text {
        Some(text) if text.len() > MAX_ENCODED / 6 => {
            tokio::task::spawn_blocking(move || {
                if range.encoded(&text) > MAX_ENCODED {
                    return Err(format!(
                        "these lines of the file exceed {MAX_ENCODED} bytes as JSON, in which a control character takes six bytes; \
                         ask for fewer lines with `line` and `limit`"
                    )
                    .into());
                }
                Ok(Some(text))
            })
            .await?
        }
        text => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn text_with_oversized_json_is_refused() {
        let many = "\0".repeat(MAX_ENCODED / 6 + 1);
        let lines = format!("a\n{many}\nb\n");
        for (text, line, limit, is_sent) in [
            (many.clone(), None, None, false),
            ("x".repeat(many.len()), None, None, true),
            ("\0".repeat(MAX_ENCODED / 6), None, None, true),
            (lines.clone(), None, Some(1), true),
            (lines.clone(), None, Some(2), false),
            (lines.clone(), Some(2), Some(1), false),
            (lines, Some(3), None, true),
        ] {
            let request = ReadFileRequest { line, limit, ..ReadFileRequest::new("/a") };
            let checked = checked(Some(text), Range::of(&request)).await;
            assert_eq!(checked.is_ok(), is_sent, "{line:?} {limit:?}");
        }
    }
}
