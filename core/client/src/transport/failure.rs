//! The texts of errors for programs that could not be started.

#[cfg(unix)]
use std::io::Read;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::Error;
use crate::transport::launch::Launch;

/// Makes the error, which names the program and the reason.
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
        libc::ETXTBSY => "it is being written to; wait until that has ended".to_owned(),
        libc::E2BIG => {
            let length: usize = launch.args.iter().map(|arg| arg.len() + 1).sum();
            format!(
                "its arguments ({length} bytes) and environment are longer than the system allows; shorten `extra_args` or `env`"
            )
        }
        libc::EMFILE => {
            "this process has too many open files; close sessions, or raise the limit (`ulimit -n`)".to_owned()
        }
        libc::ENFILE => "the system has too many open files; close files, or raise the limit of the system".to_owned(),
        libc::EAGAIN => {
            "the limit of processes is reached; close sessions, or raise the limit (`ulimit -u`)".to_owned()
        }
        libc::ENOMEM => "there is not enough memory; free some, and try again".to_owned(),
        _ => return None,
    };
    Some(format!("{reason} ({error})"))
}

/// The paths that Windows takes without the prefix `\\?\`, which a working directory cannot have.
#[cfg(windows)]
const LONGEST_PATH: usize = 259;

#[cfg(windows)]
fn long_path(launch: &Launch) -> Option<String> {
    use std::os::windows::ffi::OsStrExt;

    let paths = [("its path", &launch.program), ("the path of its working directory", &launch.current_dir)];
    let lengths = paths.map(|(name, path)| (name, path.as_os_str().encode_wide().count()));
    let (name, length) = lengths.into_iter().find(|(_, length)| *length > LONGEST_PATH)?;
    Some(format!(
        "{name} has {length} characters, and Windows starts programs with paths of up to {LONGEST_PATH}; use a shorter path"
    ))
}

#[cfg(windows)]
fn reason(launch: &Launch, error: &io::Error) -> Option<String> {
    use windows::Win32::Foundation::{
        ERROR_ACCESS_DENIED, ERROR_BAD_EXE_FORMAT, ERROR_DIRECTORY, ERROR_ELEVATION_REQUIRED,
        ERROR_FILENAME_EXCED_RANGE, ERROR_SHARING_VIOLATION, WIN32_ERROR,
    };

    if error.kind() == ErrorKind::InvalidInput && super::sys::is_batch_file(&launch.program) {
        return Some(format!(
            "it is a batch file, and an argument cannot be passed to those safely, for example with a line break; name the \
             program that the batch file starts in `executable` ({error})"
        ));
    }
    let code = WIN32_ERROR(error.raw_os_error()?.cast_unsigned());
    let is_about_path =
        error.kind() == ErrorKind::NotFound || code == ERROR_DIRECTORY || code == ERROR_FILENAME_EXCED_RANGE;
    if is_about_path && let Some(reason) = long_path(launch) {
        return Some(format!("{reason} ({error})"));
    }
    let reason = match code {
        _ if error.kind() == ErrorKind::NotFound => "it does not exist".to_owned(),
        ERROR_ACCESS_DENIED => {
            "permission denied; the permissions of the file, or a virus scanner, do not allow it".to_owned()
        }
        ERROR_SHARING_VIOLATION => "it is open in another program; wait until that has closed it".to_owned(),
        ERROR_BAD_EXE_FORMAT => "it is not a program for this kind of machine".to_owned(),
        ERROR_FILENAME_EXCED_RANGE => {
            "its arguments are longer than the system allows; shorten `extra_args`".to_owned()
        }
        ERROR_ELEVATION_REQUIRED => "it needs the rights of an administrator".to_owned(),
        _ => return None,
    };
    Some(format!("{reason} ({error})"))
}

#[cfg(unix)]
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // The head of an unreadable file is empty.
    if let Ok(file) = std::fs::File::open(path) {
        drop(file.take(256).read_to_end(&mut head));
    }
    head
}

/// Returns the interpreter in a script's first line.
#[cfg(unix)]
fn interpreter(path: &Path) -> Option<String> {
    let head = head(path);
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    // A carriage return is invisible there, and part of the name.
    Some(format!("{:?}", String::from_utf8_lossy(line).trim_matches([' ', '\t'])))
}

#[cfg(unix)]
fn is_binary(path: &Path) -> bool {
    let head = head(path);
    let magics: [&[u8]; 6] =
        [b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa", b"MZ"];
    magics.iter().any(|magic| head.starts_with(magic))
}
