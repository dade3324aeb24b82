//! `kimi-agent inspect`.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use kimi_agent_files::{read_regular, write_output};
use kimi_agent_protocol::printable::visible_json;
use kimi_agent_protocol::recording::Recording;
use serde_json::Value;

use super::{Failure, atif, page, summary, write_out, write_path};

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Page,
    Summary,
    Trajectory,
}

/// A recording, and the file that it was read from.
#[derive(Debug)]
pub(crate) struct RecordingFile {
    /// The name of the file. It has directories if another file has the same name.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) recording: Recording,
}

/// Writes the page, a summary, or the trajectories of these recordings.
pub(crate) fn run(given: &[PathBuf], output: Option<PathBuf>, form: Form) -> Result<(), Failure> {
    let paths = &expanded(given)?;
    let mut recordings = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    for (file, name) in recordings.iter_mut().zip(distinct_names(paths)) {
        file.name = name;
    }
    let text = match form {
        Form::Summary => visible_json(&format!("{:#}\n", summary::of(&recordings))).into_owned(),
        Form::Trajectory => visible_json(&trajectories(&recordings)?).into_owned(),
        Form::Page => page::filled(page::PAGE, &recordings).ok_or_else(|| {
            Failure::Because("this build has no inspector: run `make inspector`, and build it again".to_owned())
        })?,
    };
    let beside = || given.first().map(|path| path.with_extension("html")).filter(|_| form == Form::Page);
    match output.or_else(beside) {
        Some(path) if path.as_os_str() != "-" => {
            if paths.iter().any(|recording| is_same(recording, &path)) {
                let path = path.display();
                let reason = format!("{path} is a recording, which the output would replace: set another `--output`");
                return Err(Failure::Because(reason));
            }
            let failed = |error| Failure::Because(format!("{} cannot be written: {error}", path.display()));
            write_output(&path, text.as_bytes()).map_err(failed)?;
            write_path(&path)
        }
        _ => write_out(text.as_bytes()),
    }
}

/// Returns the paths with the recordings of each folder in place of the folder, in the order of their names.
fn expanded(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for path in given {
        if !path.is_dir() {
            paths.push(path.clone());
            continue;
        }
        let failed = |problem: String| Failure::Because(format!("{}: {problem}", path.display()));
        let entries = fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        let entries: Vec<PathBuf> = entries.map_err(|error| failed(format!("the folder cannot be read: {error}")))?;
        let is_recording = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jsonl");
        let mut found: Vec<_> = entries.into_iter().filter(is_recording).collect();
        if found.is_empty() {
            return Err(failed("the folder has no recordings, whose names end with .jsonl".to_owned()));
        }
        found.sort();
        paths.append(&mut found);
    }
    Ok(paths)
}

/// Returns the trajectory of one recording, or a line for each of several.
fn trajectories(recordings: &[RecordingFile]) -> Result<String, Failure> {
    let one = |RecordingFile { name, recording, .. }: &RecordingFile| {
        atif::of(name, recording)
            .ok_or_else(|| Failure::Because(format!("{name}: it has no turn, so it cannot become a trajectory")))
    };
    let trajectories = recordings.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(match &*trajectories {
        [one] => format!("{one:#}\n"),
        several => several.iter().map(|one| format!("{one}\n")).collect(),
    })
}

/// Returns whether two paths name the same file.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    one == other || matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns a name for each file: its own, or the shortest end of the path that no file of the same name has.
fn distinct_names(paths: &[PathBuf]) -> Vec<String> {
    let parts = |path: &PathBuf| -> Vec<_> {
        path.components()
            .rev()
            .filter(|part| *part != Component::CurDir)
            .map(|part| part.as_os_str().to_owned())
            .collect()
    };
    let parts: Vec<Vec<_>> = paths.iter().map(parts).collect();
    let mut names: Vec<Option<String>> = vec![None; parts.len()];
    for length in 1..=parts.iter().map(Vec::len).max().unwrap_or_default() {
        let end = |parts: &Vec<_>| -> PathBuf { parts.iter().take(length).rev().collect() };
        let mut counts: HashMap<PathBuf, usize> = HashMap::new();
        for parts in &parts {
            *counts.entry(end(parts)).or_default() += 1;
        }
        for (name, parts) in names.iter_mut().zip(&parts) {
            let end = end(parts);
            // The same file can be there twice.
            if name.is_none() && (counts.get(&end) == Some(&1) || length >= parts.len()) {
                *name = Some(end.to_string_lossy().into_owned());
            }
        }
    }
    names.into_iter().map(Option::unwrap_or_default).collect()
}

/// Reads a recording.
pub(crate) fn read(path: &Path) -> Result<RecordingFile, Failure> {
    read_with(path, kimi_agent_files::read_file)
}

/// The longest recording that a report shows, in bytes.
const LONGEST: u64 = 256 << 20;

/// Reads a recording that other data names: a regular file.
pub(crate) fn read_named(path: &Path) -> Result<RecordingFile, Failure> {
    read_with(path, |path| read_regular(path, LONGEST))
}

/// Returns whether a text begins as the journal of a batch.
fn is_journal(text: &str) -> bool {
    let header = text.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
    header.is_some_and(|header| header["format"].as_str().is_some_and(|format| format.starts_with("kimi-agent-batch/")))
}

fn read_with(path: &Path, read: impl Fn(&Path) -> std::io::Result<Vec<u8>>) -> Result<RecordingFile, Failure> {
    let failed = |reason: String| Failure::Because(format!("{}: {reason}", path.display()));
    let text = read(path).map_err(|error| failed(format!("it cannot be read: {error}")))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let recording = Recording::read(&text).map_err(|error| match is_journal(&text) {
        true => failed("it is the journal of a batch; `kimi-agent report` makes its page".to_owned()),
        false => failed(error.to_string()),
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(RecordingFile { name, text, recording })
}
