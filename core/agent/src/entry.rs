//! A program that starts itself as the scripted agent.

use std::ffi::OsString;

/// The first argument with which a program that has asked for it becomes the scripted agent.
pub const FLAG: &str = "--kimi-scripted-agent";

/// Runs the agent and exits, if the first argument of this program is [`FLAG`]. Can be called before `main`.
pub fn run_if_asked() {
    let mut args = arguments().into_iter().skip(1);
    if args.next().is_some_and(|first| first == FLAG) {
        std::process::exit(crate::command::main(args));
    }
}

/// Some libc versions do not pass the arguments before `main`.
fn arguments() -> Vec<OsString> {
    let args: Vec<OsString> = std::env::args_os().collect();
    #[cfg(target_os = "linux")]
    if args.is_empty() {
        use std::os::unix::ffi::OsStringExt;
        let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
        let words = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0);
        return words.map(|word| OsString::from_vec(word.to_vec())).collect();
    }
    args
}
