//! The lines of a recording. A piece of a streamed text waits while its end may be the beginning of a secret, so that a
//! secret in several pieces is found.
//!
//! Everything after a waiting line waits, too, so the order stays. The caller limits the wait with
//! [`EntryWriter::pause`], and ends it with [`EntryWriter::finish`].

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use serde::de::IgnoredAny;

use super::clean::CleanLine;
use super::entry::{Entry, HeaderEntry, Side};
use super::pieces::{self, Text};
use super::redact::{MASK, Redactor, Scan, escape_around, is_boundary};
use super::{Head, write_entry, write_header};

/// The length of the matches of patterns that are found in several pieces, in bytes.
const PATTERN_REACH: usize = 1 << 10;
/// The limit of a text that waits. Longer secrets in pieces are not found.
const MAX_TEXT: usize = 64 << 10;
/// The length of `\u00e9`.
const LONGEST_ESCAPE: usize = 6;
/// The limit of all that waits.
const MAX_HELD: usize = 1 << 20;

/// Writes entries with secrets replaced.
#[derive(Debug)]
pub struct EntryWriter {
    redactor: Redactor,
    clean: CleanLine,
    head: Head,
    streams: HashMap<u64, Stream>,
    queue: Queue,
}

/// The entries that wait, in order.
#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Queued>,
    /// The number of the first one.
    first: u64,
    /// Their size.
    held: usize,
}

#[derive(Debug)]
enum Queued {
    Written(Vec<u8>),
    Message(Box<Waiting>),
}

/// A message of the agent with pieces of texts.
#[derive(Debug)]
struct Waiting {
    time: f64,
    line: Vec<u8>,
    pieces: Vec<WaitingPiece>,
}

#[derive(Debug)]
struct WaitingPiece {
    range: Range<usize>,
    stream: u64,
    /// The text that is written, once it is known.
    text: Option<Vec<u8>>,
}

/// A streamed text, as far as it waits.
#[derive(Debug, Default)]
struct Stream {
    /// The text in front of the pieces that is written already.
    context: Vec<u8>,
    /// The offset from which a match can begin in the context.
    start: usize,
    /// Whether the end of the context was replaced.
    is_replaced: bool,
    pieces: VecDeque<Piece>,
}

#[derive(Debug)]
struct Piece {
    /// The number of its entry, and the index of the piece in it.
    entry: u64,
    index: usize,
    text: Vec<u8>,
    /// The beginning of something that a repetition of the text with more text can complete. Some agents send all of a
    /// text again with each update.
    growing: Option<usize>,
    /// The beginning of a part of a secret.
    partial: Option<usize>,
    /// Whether the text may be the one before with more.
    is_repetition: bool,
    /// The parts that are replaced regardless of the pieces around: they match in this piece alone, or in a repetition.
    cuts: Vec<(Range<usize>, String)>,
}

impl EntryWriter {
    /// Writes the header to `out`, with a line feed.
    pub fn new(out: &mut Vec<u8>, header: HeaderEntry, redactor: Redactor) -> Self {
        write_header(out, header, &redactor);
        let (clean, head) = (CleanLine::default(), Head::default());
        Self { redactor, clean, head, streams: HashMap::new(), queue: Queue::default() }
    }

    /// Writes a line between the SDK and the agent, or keeps it for now. `time` is in seconds. A line that is not known to
    /// be JSON is checked.
    pub fn message(&mut self, out: &mut Vec<u8>, time: f64, from: Side, line: &[u8], is_json: bool) {
        let length = line.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
        let line = self.redactor.readable(&line[..length]);
        let line = &*line;
        let may_match = self.clean.may_match(&self.redactor, line, is_json);
        if from == Side::Agent && (may_match || !self.streams.is_empty()) && self.hold(time, line, is_json) {
            self.queue.drain(out, &self.redactor);
            return self.limit(out);
        }
        self.push(out, |this, out| {
            let line = if may_match { this.redactor.redacted_match(line) } else { Cow::Borrowed(line) };
            this.head.write_message(out, time, from, &line, is_json);
        });
    }

    /// Writes another entry, or keeps it for now.
    pub fn entry(&mut self, out: &mut Vec<u8>, time: f64, entry: Entry) {
        if matches!(entry, Entry::Turn(_) | Entry::End(_)) {
            self.finish(out);
        }
        self.push(out, |this, out| write_entry(out, time, entry, &this.redactor));
    }

    /// Writes what is kept since before this time, although a secret may go on. A part of a secret is replaced then.
    pub fn pause(&mut self, out: &mut Vec<u8>, before: f64) {
        while self.waits_since().is_some_and(|time| time < before) {
            self.release_first(out);
        }
    }

    /// Writes everything that is kept: the texts are complete.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        for mut stream in std::mem::take(&mut self.streams).into_values() {
            let scan = scan(&self.redactor, &stream.whole(), stream.start, &stream.ends());
            self.queue.decide(&mut stream, &scan, usize::MAX, false);
        }
        self.queue.drain(out, &self.redactor);
    }

    /// Returns the time of the first message that is kept.
    pub fn waits_since(&self) -> Option<f64> {
        match self.queue.entries.front()? {
            Queued::Message(message) => Some(message.time),
            Queued::Written(_) => None,
        }
    }

    fn push(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Self, &mut Vec<u8>)) {
        if self.queue.entries.is_empty() {
            return write(self, out);
        }
        let mut text = Vec::new();
        write(self, &mut text);
        self.queue.push(Queued::Written(text));
        self.limit(out);
    }

    fn limit(&mut self, out: &mut Vec<u8>) {
        while self.queue.held > MAX_HELD {
            self.release_first(out);
        }
    }

    /// Keeps a message if it has pieces of texts that may go on. Returns whether it has.
    fn hold(&mut self, time: f64, line: &[u8], is_json: bool) -> bool {
        // Texts are streamed in notifications and requests.
        if memchr::memmem::find(line, b"\"method\"").is_none()
            || std::str::from_utf8(line).is_err()
            || !is_json && serde_json::from_slice::<IgnoredAny>(line).is_err()
        {
            return false;
        }
        let mut texts = pieces::texts(line);
        texts.retain(|text| {
            self.redactor.has_patterns()
                || self.streams.contains_key(&text.stream)
                || self.redactor.scan(&line[text.range.clone()], 0, Some(&[])).growing.is_some()
        });
        if texts.is_empty() {
            return false;
        }
        let waiting = |text: &Text| WaitingPiece { range: text.range.clone(), stream: text.stream, text: None };
        let pieces = texts.iter().map(waiting).collect();
        let entry = self.queue.push(Queued::Message(Box::new(Waiting { time, line: line.to_vec(), pieces })));
        for (index, text) in texts.into_iter().enumerate() {
            self.add(text.stream, entry, index, line[text.range].to_vec());
        }
        true
    }

    /// Adds a piece to its stream, and decides about the pieces that cannot change any more.
    fn add(&mut self, key: u64, entry: u64, index: usize, text: Vec<u8>) {
        let mut stream = self.streams.remove(&key).unwrap_or_default();
        let own = scan(&self.redactor, &text, 0, &[]);
        let mut is_repetition = false;
        for piece in &mut stream.pieces {
            is_repetition |= piece.compare(&text, &own);
        }
        // A secret or directory in one piece is replaced, whatever the pieces around it are.
        let cuts = own.matches.iter().map(|one| (one.range.clone(), one.replacement.to_owned())).collect();
        let (growing, partial) = (own.growing, own.partial);
        stream.pieces.push_back(Piece { entry, index, text, growing, partial, is_repetition, cuts });
        let whole = stream.whole();
        // A pattern can match from anywhere on. It does not run for each piece, but for several at once.
        if self.redactor.has_patterns() && whole.len() - stream.context.len() < 2 * PATTERN_REACH {
            self.streams.insert(key, stream);
            return;
        }
        let scan = scan(&self.redactor, &whole, stream.start, &stream.ends());
        if whole.len() > MAX_TEXT {
            return self.queue.decide(&mut stream, &scan, usize::MAX, true);
        }
        let mut end = stream.context.len();
        let is_final = |piece: &&Piece| {
            end += piece.text.len();
            piece.growing.is_none() && scan.growing.is_none_or(|growing| end <= growing)
        };
        let count = stream.pieces.iter().take_while(is_final).count();
        let end = stream.context.len() + stream.pieces.iter().take(count).map(|piece| piece.text.len()).sum::<usize>();
        self.queue.decide(&mut stream, &scan, count, false);
        if stream.pieces.is_empty() {
            return;
        }
        if count > 0 {
            let crossing = scan.matches.iter().find(|one| one.begin < end && end < one.range.end);
            stream.is_replaced = crossing.is_some_and(|one| one.range.start < end);
            stream.begin_at(&whole[..end], crossing.map_or(end, |one| one.begin));
        }
        self.streams.insert(key, stream);
    }

    /// Decides about the streams of the first message that is kept, although they may go on.
    fn release_first(&mut self, out: &mut Vec<u8>) {
        let Some(Queued::Message(message)) = self.queue.entries.front() else { return };
        let undecided = message.pieces.iter().filter(|piece| piece.text.is_none());
        for key in undecided.map(|piece| piece.stream).collect::<Vec<_>>() {
            let Some(mut stream) = self.streams.remove(&key) else { continue };
            let whole = stream.whole();
            let scan = scan(&self.redactor, &whole, stream.start, &stream.ends());
            self.queue.decide(&mut stream, &scan, usize::MAX, true);
            // Only a secret is continued: the rest of a path is not a path.
            if let Some(growing) = scan.growing_secret {
                let is_matched = scan.matches.last().is_some_and(|last| last.range.end == whole.len());
                stream.is_replaced = is_matched || scan.partial.is_some();
                stream.begin_at(&whole, growing);
                self.streams.insert(key, stream);
            }
        }
        self.queue.drain(out, &self.redactor);
    }
}

/// Finds what is replaced in a text, and from where on more text can matter.
fn scan<'a>(redactor: &'a Redactor, text: &[u8], start: usize, ends: &[usize]) -> Scan<'a> {
    let mut scan = redactor.scan(text, start, Some(ends));
    if redactor.has_patterns() {
        let reach = text.len().saturating_sub(PATTERN_REACH);
        let reach = (0..=reach).rev().find(|at| is_boundary(text, *at)).unwrap_or(0);
        let reach = escape_around(text, reach).unwrap_or(reach);
        let reach = scan.matches.iter().find(|one| one.range.contains(&reach)).map_or(reach, |one| one.range.start);
        scan.growing = Some(scan.growing.map_or(reach, |growing| growing.min(reach)));
        scan.growing_secret = Some(scan.growing_secret.map_or(reach, |growing| growing.min(reach)));
    }
    scan
}

impl Queue {
    /// Adds an entry. Returns its number.
    fn push(&mut self, queued: Queued) -> u64 {
        self.held += queued.size();
        self.entries.push_back(queued);
        self.first + self.entries.len() as u64 - 1
    }

    /// Writes the first entries, up to one that still waits.
    fn drain(&mut self, out: &mut Vec<u8>, redactor: &Redactor) {
        while self.entries.front().is_some_and(Queued::is_decided)
            && let Some(queued) = self.entries.pop_front()
        {
            self.held -= queued.size();
            self.first += 1;
            match queued {
                Queued::Written(text) => out.extend_from_slice(&text),
                Queued::Message(message) => message.write(out, redactor),
            }
        }
    }

    /// Decides about the first pieces of a stream: what is written of them. If the stream is `cut`, a part of a secret at
    /// its end is replaced.
    fn decide(&mut self, stream: &mut Stream, scan: &Scan<'_>, count: usize, is_cut: bool) {
        let known = stream.context.len();
        let mut at = known;
        for piece in stream.pieces.drain(..count.min(stream.pieces.len())) {
            let range = at..at + piece.text.len();
            at = range.end;
            // The replacement is a part of the piece with the beginning.
            let cut = |found: Range<usize>, replacement: &str| {
                let is_first =
                    found.start >= range.start || found.start < known && range.start == known && !stream.is_replaced;
                let local = found.start.max(range.start) - range.start..found.end.min(range.end) - range.start;
                (local, if is_first { replacement.to_owned() } else { String::new() })
            };
            let partial = scan.partial.filter(|_| is_cut).map(|partial| (partial..usize::MAX, MASK));
            let own = piece.partial.filter(|_| is_cut && piece.growing.is_some());
            let found = scan.matches.iter().map(|one| (one.range.clone(), one.replacement)).chain(partial);
            let found = found.filter(|(found, _)| found.start < range.end && range.start < found.end);
            let mut cuts: Vec<_> = found.map(|(found, replacement)| cut(found, replacement)).collect();
            let own = own.map(|partial| (partial..piece.text.len(), MASK.to_owned()));
            let apart = piece.cuts.into_iter().chain(own);
            // In the joined text, what begins at the same place can end elsewhere.
            if piece.is_repetition {
                cuts.splice(0..0, apart);
            } else {
                let others: Vec<_> =
                    apart.filter(|(own, _)| cuts.iter().all(|(cut, _)| cut.start != own.start)).collect();
                cuts.extend(others);
            }
            let index = usize::try_from(piece.entry - self.first).unwrap_or(usize::MAX);
            if let Some(Queued::Message(message)) = self.entries.get_mut(index) {
                message.pieces[piece.index].text = Some(without(&piece.text, cuts));
            }
        }
    }
}

/// Returns a text without these parts, each with the text that replaces it. They can overlap.
fn without(text: &[u8], mut cuts: Vec<(Range<usize>, String)>) -> Vec<u8> {
    cuts.sort_by_key(|(range, _)| range.start);
    let mut out = Vec::with_capacity(text.len());
    let mut copied = 0;
    for (range, replacement) in cuts {
        if range.start >= copied {
            out.extend_from_slice(&text[copied..range.start]);
            out.extend_from_slice(replacement.as_bytes());
        }
        copied = copied.max(range.end);
    }
    out.extend_from_slice(&text[copied..]);
    out
}

impl Queued {
    fn size(&self) -> usize {
        match self {
            Self::Written(text) => text.len(),
            Self::Message(message) => message.line.len(),
        }
    }

    fn is_decided(&self) -> bool {
        match self {
            Self::Written(_) => true,
            Self::Message(message) => message.pieces.iter().all(|piece| piece.text.is_some()),
        }
    }
}

impl Waiting {
    fn write(mut self, out: &mut Vec<u8>, redactor: &Redactor) {
        let line = std::mem::take(&mut self.line);
        let text = |range: Range<usize>| {
            let piece = self.pieces.iter_mut().find(|piece| piece.range == range);
            let text = piece.and_then(|piece| piece.text.take());
            text.map_or_else(|| redactor.text(&line[range]), Cow::Owned)
        };
        Head::default().write_message(out, self.time, Side::Agent, &redactor.json(&line, text), true);
    }
}

impl Stream {
    /// Returns the context with the pieces.
    fn whole(&self) -> Vec<u8> {
        let pieces = self.pieces.iter().flat_map(|piece| &piece.text);
        self.context.iter().chain(pieces).copied().collect()
    }

    /// Returns where the pieces end.
    fn ends(&self) -> Vec<usize> {
        let lengths = self.pieces.iter().map(|piece| piece.text.len());
        let sum = |end: &mut usize, length| {
            *end += length;
            Some(*end)
        };
        lengths.scan(self.context.len(), sum).collect()
    }

    /// Makes this text the context, in which something can begin from this place on.
    fn begin_at(&mut self, text: &[u8], from: usize) {
        // The character before, which can be an escape, decides whether a match begins.
        let kept = from.saturating_sub(LONGEST_ESCAPE);
        let kept = text[..kept].iter().rposition(|byte| *byte != b'\\').map_or(0, |other| other + 1);
        self.context = text[kept..].to_vec();
        self.start = from - kept;
    }
}

impl Piece {
    /// Compares the piece with the next one. Returns whether that may be the same text with more.
    fn compare(&mut self, next: &[u8], scan: &Scan<'_>) -> bool {
        let Some(growing) = self.growing.take() else { return false };
        let end = self.text.len();
        if !next.starts_with(&self.text) {
            // In the same text with more, all of the secret can be replaced already.
            let same = self.text.iter().zip(next).take_while(|(one, other)| one == other).count();
            let is_replaced = same >= growing && next[same..].starts_with(MASK.as_bytes());
            if is_replaced {
                self.cuts.push((same..end, MASK.to_owned()));
            }
            return is_replaced;
        }
        if self.text.is_empty() {
            return false;
        }
        match scan.matches.iter().find(|one| one.range.start < end && end < one.range.end) {
            Some(found) => self.cuts.push((found.range.start..end, found.replacement.to_owned())),
            None => self.growing = scan.growing.filter(|start| *start <= growing).map(|_| growing),
        }
        true
    }
}
