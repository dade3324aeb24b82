//! Terminals, independent of the protocol: the agent's calls about the commands that a handler of the program runs, and
//! the answers.

/// The requests, besides approvals and questions, that handlers of the program answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// `on_read_file`.
    pub read_file: bool,
    /// `on_write_file`.
    pub write_file: bool,
    /// `on_terminal`.
    pub terminal: bool,
}

/// A call about a terminal that the agent has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalCall {
    /// Returns the output.
    Output,
    /// Waits for the end.
    WaitForExit,
    /// Ends the command.
    Kill,
    /// Ends the command, and releases the terminal.
    Release,
}

/// Our answer to the creation of a terminal, or to a call about it.
#[derive(Clone, Copy, Debug)]
pub enum TerminalAnswer<'a> {
    /// The id of the new terminal.
    Created(&'a str),
    /// The output so far.
    Output {
        /// The output, without the part beyond the limit.
        output: &'a str,
        /// Whether the beginning is left out.
        truncated: bool,
        /// The end of the command. `None` while it runs.
        exit: Option<&'a TerminalExit>,
    },
    /// The end of the command.
    Exited(&'a TerminalExit),
    /// The call is done.
    Done,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalExit {
    /// The exit code. `None` if a signal ended the command.
    pub exit_code: Option<i64>,
    /// The name of the signal that ended the command.
    pub signal: Option<String>,
}
