//! Ends agents with their process groups when this program ends, however it ends.
//!
//! Linux kills an agent itself when the program ends, but not what the agent has started; other systems kill neither. A server
//! must not be killed at all: it gets one TERM and time to end its tools, which are in groups of their own. So a helper process
//! reads a pipe that the system closes with the program. Each agent names its group on the pipe just before its `exec`, so
//! there is no moment in which the helper does not know it. The helper runs while there are agents.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, getpid};

use super::sys::pipe;

/// Reads lines `agent ID`, `server ID` and `gone ID`. After the end of the pipe a server gets TERM, and at most the 9 seconds of
/// `SERVER_END_GRACE`. Signals to the program's terminal or to all its processes do not end the helper.
const HELPER: &str = r#"
trap '' HUP INT TERM
agents= servers=
without() {
    rest=
    for known in $2; do [ "$known" = "$1" ] || rest="$rest $known"; done
}
while read -r kind id; do
    without "$id" "$agents"; agents=$rest
    without "$id" "$servers"; servers=$rest
    case $kind in
        agent) agents="$agents $id" ;;
        server) servers="$servers $id" ;;
    esac
done
for id in $agents; do kill -KILL "-$id"; done
for id in $servers; do kill -TERM "$id"; done
tenths=90
for id in $servers; do
    while [ $tenths -gt 0 ] && kill -0 "$id" && sleep 0.1; do tenths=$((tenths - 1)); done
    kill -KILL "-$id"
done
"#;

/// How an agent is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// By KILL.
    Agent,
    /// By TERM, and then by KILL.
    Server,
}

/// The guard of one process group. Dropped, the helper forgets the group: drop it when the group has ended.
pub(super) struct Guard {
    kind: Kind,
    leader: Option<Pid>,
    /// The program that made it. A fork of the program has no part in it.
    host: Pid,
    pipe: Arc<Pipe>,
}

/// Both ends of the helper's pipe. The program keeps the reading end, too, so that writing never raises SIGPIPE.
struct Pipe {
    _reader: OwnedFd,
    writer: OwnedFd,
}

/// The helper and what it knows.
struct Helper {
    host: Pid,
    process: Child,
    pipe: Arc<Pipe>,
    groups: BTreeMap<i32, Kind>,
    guards: usize,
}

static HELPER_PROCESS: Mutex<Option<Helper>> = Mutex::new(None);

fn helper() -> MutexGuard<'static, Option<Helper>> {
    HELPER_PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guard {
    /// Starts the helper if it does not run. Agents started with this guard are ended with the program. `None` if the system
    /// has no `/bin/sh`.
    pub(super) fn new(kind: Kind) -> io::Result<Option<Self>> {
        match Self::start(kind) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                warn_unguarded(&error);
                Ok(None)
            }
            started => started.map(Some),
        }
    }

    fn start(kind: Kind) -> io::Result<Self> {
        let mut slot = helper();
        // The helper of the program from which this one was forked guards the agents of that program.
        let own = slot.take_if(|helper| helper.host == getpid());
        let mut current = match own {
            Some(helper) => helper,
            None => Helper::start(BTreeMap::new())?,
        };
        // An error means that it has ended, too: a program that ignores SIGCHLD gets no exit status.
        if !matches!(current.process.try_wait(), Ok(None)) {
            current.replace();
        }
        current.guards += 1;
        let guard = Self { kind, leader: None, host: current.host, pipe: Arc::clone(&current.pipe) };
        *slot = Some(current);
        Ok(guard)
    }

    /// Names a child that has started and leads a group to the helper.
    #[cfg(feature = "batch")]
    pub(super) fn names(&mut self, child: &Child) {
        let leader = Pid::from_child(child);
        drop(self.pipe.write(&Line::new(self.kind.word(), leader)));
        self.guards(leader);
    }

    /// Returns what a child calls between fork and exec.
    pub(super) fn enlisting(&self) -> Enlisting {
        Enlisting { kind: self.kind, pipe: Arc::clone(&self.pipe) }
    }

    /// Sets the leader of the group, which has named itself to the helper.
    pub(super) fn guards(&mut self, leader: Pid) {
        self.leader = Some(leader);
        if let Some(helper) = helper().as_mut().filter(|helper| helper.host == self.host) {
            helper.groups.insert(leader.as_raw_nonzero().get(), self.kind);
            if !Arc::ptr_eq(&self.pipe, &helper.pipe) {
                // The child has named itself to a helper that was replaced meanwhile.
                drop(helper.pipe.write(&Line::new(self.kind.word(), leader)));
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.host != getpid() {
            return;
        }
        let mut slot = helper();
        let Some(helper) = slot.as_mut().filter(|helper| helper.host == self.host) else { return };
        helper.guards -= 1;
        if helper.guards == 0 {
            return drop(slot.take());
        }
        if let Some(leader) = self.leader {
            helper.groups.remove(&leader.as_raw_nonzero().get());
            if let Err(error) = helper.pipe.write(&Line::new("gone", leader)) {
                // The id may soon belong to another process.
                tracing::debug!(%error, "the helper that ends agents with this program is replaced");
                helper.replace();
            }
        }
    }
}

impl Helper {
    fn start(groups: BTreeMap<i32, Kind>) -> io::Result<Self> {
        let (reader, writer) = pipe()?;
        // A helper that was stopped must not stop this program.
        rustix::io::ioctl_fionbio(&writer, true)?;
        let mut command = super::helper("/bin/sh");
        command.args(["-c", HELPER, "kimi-agent-guard"]).env_clear().current_dir("/");
        // For `sleep`, on systems that have it elsewhere.
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        // Ctrl-C at a terminal is for the program.
        command.process_group(0).stdin(reader.try_clone()?).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn()?;
        let helper =
            Self { host: getpid(), process, pipe: Arc::new(Pipe { _reader: reader, writer }), groups, guards: 0 };
        for (leader, kind) in &helper.groups {
            if let Some(leader) = Pid::from_raw(*leader) {
                helper.pipe.write(&Line::new(kind.word(), leader))?;
            }
        }
        Ok(helper)
    }

    /// Starts another helper in place of one that was killed or stopped.
    fn replace(&mut self) {
        match Self::start(self.groups.clone()) {
            Ok(mut started) => {
                started.guards = self.guards;
                *self = started;
            }
            Err(error) => {
                // It may know groups that have ended.
                drop(self.process.kill());
                warn_unguarded(&error);
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Not by the end of the pipe, which a fork of this program may have inherited.
        if self.host == getpid()
            && let Err(error) = self.process.kill().and_then(|()| self.process.wait())
        {
            tracing::debug!(%error, "the helper that ends agents with this program was not ended");
        }
    }
}

fn warn_unguarded(error: &io::Error) {
    tracing::warn!(%error, "agents and what they have started may stay if this program is killed: /bin/sh, which waits for its \
        end, could not be started");
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Server => "server",
        }
    }
}

/// What a child does between fork and exec. It makes system calls only.
pub(super) struct Enlisting {
    kind: Kind,
    pipe: Arc<Pipe>,
}

impl Enlisting {
    /// Names the calling process, which leads a group, to the helper.
    pub(super) fn enlist(&self) {
        drop(self.pipe.write(&Line::new(self.kind.word(), getpid())));
    }

    /// Takes that back, because the process could not become the agent.
    pub(super) fn withdraw(&self) {
        drop(self.pipe.write(&Line::new("gone", getpid())));
    }
}

impl Pipe {
    /// Writes the line at once. A pipe takes such a short line as a whole or not at all.
    fn write(&self, line: &Line) -> io::Result<()> {
        rustix::io::write(&self.writer, line.as_bytes())?;
        Ok(())
    }
}

/// A line on the stack, because a child must not allocate.
struct Line {
    bytes: [u8; 32],
    length: usize,
}

impl Line {
    fn new(word: &str, leader: Pid) -> Self {
        let mut line = Self { bytes: [0; 32], length: 0 };
        // The longest word and the longest id are 18 bytes.
        let _ = writeln!(line, "{word} {}", leader.as_raw_nonzero());
        line
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{ChildStdout, Command};

    use super::*;

    /// A helper that is the test's own: the other tests of this process share theirs.
    fn helper_with(groups: &[(&Child, Kind)]) -> Helper {
        let groups = groups.iter().map(|(leader, kind)| (Pid::from_child(leader).as_raw_nonzero().get(), *kind));
        Helper::start(groups.collect()).unwrap()
    }

    /// Ends the helper's pipe, as the end of this program does.
    fn end(mut helper: Helper) {
        let (_reader, writer) = pipe().unwrap();
        helper.pipe = Arc::new(Pipe { _reader, writer });
        helper.process.wait().unwrap();
    }

    /// Starts a shell that leads a group of its own.
    fn leader(script: &str) -> (Child, ChildStdout) {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 6]).unwrap();
        (child, stdout)
    }

    fn ends(mut stdout: ChildStdout) -> bool {
        stdout.read_to_end(&mut Vec::new()).is_ok()
    }

    #[test]
    fn end_of_program_kills_agent_and_its_group() {
        // Two members hold the output: it ends when both have ended.
        let (mut agent, stdout) = leader("trap '' TERM; (trap '' TERM; sleep 100000) & echo ready; wait");
        end(helper_with(&[(&agent, Kind::Agent)]));

        assert_eq!(agent.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert!(ends(stdout));
    }

    #[test]
    fn end_of_program_terminates_server_and_kills_rest_of_its_group() {
        let (mut server, stdout) =
            leader("(trap '' TERM INT; sleep 100000) & trap 'exit 7' TERM; echo ready; while :; do wait; done");
        let helper = helper_with(&[(&server, Kind::Server)]);
        let ended = std::thread::spawn(move || server.wait().unwrap());
        end(helper);

        assert_eq!(ended.join().unwrap().code(), Some(7));
        assert!(ends(stdout));
    }

    #[test]
    fn forgotten_group_survives_end_of_program() {
        let (mut agent, _stdout) = leader("echo ready; read -r line; exit 5");
        let helper = helper_with(&[(&agent, Kind::Agent)]);
        helper.pipe.write(&Line::new("gone", Pid::from_child(&agent))).unwrap();
        end(helper);

        drop(agent.stdin.take());
        assert_eq!(agent.wait().unwrap().code(), Some(5), "its own end");
    }

    #[test]
    fn replaced_helper_knows_groups() {
        let (mut agent, _stdout) = leader("echo ready; read -r line");
        let mut helper = helper_with(&[(&agent, Kind::Agent)]);
        helper.process.kill().unwrap();
        helper.replace();
        end(helper);

        assert_eq!(agent.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn longest_line_fits() {
        let line = Line::new("server", Pid::from_raw(i32::MAX).unwrap());
        assert_eq!(line.as_bytes(), b"server 2147483647\n");
    }
}
