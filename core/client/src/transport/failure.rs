//! Why a program could not be started, in words.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::Error;
use crate::options::Launch;

/// An error that names the program and what is wrong with it.
pub(super) fn describe(launch: &Launch, error: &io::Error) -> Error {
    let reason = work_dir_problem(&launch.current_dir).or_else(|| reason(launch, error));
    let reason = reason.unwrap_or_else(|| error.to_string());
    Error::Spawn(format!("can't start the agent {}: {reason}", launch.program.display()))
}

fn work_dir_problem(path: &Path) -> Option<String> {
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_dir() => Some(format!("its working directory {shown} is not a directory")),
        Ok(_) if !may_enter(path) => Some(format!("its working directory {shown} may not be entered")),
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("its working directory {shown} does not exist"))
        }
        Err(error) => Some(format!("its working directory {shown}: {error}")),
    }
}

#[cfg(unix)]
fn may_enter(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn may_enter(_: &Path) -> bool {
    true
}

#[cfg(unix)]
fn reason(launch: &Launch, error: &io::Error) -> Option<String> {
    let reason = match error.raw_os_error()? {
        libc::ENOENT if !launch.program.exists() => "it does not exist".to_owned(),
        libc::ENOENT => match interpreter(&launch.program) {
            Some(name) => format!("its first line names {name} to run it, which does not exist"),
            None => "the loader that it was linked for does not exist".to_owned(),
        },
        libc::EACCES => match interpreter(&launch.program) {
            Some(name) => format!("permission denied; it, or {name} that is to run it, may not be executed"),
            None => "permission denied; it, or the file system that it is on, does not allow that".to_owned(),
        },
        libc::ENOEXEC if is_binary(&launch.program) => "it is a binary for another kind of machine".to_owned(),
        libc::ENOEXEC => "it is neither a binary nor a script that begins with `#!` and an interpreter".to_owned(),
        libc::ETXTBSY => "it is being written to".to_owned(),
        libc::E2BIG => {
            let length: usize = launch.args.iter().map(|arg| arg.len() + 1).sum();
            format!("its arguments ({length} bytes) and environment are longer than the system allows")
        }
        libc::EMFILE => {
            "this process has too many open files; close sessions, or raise the limit (`ulimit -n`)".to_owned()
        }
        libc::ENFILE => "the system has too many open files".to_owned(),
        libc::EAGAIN => {
            "the limit of processes is reached; close sessions, or raise the limit (`ulimit -u`)".to_owned()
        }
        libc::ENOMEM => "there is not enough memory".to_owned(),
        _ => return None,
    };
    Some(format!("{reason} ({error})"))
}

#[cfg(not(unix))]
fn reason(_: &Launch, error: &io::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::NotFound => Some("it does not exist".to_owned()),
        ErrorKind::PermissionDenied => Some("permission denied".to_owned()),
        _ => None,
    }
}

#[cfg(unix)]
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // What can't be read has no beginning to tell from.
    if let Ok(file) = std::fs::File::open(path) {
        drop(file.take(256).read_to_end(&mut head));
    }
    head
}

/// What a script's first line names.
#[cfg(unix)]
fn interpreter(path: &Path) -> Option<String> {
    let head = head(path);
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    // A carriage return there is invisible, and a part of the name.
    Some(format!("{:?}", String::from_utf8_lossy(line).trim_matches([' ', '\t'])))
}

#[cfg(unix)]
fn is_binary(path: &Path) -> bool {
    let head = head(path);
    let magics: [&[u8]; 6] =
        [b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa", b"MZ"];
    magics.iter().any(|magic| head.starts_with(magic))
}
