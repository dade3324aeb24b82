//! Cassettes: recordings as tests. This file has the rule that all languages share: when a test records, when it plays
//! the recording, and the errors.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kimi_agent_protocol::recording::Recording;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{ReplayMode, replayed};
use crate::error::{Error, invalid_option};
use crate::recording::{add_cassette, add_played_cassette, is_folder};
use crate::{AgentOptions, Executable, Result, SessionOptions};

/// The environment variable with the mode.
const VARIABLE: &str = "KIMI_RECORD";
/// The environment variable that services for continuous integration set.
const CI: &str = "CI";
/// The folder of cassettes that are given by name.
const FOLDER: &str = "cassettes";
const SUFFIX: &str = ".jsonl";
/// The beginning of each recording.
const HEADER_BEGIN: &[u8] = br#"{"type":"header","#;
/// The option that errors name.
const OPTION: &str = "cassette";

/// When a [`Cassette`] records.
///
/// ```
/// use kimi_agent::testing::CassetteMode;
/// assert_eq!("once".parse::<CassetteMode>()?, CassetteMode::Once);
/// assert_eq!(CassetteMode::Rewrite.as_str(), "rewrite");
/// # Ok::<(), kimi_agent::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CassetteMode {
    /// Records if the file is missing or incomplete, and plays it if not. A file is incomplete if its session was never
    /// opened or never closed. This is the default, unless `CI` is set.
    Once,
    /// Never records. A file that is missing or incomplete is an error. This is the default if the environment variable
    /// `CI` is set, as services for continuous integration do. The values `false` and `0` count as not set.
    None,
    /// Always records. The file is replaced when the session has opened, so it stays if no session opens.
    All,
    /// As [`All`](Self::All).
    Rewrite,
}

impl CassetteMode {
    const EACH: [Self; 4] = [Self::Once, Self::None, Self::All, Self::Rewrite];

    fn find(name: &str) -> Option<Self> {
        Self::EACH.into_iter().find(|mode| mode.as_str() == name)
    }

    /// Returns the name: `once`, `none`, `all` or `rewrite`.
    ///
    /// ```
    /// assert_eq!(kimi_agent::testing::CassetteMode::None.as_str(), "none");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::None => "none",
            Self::All => "all",
            Self::Rewrite => "rewrite",
        }
    }
}

kimi_agent_protocol::display_words!(CassetteMode);

impl FromStr for CassetteMode {
    type Err = Error;

    /// Reads the name of a mode.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for the option `mode`.
    fn from_str(name: &str) -> Result<Self> {
        let unknown = || invalid_option("mode", format!("expected {}, got {name:?}", expected_modes()));
        Self::find(name).ok_or_else(unknown)
    }
}

fn expected_modes() -> String {
    let names = CassetteMode::EACH.map(|mode| format!("{:?}", mode.as_str()));
    let (last, first) = names.split_last().map_or(("", &[][..]), |(last, first)| (last.as_str(), first));
    format!("{} or {last}", first.join(", "))
}

/// The recording of one session, for a test: the test records it with a real agent once, and plays it from then on.
///
/// [`options`](Self::options) returns the options of the session. If the test records, they are `record` and
/// [`executable`](Self::executable). If not, the agent plays the recording, and compares the program with it. One
/// cassette is one session.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kimi_agent::testing::{Cassette, CassetteMode, scripted_agent};
/// use serde_json::json;
///
/// let file = "tests/greeting.jsonl";
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("greeting.jsonl");
/// let agent = scripted_agent(json!([[{"text": "Hello"}]])); // or leave it out, for your own agent
/// for is_recording in [true, false] {
///     let cassette = Cassette::new(&file).mode(CassetteMode::Once).executable(&agent);
///     assert_eq!(cassette.is_recording()?, is_recording);
///     let session = cassette.options()?.start().await?;
///     assert_eq!(session.prompt("Greet me")?.result().await?.text, "Hello");
///     session.close().await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Cassette {
    path: PathBuf,
    executable: Option<Executable>,
    mode: Option<CassetteMode>,
    verify: bool,
}

impl Cassette {
    /// Makes a cassette with this name or path. A name without a directory and without `.jsonl` is the file
    /// `cassettes/NAME.jsonl` below the current directory, which is that of the package for `cargo test`.
    ///
    /// ```
    /// use kimi_agent::testing::Cassette;
    /// assert!(Cassette::new("greeting").path().ends_with("cassettes/greeting.jsonl"));
    /// assert!(Cassette::new("tests/greeting.jsonl").path().ends_with("tests/greeting.jsonl"));
    /// ```
    pub fn new(name: impl AsRef<Path>) -> Self {
        std::hint::black_box(kimi_agent_entry::request());
        Self { path: file_of(name.as_ref()), executable: None, mode: None, verify: true }
    }

    /// Sets the agent to record with. The default is that of [`SessionOptions::executable`]. An agent that plays the
    /// recording replaces it later. The cassette owns a scripted agent that it is given.
    ///
    /// ```
    /// let cassette = kimi_agent::testing::Cassette::new("greeting").executable("/opt/kimi/bin/kimi");
    /// # let _ = cassette;
    /// ```
    #[must_use]
    pub fn executable(mut self, executable: impl Into<Executable>) -> Self {
        self.executable = Some(executable.into());
        self
    }

    /// Sets when to record. The default is the environment variable `KIMI_RECORD`. Without it, the default is
    /// [`CassetteMode::None`] if `CI` is set, and [`CassetteMode::Once`] if not.
    ///
    /// ```
    /// use kimi_agent::testing::{Cassette, CassetteMode};
    /// let missing = "tests/missing.jsonl";
    /// # let folder = tempfile::tempdir()?;
    /// # let missing = folder.path().join("missing.jsonl");
    /// let error = Cassette::new(&missing).mode(CassetteMode::None).options().unwrap_err();
    /// assert!(error.to_string().contains("missing.jsonl is missing; record it: remove the mode \"none\", then run KIMI_RECORD=once"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn mode(mut self, mode: CassetteMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets whether the agent that plays the recording compares the program with it, as with [`ReplayMode::Verify`].
    /// The default is true.
    ///
    /// ```
    /// let cassette = kimi_agent::testing::Cassette::new("greeting").verify(false);
    /// # let _ = cassette;
    /// ```
    #[must_use]
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Returns the path of the recording.
    ///
    /// ```
    /// let cassette = kimi_agent::testing::Cassette::new("/tests/greeting.jsonl");
    /// assert!(cassette.path().ends_with("greeting.jsonl"));
    /// ```
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the test records. After it has recorded, this changes with the mode [`CassetteMode::Once`].
    ///
    /// # Errors
    /// As [`options`](Self::options).
    ///
    /// ```
    /// use kimi_agent::testing::{Cassette, CassetteMode};
    /// assert!(Cassette::new("greeting").mode(CassetteMode::All).is_recording()?);
    /// # Ok::<(), kimi_agent::Error>(())
    /// ```
    pub fn is_recording(&self) -> Result<bool> {
        let request = self.request();
        request.records(request.mode()?)
    }

    /// Returns the options of the session. If the test records, this creates the directory of the file. The file is
    /// replaced when the session has opened. A second session with the same options fails with [`Error::InvalidOption`]
    /// for the option `record`, or `executable` when the cassette is played, unless the first did not open.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for the option `cassette` if the mode is [`CassetteMode::None`] and the file is missing
    /// or incomplete, if the path is a directory, if the test records and the path is a link, or if its directory cannot be written. For the option `mode` if `KIMI_RECORD` is not a mode. A file
    /// that is not a recording fails the start of the session, for the option `executable`.
    ///
    /// ```
    /// use kimi_agent::testing::{Cassette, CassetteMode};
    /// let file = "tests/greeting.jsonl";
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("greeting.jsonl");
    /// let options = Cassette::new(&file).mode(CassetteMode::All).options()?.yolo(true);
    /// # let _ = options;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn options(&self) -> Result<SessionOptions> {
        if !self.request().open()? {
            let mode = if self.verify { ReplayMode::Verify } else { ReplayMode::Replay };
            return Ok(SessionOptions::new().executable(replayed(&self.path).of_cassette().mode(mode)));
        }
        let options = SessionOptions::new().record(&self.path);
        Ok(match &self.executable {
            Some(executable) => options.executable(executable.clone()),
            None => options,
        })
    }

    /// Returns the options of an agent, for a test that uses an [`Agent`](crate::Agent). The agent can have one session.
    ///
    /// # Errors
    /// As [`options`](Self::options).
    ///
    /// ```
    /// use kimi_agent::testing::{Cassette, CassetteMode};
    /// let file = "tests/greeting.jsonl";
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("greeting.jsonl");
    /// let options = Cassette::new(&file).mode(CassetteMode::All).agent_options()?.client_name("test");
    /// # let _ = options;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn agent_options(&self) -> Result<AgentOptions> {
        self.options().map(AgentOptions)
    }

    fn request(&self) -> Request<'_> {
        Request { mode: self.mode, ..Request::new(&self.path) }
    }
}

/// Opens a cassette for a binding. Returns its path, and whether the test records; then the file is prepared.
///
/// `mode` is the mode that the program has set. `default` is the mode if the environment does not set a mode either.
/// Without `default`, this depends on the variable `CI`.
/// `remedy` is the part of errors that says how to record.
///
/// # Errors
/// As [`Cassette::options`].
pub fn open_cassette(
    name: &Path,
    mode: Option<&str>,
    default: Option<&str>,
    remedy: Option<&str>,
) -> Result<(PathBuf, bool)> {
    if name.as_os_str().is_empty() {
        return Err(invalid_option(OPTION, "expected a name or a path, got an empty text"));
    }
    let path = file_of(name);
    let mut request = Request { mode: mode.map(str::parse).transpose()?, remedy, ..Request::new(&path) };
    request.default = default.map(str::parse).transpose()?;
    let is_recording = request.open()?;
    Ok((path, is_recording))
}

/// Everything that decides whether a test records.
#[derive(Clone, Copy, Debug)]
struct Request<'a> {
    path: &'a Path,
    /// The mode that the program has set.
    mode: Option<CassetteMode>,
    /// The mode if neither the program nor the environment sets it. Without it, `is_ci` decides.
    default: Option<CassetteMode>,
    /// Whether this is a run of continuous integration, which must not start a real agent.
    is_ci: bool,
    remedy: Option<&'a str>,
}

impl<'a> Request<'a> {
    fn new(path: &'a Path) -> Self {
        Self { path, mode: None, default: None, is_ci: is_set(std::env::var_os(CI)), remedy: None }
    }

    /// Returns whether the test records, and prepares the file for that.
    fn open(&self) -> Result<bool> {
        let mode = self.mode()?;
        let is_recording = self.records(mode)?;
        if is_recording {
            self.prepare().map_err(|error| self.invalid(&format!("can't be written: {error}")))?;
        } else {
            add_played_cassette(self.path);
        }
        Ok(is_recording)
    }

    fn mode(&self) -> Result<CassetteMode> {
        self.mode_with(std::env::var_os(VARIABLE).filter(|mode| !mode.is_empty()))
    }

    fn mode_with(&self, variable: Option<OsString>) -> Result<CassetteMode> {
        match (self.mode, variable) {
            (Some(mode), _) => Ok(mode),
            (None, Some(name)) => CassetteMode::find(&name.to_string_lossy()).ok_or_else(|| {
                let reason = format!("expected {} in ${VARIABLE}, got {name:?}", expected_modes());
                invalid_option("mode", reason)
            }),
            (None, None) if self.is_ci => Ok(self.default.unwrap_or(CassetteMode::None)),
            (None, None) => Ok(self.default.unwrap_or(CassetteMode::Once)),
        }
    }

    fn records(&self, mode: CassetteMode) -> Result<bool> {
        if is_folder(self.path) {
            return Err(self.invalid("is a directory; a cassette is a file"));
        }
        if matches!(mode, CassetteMode::All | CassetteMode::Rewrite) {
            return Ok(true);
        }
        let problem = match state(self.path) {
            State::Usable => return Ok(false),
            State::Missing => "is missing; record it",
            State::Unopened => "is incomplete, because its session was never opened; record it again",
            State::Incomplete => "is incomplete, because its session was never closed; record it again",
        };
        if mode == CassetteMode::Once {
            return Ok(true);
        }
        let remedy = match (self.remedy, self.mode) {
            (Some(remedy), _) => remedy,
            (None, Some(_)) => {
                ": remove the mode \"none\", then run KIMI_RECORD=once <the command that runs this test>"
            }
            (None, None) => ": KIMI_RECORD=once <the command that runs this test>",
        };
        Err(self.invalid(&format!("{problem}{remedy}")))
    }

    fn prepare(&self) -> io::Result<()> {
        kimi_agent_files::refuse_link(self.path)?;
        add_cassette(self.path);
        self.path.parent().map_or(Ok(()), fs::create_dir_all)
    }

    fn invalid(&self, problem: &str) -> Error {
        let here = std::env::current_dir().unwrap_or_default();
        let path = self.path.strip_prefix(here).unwrap_or(self.path);
        invalid_option(OPTION, format!("{} {problem}", path.display()))
    }
}

/// Returns whether a variable such as `CI` is set. `false` and `0` turn it off.
fn is_set(variable: Option<OsString>) -> bool {
    variable.is_some_and(|value| !["", "false", "0"].iter().any(|off| value.eq_ignore_ascii_case(off)))
}

/// Returns the absolute path of a cassette with this name or path.
fn file_of(name: &Path) -> PathBuf {
    let text = name.to_string_lossy();
    let is_name = !text.ends_with(SUFFIX) && !text.contains('/') && !text.contains(std::path::is_separator);
    let path = if is_name {
        let mut file = name.as_os_str().to_owned();
        file.push(SUFFIX);
        Path::new(FOLDER).join(file)
    } else {
        name.to_owned()
    };
    std::path::absolute(&path).unwrap_or(path)
}

/// The state of the file of a cassette.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Missing,
    /// A recording of a session that was not opened, for example because the executable is not an agent. It can be empty.
    Unopened,
    /// A recording without its end: the program was killed, or has not closed the session yet.
    Incomplete,
    /// The file can be played, or the agent that plays it reports the problem.
    Usable,
}

fn state(path: &Path) -> State {
    // Reading a pipe could take for ever.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return State::Usable;
    }
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return State::Missing,
        Err(_) => return State::Usable,
    };
    if is_cut_header(&text) {
        return State::Unopened;
    }
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let first = lines.next().map(String::from_utf8_lossy);
    if first.is_some_and(|line| Recording::read(&line).is_err()) {
        return State::Usable;
    }
    let is_opened = lines.clone().any(|line| is_entry(line, "opened"));
    match lines.next_back() {
        Some(last) if is_entry(last, "end") && is_opened => State::Usable,
        _ if is_opened => State::Incomplete,
        _ => State::Unopened,
    }
}

/// Returns whether a file has only a part of the header of a recording: its program was killed, or the disk is full.
fn is_cut_header(text: &[u8]) -> bool {
    let begin = text.len().min(HEADER_BEGIN.len());
    !text.contains(&b'\n')
        && text[..begin] == HEADER_BEGIN[..begin]
        && serde_json::from_slice::<IgnoredAny>(text).is_err()
}

/// Returns whether a line is an entry of this type.
fn is_entry(line: &[u8], kind: &str) -> bool {
    // Most lines are messages. They need not be read.
    line.windows(kind.len()).any(|part| part == kind.as_bytes())
        && serde_json::from_slice::<Value>(line).is_ok_and(|entry| entry["type"] == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"type":"header","format":1,"started":"","dialect":"wire","executable":[],"options":{},"sdk":{"name":"kimi-agent","version":"0.1.0","language":"rust"}}"#;
    const OPENED: &str = r#"{"time":1,"type":"opened","protocol_version":"1.10"}"#;
    const END: &str = r#"{"time":1,"type":"end","reason":"closed"}"#;

    /// A folder with a file of this content, and the path of the file.
    fn file(content: Option<&str>) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tape.jsonl");
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        (folder, path)
    }

    #[test]
    fn each_mode_decides() {
        use CassetteMode::{All, None as Never, Once, Rewrite};
        let complete = format!("{HEADER}\n{OPENED}\n{END}\n");
        let unopened = format!("{HEADER}\n{END}\n");
        let open = format!("{HEADER}\n{OPENED}\n");
        let cut = format!("{HEADER}\n{OPENED}\n{END}\n{{\"time\":2,");
        const UNOPENED: &str = "is incomplete, because its session was never opened; record it again: remove the mode \"none\", then run KIMI_RECORD=once";
        const UNCLOSED: &str = "is incomplete, because its session was never closed; record it again: remove the mode \"none\", then run KIMI_RECORD=once";
        for (content, state_of, once, never) in [
            (
                None,
                State::Missing,
                true,
                Err("is missing; record it: remove the mode \"none\", then run KIMI_RECORD=once"),
            ),
            (Some(&*complete), State::Usable, false, Ok(false)),
            (Some(HEADER), State::Unopened, true, Err(UNOPENED)),
            (Some(&*unopened), State::Unopened, true, Err(UNOPENED)),
            (Some(&*open), State::Incomplete, true, Err(UNCLOSED)),
            (Some(&*cut), State::Incomplete, true, Err(UNCLOSED)),
            (Some(""), State::Unopened, true, Err(UNOPENED)),
            (Some("other\n"), State::Usable, false, Ok(false)),
            (Some(&HEADER[..HEADER.len() / 2]), State::Unopened, true, Err(UNOPENED)),
            (Some(r#"{"type":"hea"#), State::Unopened, true, Err(UNOPENED)),
            // A file that is not a recording is not replaced.
            (Some("other"), State::Usable, false, Ok(false)),
            (Some(r#"{"type": "other"#), State::Usable, false, Ok(false)),
        ] {
            let (_folder, path) = file(content);
            assert_eq!(state(&path), state_of, "{content:?}");
            let decide = |mode| Request { mode: Some(mode), ..Request::new(&path) }.records(mode);
            assert_eq!(decide(Once).unwrap(), once, "{content:?}");
            assert!(decide(All).unwrap() && decide(Rewrite).unwrap());
            match (decide(Never).map_err(|error| error.to_string()), never) {
                (Err(error), Err(text)) => assert!(error.contains(text), "{error}"),
                (decided, expected) => assert_eq!(decided, expected.map_err(str::to_owned)),
            }
        }
    }

    #[test]
    fn mode_has_an_order() {
        let path = Path::new("tape.jsonl");
        let request = Request { is_ci: false, ..Request::new(path) };
        assert_eq!(request.mode_with(None).unwrap(), CassetteMode::Once);
        assert_eq!(request.mode_with(Some("all".into())).unwrap(), CassetteMode::All);
        let given = Request { mode: Some(CassetteMode::None), default: Some(CassetteMode::Rewrite), ..request };
        assert_eq!(given.mode_with(Some("all".into())).unwrap(), CassetteMode::None);
        let default = Request { default: Some(CassetteMode::None), ..request };
        assert_eq!(default.mode_with(None).unwrap(), CassetteMode::None);
        let in_ci = Request { is_ci: true, ..request };
        assert_eq!(in_ci.mode_with(None).unwrap(), CassetteMode::None);
        assert_eq!(in_ci.mode_with(Some("once".into())).unwrap(), CassetteMode::Once);
        let with_default = Request { default: Some(CassetteMode::All), ..in_ci };
        assert_eq!(with_default.mode_with(None).unwrap(), CassetteMode::All);
        let error = request.mode_with(Some("twice".into())).unwrap_err().to_string();
        let expected = r#"expected "once", "none", "all" or "rewrite" in $KIMI_RECORD, got "twice""#;
        assert_eq!(error, format!("invalid option `mode`: {expected}"));
        let error = "twice".parse::<CassetteMode>().unwrap_err().to_string();
        assert!(error.ends_with(r#"expected "once", "none", "all" or "rewrite", got "twice""#), "{error}");
    }

    #[test]
    fn variable_of_ci_can_be_off() {
        for (value, expected) in
            [("true", true), ("1", true), ("woodpecker", true), ("", false), ("False", false), ("0", false)]
        {
            assert_eq!(is_set(Some(value.into())), expected, "{value:?}");
        }
        assert!(!is_set(None));
    }

    #[test]
    fn file_is_prepared() {
        let (folder, path) = file(Some("old"));
        let open = |path: &Path, mode| open_cassette(path, Some(mode), None, None).unwrap();
        assert_eq!(open(&path, "all"), (path.clone(), true));
        assert!(path.exists());
        assert_eq!(open(&path, "rewrite"), (path.clone(), true));
        assert!(path.exists());
        let deep = folder.path().join("a").join("b").join("tape.jsonl");
        assert!(open(&deep, "rewrite").1 && deep.parent().unwrap().is_dir());
        #[cfg(unix)]
        for target in [path.clone(), folder.path().join("nothing")] {
            let link = folder.path().join("link.jsonl");
            std::os::unix::fs::symlink(target, &link).unwrap();
            for mode in ["all", "rewrite", "once"] {
                let opened = open_cassette(&link, Some(mode), None, None).map_err(|error| error.to_string());
                // A file that is not a recording is played, which reports that.
                let is_played = mode == "once" && link.exists();
                assert_eq!(opened.clone().is_ok(), is_played, "{opened:?}");
                assert!(
                    is_played || opened.unwrap_err().contains("link.jsonl can't be written: it is a link; expected")
                );
            }
            fs::remove_file(link).unwrap();
        }
        let (_folder, plain) = file(Some(""));
        for (path, problem) in [
            (plain.join("tape.jsonl"), "can't be written: "),
            (PathBuf::new(), "an empty text"),
            (folder.path().to_owned(), "is a directory; a cassette is a file"),
            (folder.path().join("new/"), "is a directory; a cassette is a file"),
        ] {
            let error = open_cassette(&path, Some("all"), None, None).unwrap_err().to_string();
            assert!(error.starts_with("invalid option `cassette`: ") && error.contains(problem), "{error}");
        }
    }

    #[test]
    fn remedy_depends_on_setting() {
        let (_folder, path) = file(None);
        let request = Request::new(&path);
        let text = |request: Request<'_>| request.records(CassetteMode::None).unwrap_err().to_string();
        assert!(text(request).ends_with("record it: KIMI_RECORD=once <the command that runs this test>"));
        assert!(text(Request { remedy: Some(": pytest"), ..request }).ends_with("is missing; record it: pytest"));
    }

    #[test]
    fn name_is_file_in_folder() {
        let here = std::env::current_dir().unwrap();
        for (name, file) in [
            ("greeting", "cassettes/greeting.jsonl"),
            ("v1.2", "cassettes/v1.2.jsonl"),
            ("greeting.jsonl", "greeting.jsonl"),
            ("tests/greeting", "tests/greeting"),
        ] {
            assert_eq!(file_of(Path::new(name)), here.join(file));
        }
    }
}
