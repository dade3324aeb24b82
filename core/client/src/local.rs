//! Ready handlers for files and terminals below one directory. The paths, the files and the commands come from an agent, so
//! nothing here follows a link, waits for a pipe, or takes unlimited memory or time.

mod folder;

use std::ffi::OsString;
use std::future::poll_fn;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use folder::{Root, refused};

use crate::HandlerError;
use crate::handler::HandlerFuture;
use crate::messages::{ReadFileRequest, TerminalRequest, TerminalResult, WriteFileRequest};
use crate::options::{Inherited, find_command};
use crate::transport::child::CommandProcess;
use crate::transport::launch::{Launch, PrivateFiles};

/// The default limit of a file, in bytes.
pub(crate) const DEFAULT_MAX_BYTES: u64 = 16 << 20;
/// The default limit of the duration of a command.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a file system may take for a file.
const FILE_TIMEOUT: Duration = Duration::from_secs(30);
/// The limit of files that one handler reads or writes at a time, in all sessions.
const MAX_FILES: usize = 8;
/// The largest output of a command that is kept, in bytes.
const MAX_OUTPUT: usize = 4 << 20;
/// The longest character of UTF-8, in bytes.
const MAX_CHARACTER: usize = 4;
/// How long the output may stay open after the end of the command: a process in the background can hold it.
const DRAIN: Duration = Duration::from_millis(500);

/// Makes handlers of files below a directory, for `on_read_file` and `on_write_file`. Only regular files are read and written. A
/// path outside of the directory, a link, a device, a pipe or a longer file is an error, which the agent gets.
///
/// # Examples
/// ```
/// use kimi_agent::{SessionOptions, files, terminals};
/// let project = files("/srv/project").writable();
/// let options = SessionOptions::new()
///     .on_read_file(project.reader())
///     .on_write_file(project.writer())
///     .on_terminal(terminals("/srv/project").runner());
/// # drop(options);
/// ```
pub fn files(root: impl Into<PathBuf>) -> Files {
    let places = Arc::new(Semaphore::new(MAX_FILES));
    Files { root: Root::new(root.into()), is_writable: false, max_bytes: DEFAULT_MAX_BYTES, places }
}

/// Makes a handler that runs commands in a directory and its folders, for `on_terminal`.
///
/// A command has the rights of the program, and can leave the directory: this is not a sandbox. A command and the processes of its
/// group are killed if the command ends, takes too long, or if this program ends.
///
/// # Examples
/// ```
/// use kimi_agent::{SessionOptions, terminals};
/// let options = SessionOptions::new().on_terminal(terminals("/srv/project").runner());
/// # drop(options);
/// ```
pub fn terminals(root: impl Into<PathBuf>) -> Terminals {
    Terminals { root: Root::new(root.into()), timeout: DEFAULT_TIMEOUT }
}

/// The files below a directory, from [`files()`].
///
/// # Examples
/// ```
/// let project = kimi_agent::files("/srv/project").writable().max_bytes(1 << 20);
/// # drop(project.reader());
/// ```
#[derive(Clone, Debug)]
pub struct Files {
    root: Root,
    is_writable: bool,
    max_bytes: u64,
    /// The handlers of this value and of its clones have them in common.
    places: Arc<Semaphore>,
}

impl Files {
    /// Allows the agent to write files. Missing folders below the directory are made. By default, each write is an error.
    ///
    /// # Examples
    /// ```
    /// let project = kimi_agent::files("/srv/project").writable();
    /// # drop(project.writer());
    /// ```
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.is_writable = true;
        self
    }

    /// Sets the limit of a file, in bytes. Default: 16 MiB.
    ///
    /// # Examples
    /// ```
    /// let project = kimi_agent::files("/srv/project").max_bytes(1 << 20);
    /// # drop(project.reader());
    /// ```
    #[must_use]
    pub fn max_bytes(mut self, limit: u64) -> Self {
        self.max_bytes = limit;
        self
    }

    /// Returns the handler for `on_read_file`.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{SessionOptions, files};
    /// let options = SessionOptions::new().on_read_file(files("/srv/project").reader());
    /// # drop(options);
    /// ```
    pub fn reader(&self) -> impl Fn(ReadFileRequest) -> HandlerFuture<Option<String>> + Send + Sync + use<> {
        let Self { root, max_bytes, places, .. } = self.clone();
        move |request| {
            let (root, path) = (root.clone(), request.path);
            Box::pin(in_place(Arc::clone(&places), move || read(&root, &path, max_bytes).map(Some)))
        }
    }

    /// Returns the handler for `on_write_file`.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{SessionOptions, files};
    /// let options = SessionOptions::new().on_write_file(files("/srv/project").writable().writer());
    /// # drop(options);
    /// ```
    pub fn writer(&self) -> impl Fn(WriteFileRequest) -> HandlerFuture<()> + Send + Sync + use<> {
        let Self { root, max_bytes, is_writable, places } = self.clone();
        move |request| {
            let (root, WriteFileRequest { path, content, .. }) = (root.clone(), request);
            Box::pin(in_place(Arc::clone(&places), move || match is_writable {
                true => write(&root, &path, &content, max_bytes),
                false => Err(refused(&path, "the program does not allow writing")),
            }))
        }
    }
}

/// The commands below a directory, from [`terminals()`].
///
/// # Examples
/// ```
/// use std::time::Duration;
/// let commands = kimi_agent::terminals("/srv/project").timeout(Duration::from_secs(60));
/// # drop(commands.runner());
/// ```
#[derive(Clone, Debug)]
pub struct Terminals {
    root: Root,
    timeout: Duration,
}

impl Terminals {
    /// Sets how long a command may take before it is killed. Default: 10 minutes.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// let commands = kimi_agent::terminals("/srv/project").timeout(Duration::from_secs(60));
    /// # drop(commands.runner());
    /// ```
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the handler for `on_terminal`.
    ///
    /// # Examples
    /// ```
    /// use kimi_agent::{SessionOptions, terminals};
    /// let options = SessionOptions::new().on_terminal(terminals("/srv/project").runner());
    /// # drop(options);
    /// ```
    pub fn runner(&self) -> impl Fn(TerminalRequest) -> HandlerFuture<TerminalResult> + Send + Sync + use<> {
        let this = self.clone();
        move |request| {
            let this = this.clone();
            Box::pin(async move { this.run(request).await })
        }
    }

    async fn run(self, request: TerminalRequest) -> Result<TerminalResult, HandlerError> {
        let limit = request.output_byte_limit.and_then(|limit| usize::try_from(limit).ok());
        let output = Output::new(limit.unwrap_or(MAX_OUTPUT).min(MAX_OUTPUT));
        let launch = in_time(move || launch(&self.root, request)).await?;
        let (mut command, stdout, stderr) = CommandProcess::start(launch).await?;
        let reading = async { tokio::join!(output.take(stdout), output.take(stderr)) };
        let mut reading = std::pin::pin!(reading);
        let ended = timeout(self.timeout, async {
            let mut is_read = false;
            loop {
                tokio::select! {
                    exit = poll_fn(|cx| command.poll_exit(cx)) => return (exit, is_read),
                    _ = &mut reading, if !is_read => is_read = true,
                }
            }
        });
        let (code, signal) = match ended.await {
            Ok((exit, is_read)) => {
                if !is_read {
                    drop(timeout(DRAIN, &mut reading).await);
                }
                (exit.code, exit.signal)
            }
            Err(_) => (None, Some("SIGKILL".to_owned())),
        };
        Ok(TerminalResult { signal, ..TerminalResult::new(output.text(), code) })
    }
}

/// Returns the command that a request names.
fn launch(root: &Root, request: TerminalRequest) -> io::Result<Launch> {
    let current_dir = root.folder(&request.cwd)?;
    let value = |(name, value): (String, Value)| Some((name.into(), value.as_str()?.into()));
    let env: Vec<(OsString, OsString)> = request.env.into_iter().filter_map(value).collect();
    let refused = |reason| io::Error::new(io::ErrorKind::NotFound, format!("{}: {reason}", request.command));
    let program = find_command(request.command.as_ref(), &current_dir, &env).map_err(refused)?;
    let args = request.args.into_iter().map(OsString::from).collect();
    Ok(Launch {
        program,
        args,
        env,
        inherited: Inherited::default(),
        current_dir,
        private: PrivateFiles::default(),
        server: None,
        is_gateway: false,
        placed: Default::default(),
    })
}

/// The end of an output, and a few bytes more if it is longer than its limit: so the connection, which cuts the text at the start
/// of a character, reports that it is truncated.
struct Output {
    limit: usize,
    bytes: Mutex<Vec<u8>>,
}

impl Output {
    fn new(limit: usize) -> Self {
        Self { limit: limit + MAX_CHARACTER, bytes: Mutex::default() }
    }

    /// Reads a pipe to its end.
    async fn take(&self, mut pipe: impl AsyncRead + Unpin) {
        let mut piece = vec![0; 16 << 10];
        while let Ok(length @ 1..) = pipe.read(&mut piece).await {
            let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.extend_from_slice(&piece[..length]);
            if bytes.len() > self.limit.saturating_mul(2) {
                let above = bytes.len() - self.limit;
                bytes.drain(..above);
            }
        }
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(self.limit)..]).into_owned()
    }
}

/// Runs work with a file when a place is free. Work that is no longer awaited keeps its place until it ends.
async fn in_place<T: Send + 'static>(
    places: Arc<Semaphore>,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, HandlerError> {
    let Ok(place) = timeout(FILE_TIMEOUT, places.acquire_owned()).await else {
        return Err(format!(
            "{MAX_FILES} other files are read or written already, and the file system does not answer"
        )
        .into());
    };
    in_time(move || {
        let _place = place;
        work()
    })
    .await
}

/// Runs work with files outside of the runtime's thread, within a time.
async fn in_time<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, HandlerError> {
    match timeout(FILE_TIMEOUT, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => Ok(done?),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err("the file system does not answer".into()),
    }
}

fn read(root: &Root, path: &str, max_bytes: u64) -> io::Result<String> {
    let file = root.open_file(path)?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(refused(path, &format!("it has more than {max_bytes} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| refused(path, "it is not text in UTF-8"))
}

fn write(root: &Root, path: &str, content: &str, max_bytes: u64) -> io::Result<()> {
    if content.len() as u64 > max_bytes {
        return Err(refused(path, &format!("the content has more than {max_bytes} bytes")));
    }
    root.write_file(path, content.as_bytes())
}

#[cfg(test)]
mod tests;
