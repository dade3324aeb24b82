//! The agents of one process. Over ACP each session has an agent on a thread of its own. Each agent runs the whole
//! script from its first turn, like a process of its own over Wire.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::io::{self, Io};
use super::run::{Agent, Options, SharedCut};
use super::script::Script;
use super::server::{Sessions, Way};

struct Lanes {
    /// For all agents except the first, which has run the actions before the handshake.
    script: Script,
    options: Options,
    sessions: Sessions,
    cut: SharedCut,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Whether the client sends nothing more.
    ended: AtomicBool,
}

/// Runs until the client has closed its end, or until the script ends the process. Returns the exit code.
pub(crate) fn run(mut script: Script, options: Options) -> i32 {
    let (io, first) = Io::fed();
    let mut agent = Agent::new(&script, options.clone(), io);
    let turns = std::mem::take(&mut script.turns);
    let before = std::mem::take(&mut script.before_handshake);
    let lanes = Arc::new(Lanes {
        script: Script { turns: turns.clone(), ..script },
        options,
        sessions: Sessions::default(),
        cut: agent.cut(),
        threads: Mutex::default(),
        ended: AtomicBool::new(false),
    });
    agent.server.acp.join(lanes.sessions.clone(), 0);
    let router = lanes.clone();
    thread::spawn(move || route(&router, &first));
    let code = agent.run(&before, turns);
    if code.is_none() && lanes.ended.load(Ordering::Acquire) {
        // The agents exit now, because their input has ended. They keep their history.
        let threads = std::mem::take(&mut *lanes.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            let _ = thread.join();
        }
    }
    code.unwrap_or(0)
}

/// Passes each line to its agent.
fn route(lanes: &Arc<Lanes>, first: &SyncSender<Vec<u8>>) {
    let mut others: Vec<Option<Sender<Vec<u8>>>> = Vec::new();
    let mut is_first = true;
    io::read_standard(|line| match lanes.sessions.way(&line) {
        Way::New if !std::mem::take(&mut is_first) => {
            let (sender, lines) = channel();
            let _ = sender.send(line);
            others.push(Some(sender));
            lanes.start(others.len(), lines);
            true
        }
        Way::New | Way::To(0) | Way::LastTo(0) => first.send(line).is_ok(),
        way @ (Way::To(agent) | Way::LastTo(agent)) => {
            if let Some(place) = others.get_mut(agent - 1) {
                // An agent that has exited does not answer.
                let _ = place.as_ref().map(|sender| sender.send(line));
                if way == Way::LastTo(agent) {
                    *place = None;
                }
            }
            true
        }
    });
    lanes.ended.store(true, Ordering::Release);
}

impl Lanes {
    fn start(self: &Arc<Self>, number: usize, lines: Receiver<Vec<u8>>) {
        let lanes = self.clone();
        let thread = thread::spawn(move || {
            let mut agent = Agent::new(&lanes.script, lanes.options.clone(), Io::of(lines));
            agent.server.acp.join(lanes.sessions.clone(), number);
            agent.share_cut(lanes.cut.clone());
            if let Some(code) = agent.run(&[], lanes.script.turns.clone()) {
                process::exit(code);
            }
        });
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }
}
