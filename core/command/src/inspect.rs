//! `kimi-agent inspect`.

use std::fs;
use std::path::{Path, PathBuf};

use kimi_agent_protocol::recording::Recording;

use super::{Failure, page, summary, write_out};

/// Writes the page, or a summary, of these recordings.
pub(crate) fn run(paths: &[PathBuf], output: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let recordings = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let text = if json {
        format!("{:#}\n", summary::of(&recordings))
    } else {
        let missing =
            || Failure::Because("this build has no inspector: run `make inspector`, and build it again".to_owned());
        page::filled(&recordings).ok_or_else(missing)?
    };
    let beside = || paths.first().map(|path| path.with_extension("html")).filter(|_| !json);
    match output.or_else(beside) {
        Some(path) if path.as_os_str() != "-" => {
            let failed = |error| Failure::Because(format!("{} cannot be written: {error}", path.display()));
            fs::write(&path, text).map_err(failed)?;
            write_out(format!("{}\n", path.display()).as_bytes())
        }
        _ => write_out(text.as_bytes()),
    }
}

fn read(path: &Path) -> Result<(String, Recording), Failure> {
    let failed = |reason: String| Failure::Because(format!("{}: {reason}", path.display()));
    let text = fs::read(path).map_err(|error| failed(format!("it cannot be read: {error}")))?;
    let recording = Recording::read(&String::from_utf8_lossy(&text)).map_err(|error| failed(error.to_string()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((name, recording))
}
