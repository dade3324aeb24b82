//! The report of a batch: one page of HTML without scripts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kimi_agent_client::batch::JobResult;
use kimi_agent_files::{check_output, write_output};
use kimi_agent_protocol::PromptResult;
use kimi_agent_protocol::printable::{visible, visible_line};

use crate::{Failure, inspect, page};

/// Everything that the page needs is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:96rem;padding:0 1rem}\
    table{border-collapse:collapse;width:100%}th,td{border-bottom:1px solid #8884;padding:.3rem .6rem;text-align:left;\
    vertical-align:top}.facts{width:auto}.jobs{overflow-x:auto}td.n{text-align:right;white-space:nowrap}\
    td.t{min-width:11rem;overflow-wrap:anywhere}td.k{min-width:8rem;overflow-wrap:anywhere}\
    pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0;font:13px/1.5 ui-monospace,monospace}\
    .failed{color:#b11;color:light-dark(#b11,#f99)}a{color:light-dark(#03c,#9bf)}#only:checked~.jobs tr.good{display:none}:root{color-scheme:light dark;\
    background:light-dark(#fff,#121212);color:light-dark(#111,#eee)}\
    @media(max-width:60rem){.jobs :is(table,tbody,tr,td){display:block}.jobs :is(th,td:empty){display:none}\
    .jobs tr{border-bottom:1px solid #8888;padding:.5rem 0}.jobs td{border:0;padding:.1rem 0;text-align:left!important}\
    .jobs td::before{content:attr(data-name) \": \";font-weight:600}.jobs td:has(details)::before{content:attr(data-name)}}";
/// The longest text in a cell, in characters.
const LONGEST: usize = 300;
/// The longest answer, in characters.
const LONGEST_ANSWER: usize = 4000;
/// How much of an answer is shown before a click, in characters.
const SUMMARY: usize = 120;

/// The report.
#[derive(Debug)]
pub(super) struct Page {
    path: PathBuf,
    rows: Vec<Row>,
    /// A sentence about lines of the journal that cannot be read.
    note: Option<String>,
}

/// The row of a job on the page.
#[derive(Debug)]
struct Row {
    index: u64,
    key: String,
    prompt: String,
    status: &'static str,
    error: Option<(&'static str, String)>,
    /// The text of the answer, or the value of the output as JSON.
    answer: String,
    attempts: u32,
    duration: Duration,
    tokens: i64,
    recording: Option<PathBuf>,
}

impl Page {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), rows: Vec::new(), note: None }
    }

    /// Makes the page of a batch, and checks that its file can be written. An earlier page stays until the end.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let checked = check_output(path);
        checked.map_err(|error| Failure::wrong("--html", format!("{}: {error}", path.display())))?;
        Ok(Self::new(path))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a job.
    pub(super) fn add(&mut self, result: &JobResult) {
        self.rows.push(Row {
            index: result.index,
            key: short(&result.key),
            prompt: short(&result.prompt.text()),
            status: result.status.as_str(),
            error: result.error.as_ref().map(|error| (error.code(), short(&error.to_string()))),
            answer: result.result.as_ref().map(answer).unwrap_or_default(),
            attempts: result.attempts,
            duration: result.duration,
            tokens: result.usage.total(),
            recording: result.recording.clone(),
        });
    }

    /// Shows a sentence above the jobs.
    pub(super) fn set_note(&mut self, note: String) {
        self.note = Some(note);
    }

    /// Writes the page, and a page of the inspector next to each recording.
    pub(super) fn write(self) -> Result<(), Failure> {
        let path = self.path.clone();
        write_output(&path, self.finished().as_bytes()).map_err(|error| super::unwritten(&path, &error))
    }

    /// Writes a page of the inspector next to each recording, and returns the page.
    pub(super) fn finished(mut self) -> String {
        self.rows.sort_by_key(|row| row.index);
        for row in &mut self.rows {
            row.recording = row.recording.take().and_then(inspected);
        }
        self.html()
    }

    fn html(&self) -> String {
        let mut counts = BTreeMap::<&str, usize>::new();
        let mut errors = BTreeMap::<&str, usize>::new();
        for row in &self.rows {
            *counts.entry(row.status).or_default() += 1;
            if let Some((code, _)) = &row.error {
                *errors.entry(code).or_default() += 1;
            }
        }
        let tokens: i64 = self.rows.iter().map(|row| row.tokens).sum();
        let mut durations: Vec<_> = self.rows.iter().map(|row| row.duration).collect();
        durations.sort();
        let median = durations.get(durations.len() / 2).copied().unwrap_or_default();
        let longest = durations.last().copied().unwrap_or_default();
        let mut facts = vec![("jobs", self.rows.len().to_string())];
        facts.extend(counts.iter().map(|(status, count)| (*status, count.to_string())));
        facts.push(("tokens", tokens.to_string()));
        facts.push(("median duration", format!("{} s", seconds(median))));
        facts.push(("longest duration", format!("{} s", seconds(longest))));
        facts.extend(errors.iter().map(|(code, count)| (*code, count.to_string())));
        let facts: String =
            facts.iter().map(|(name, value)| format!("<tr><th>{}<td class=n>{value}\n", escaped(name))).collect();
        let note = self.note.as_ref();
        let note = note.map(|note| format!("<p class=failed>{}</p>\n", escaped(note))).unwrap_or_default();
        let rows: String = self.rows.iter().map(|row| self.row(row)).collect();
        let filter = match self.rows.iter().any(|row| row.error.is_some()) {
            true => "<input type=checkbox id=only> <label for=only>only failed jobs</label>\n",
            false => "",
        };
        format!(
            "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<title>Batch</title>\n\
             <meta name=viewport content=\"width=device-width\">\n<style>{STYLE}</style>\n<h1>Batch</h1>\n\
             <table class=facts>\n{facts}</table>\n{note}<h2>Jobs</h2>\n{filter}<div class=jobs>\n<table>\n\
             <tr><th>#<th>key<th>prompt<th>status<th>answer<th>attempts<th>seconds<th>tokens<th>recording\n{rows}</table>\n\
             </div>\n</html>\n"
        )
    }

    fn row(&self, row: &Row) -> String {
        let status = match &row.error {
            Some((code, text)) => format!("<td data-name=status class=\"t failed\">{code}: {}", escaped(text)),
            None => format!("<td data-name=status>{}", row.status),
        };
        let class = if row.error.is_some() { "bad" } else { "good" };
        let link = row.recording.as_deref().map(|recording| {
            let name = recording.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = escaped(&short(&name));
            format!("<a href=\"{}\" title=\"{name}\">open</a>", self.address(recording))
        });
        // On a narrow screen each job is a list with these names.
        format!(
            "<tr class={class}><td data-name=# class=n>{}<td data-name=key class=k>{}<td data-name=prompt class=t>{}{status}\
             <td data-name=answer class=t>{}<td data-name=attempts class=n>{}<td data-name=seconds class=n>{}\
             <td data-name=tokens class=n>{}<td data-name=recording>{}\n",
            row.index,
            escaped(&row.key),
            escaped(&row.prompt),
            shown(&row.answer),
            row.attempts,
            seconds(row.duration),
            row.tokens,
            link.unwrap_or_default(),
        )
    }

    /// Returns the address of a file: relative to the page, so that both can be moved together, unless they have no folder in
    /// common.
    fn address(&self, file: &Path) -> String {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let file = file.as_path();
        let folder = std::path::absolute(&self.path).ok().and_then(|path| path.parent().map(Path::to_owned));
        let relative = folder.and_then(|folder| relative_to(&folder, file));
        let relative = relative.as_deref();
        // A browser takes `C:` for the protocol of an address, and `//name` for the name of a server.
        let root = if file.is_absolute() { "file:///" } else { "./" };
        let (begin, path) = relative.map_or((root, file), |relative| ("./", relative));
        let mut address = begin.to_owned();
        for byte in path.to_string_lossy().replace('\\', "/").trim_start_matches('/').bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    address.push(char::from(byte));
                }
                b':' if begin == "file:///" => address.push(':'),
                other => address.push_str(&format!("%{other:02X}")),
            }
        }
        address
    }
}

/// Returns the path of a file from a folder, if they have more in common than the root.
fn relative_to(folder: &Path, file: &Path) -> Option<PathBuf> {
    let common = folder.ancestors().find(|ancestor| file.starts_with(ancestor))?;
    common.file_name()?;
    let up = folder.strip_prefix(common).ok()?.components().map(|_| "..");
    Some(up.collect::<PathBuf>().join(file.strip_prefix(common).ok()?))
}

/// Returns the answer of a job: its value as JSON, or its text.
fn answer(result: &PromptResult) -> String {
    let whole = result.output.as_ref().map_or_else(|| result.text.clone(), ToString::to_string);
    let begin: String = whole.chars().take(LONGEST_ANSWER).collect();
    let end = if begin.len() < whole.len() { "\n…" } else { "" };
    visible(&format!("{begin}{end}")).into_owned()
}

/// Shows an answer: its beginning, and all of it after a click.
fn shown(answer: &str) -> String {
    let begin: String = answer.chars().take(SUMMARY).collect();
    if begin.len() == answer.len() && !answer.contains('\n') {
        return escaped(answer);
    }
    let begin = begin.lines().next().unwrap_or_default();
    format!("<details><summary>{}…</summary><pre>{}</pre></details>", escaped(begin), escaped(answer))
}

/// Writes the page of the inspector for a recording, and returns its path. Without the inspector: that of the recording.
/// Returns nothing if the journal names something else than a recording. Another file in the place of the page stays.
fn inspected(recording: PathBuf) -> Option<PathBuf> {
    let target = recording.with_extension("html");
    let read = inspect::read_named(&recording).ok()?;
    if std::fs::symlink_metadata(&target).is_ok() && !page::is_page(&target) {
        return Some(recording);
    }
    match page::filled(page::PAGE, &[read]).map(|text| write_output(&target, text.as_bytes())) {
        Some(Ok(())) => Some(target),
        _ => Some(recording),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64())
}

/// Returns the beginning of a text, in one line and without control characters or invisible characters.
pub(super) fn short(text: &str) -> String {
    let begin: String = text.chars().take(LONGEST).collect();
    let end = if begin.len() < text.len() { "…" } else { "" };
    format!("{}{end}", visible_line(&begin))
}

/// Escapes a text for an element or an attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped() {
        let hostile = "</table><script>alert(1)</script>\" onclick='x' \u{202e}\x1b[31m";
        let folder = std::path::absolute("/runs").unwrap();
        let mut page = Page::new(&folder.join("report.html"));
        page.rows.push(Row {
            index: 0,
            key: short(hostile),
            prompt: short(hostile),
            status: "failed",
            error: Some(("timeout", short(hostile))),
            answer: hostile.replace(['\u{202e}', '\x1b'], ""),
            attempts: 1,
            duration: Duration::from_secs(1),
            tokens: 5,
            recording: Some(folder.join("a\"><script>/x.jsonl")),
        });
        let html = page.html();
        assert!(!html.contains("<script") && !html.contains("onclick='") && !html.contains('\x1b'), "{html}");
        assert!(!html.contains('\u{202e}') && html.contains("&lt;script&gt;"), "{html}");
        assert!(
            html.contains("href=\"./a%22%3E%3Cscript%3E/x.jsonl\"") && html.contains("default-src 'none'"),
            "{html}"
        );
    }

    #[test]
    fn file_in_a_neighbouring_folder_has_relative_address() {
        let page = Page::new(Path::new("/work/reports/today/report.html"));
        let file = std::path::absolute("/work/runs/a.html").unwrap();
        assert_eq!(page.address(&file), "./../../runs/a.html");
    }

    #[test]
    fn long_answer_is_shown_after_a_click() {
        assert_eq!(shown("4 < 5"), "4 &lt; 5");
        let text = shown("# Title\nand <more>");
        assert!(text.starts_with("<details><summary># Title…</summary><pre># Title\nand &lt;more&gt;"), "{text}");
    }

    #[test]
    fn file_elsewhere_has_absolute_address() {
        let page = Page::new(Path::new("/runs/report.html"));
        let file = std::path::absolute("/other/a b.jsonl").unwrap();
        let address = page.address(&file);
        let expected = if cfg!(windows) { ":/other/a%20b.jsonl" } else { "/other/a%20b.jsonl" };
        assert!(address.ends_with(expected) && address.starts_with("file:///"), "{address}");
        // Two slashes would name a server.
        assert_eq!(page.address(Path::new("//host/x.jsonl")), "file:///host/x.jsonl");
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(short(&"x".repeat(1000)).chars().count(), LONGEST + 1);
        assert_eq!(short("a\nb").lines().count(), 1);
        assert_eq!(short("a\u{200b}\u{e0041}b"), r"a\u200b\ue0041b");
    }
}
