//! The kinds of tools, and the names of the tools of known agents.

use crate::arguments::plain;
use crate::mcp::McpName;

/// The kind of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Fetch,
    Think,
    Mcp,
}

impl Kind {
    pub(crate) const ALL: [(&'static str, Self); 9] = [
        ("read", Self::Read),
        ("edit", Self::Edit),
        ("delete", Self::Delete),
        ("move", Self::Move),
        ("search", Self::Search),
        ("execute", Self::Execute),
        ("fetch", Self::Fetch),
        ("think", Self::Think),
        ("mcp", Self::Mcp),
    ];

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
    }

    /// Whether a deny rule of this kind also concerns a call of `other`: a file that must not be edited must not be deleted.
    pub(crate) fn covers(self, other: Self) -> bool {
        self == other
            || (self == Self::Edit && matches!(other, Self::Delete | Self::Move))
            || (self == Self::Read && other == Self::Search)
    }
}

/// Names of tools, in lower case and without `_` and `-`, by kind.
const TOOLS: &[(Kind, &[&str])] = &[
    (
        Kind::Execute,
        &[
            "shell",
            "bash",
            "powershell",
            "pwsh",
            "cmd",
            "runshellcommand",
            "executecommand",
            "runcommand",
            "runinterminal",
            "execcommand",
            "localshell",
            "localshellcall",
            "launchprocess",
            "terminal",
            "developershell",
            "shellcommand",
            "writestdin",
            "sendtoterminal",
            "writebash",
            "executepwsh",
            "runterminalcmd",
            "python",
            "executecode",
            "runcode",
        ],
    ),
    (
        Kind::Read,
        &[
            "readfile",
            "read",
            "view",
            "cat",
            "readmanyfiles",
            "readmediafile",
            "listdirectory",
            "ls",
            "list",
            "listdir",
            "listfiles",
            "viewimage",
            "notebookread",
            "readtextfile",
            "fsread",
        ],
    ),
    (
        Kind::Edit,
        &[
            "writefile",
            "strreplacefile",
            "write",
            "edit",
            "multiedit",
            "notebookedit",
            "replace",
            "strreplace",
            "strreplaceeditor",
            "strreplacebasededittool",
            "create",
            "createfile",
            "applypatch",
            "patch",
            "writetofile",
            "replaceinfile",
            "searchreplace",
            "searchandreplace",
            "findreplace",
            "findandreplace",
            "editfile",
            "savefile",
            "insert",
            "developertexteditor",
            "texteditor",
            "insertcontent",
            "fswrite",
            "writetextfile",
            "applydiff",
        ],
    ),
    (Kind::Delete, &["removefiles", "deletefile", "removefile", "delete"]),
    (Kind::Move, &["movefile", "renamefile", "move", "rename"]),
    (
        Kind::Search,
        &[
            "glob",
            "grep",
            "grepsearch",
            "searchfilecontent",
            "searchfiles",
            "rg",
            "ripgrep",
            "find",
            "findfiles",
            "codesearch",
            "codebasesearch",
            "filesearch",
        ],
    ),
    (
        Kind::Fetch,
        &[
            "fetchurl",
            "webfetch",
            "fetch",
            "searchweb",
            "websearch",
            "googlewebsearch",
            "fetchwebpage",
            "browserpreview",
        ],
    ),
    (
        Kind::Think,
        &[
            "think",
            "settodolist",
            "todowrite",
            "todoread",
            "todolist",
            "updateplan",
            "writetodos",
            "updatetodos",
            "managetodolist",
        ],
    ),
];

/// Words that people write for kinds.
const MEANT: &[(&str, &str)] = &[
    ("exec", "execute"),
    ("run", "execute"),
    ("command", "execute"),
    ("file", "read"),
    ("url", "fetch"),
    ("http", "fetch"),
    ("web", "fetch"),
    ("network", "fetch"),
    ("remove", "delete"),
];

/// The kind that a word means, if the word is neither a kind nor a tool of a known agent.
pub(crate) fn misspelt_kind(name: &str) -> Option<&'static str> {
    if kind_of_tool(name).is_some() || Kind::parse(name).is_some() {
        return None;
    }
    let kinds = || Kind::ALL.iter().map(|(kind, _)| *kind);
    let meant = MEANT.iter().find(|(word, _)| *word == name).map(|(_, kind)| *kind);
    meant
        .or_else(|| kinds().find(|kind| kind.eq_ignore_ascii_case(name)))
        .or_else(|| kinds().find(|kind| is_near(kind, &name.to_lowercase())))
}

/// Whether one letter differs, is missing or is too much, or two neighbours are exchanged.
fn is_near(kind: &str, name: &str) -> bool {
    let (kind, name) = (kind.as_bytes(), name.as_bytes());
    let start = kind.iter().zip(name).take_while(|(a, b)| a == b).count();
    let (kind, name) = (&kind[start..], &name[start..]);
    let end = kind.iter().rev().zip(name.iter().rev()).take_while(|(a, b)| a == b).count();
    match (&kind[..kind.len() - end], &name[..name.len() - end]) {
        ([a, b], [c, d]) => a == d && b == c,
        (kind, name) => kind.len().max(name.len()) == 1,
    }
}

/// The kind of a tool of a known agent, by its name.
pub(crate) fn kind_of_tool(name: &str) -> Option<Kind> {
    if !mcp_names(name).is_empty() {
        return Some(Kind::Mcp);
    }
    if name.len() > 64 {
        return None;
    }
    let name = plain(name);
    TOOLS.iter().find(|(_, names)| names.contains(&&*name)).map(|(kind, _)| *kind)
}

/// The servers and tools that an MCP tool's name can be split into.
pub(crate) fn mcp_names(name: &str) -> Vec<McpName> {
    let is_prefixed = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("mcp__"));
    let Some(rest) = name.get(5..).filter(|_| is_prefixed && name.len() < 256 && is_name(name)) else {
        return Vec::new();
    };
    let splits =
        (1..rest.len().saturating_sub(2)).filter(|at| rest.is_char_boundary(*at) && rest[*at..].starts_with("__"));
    splits.map(|at| McpName::new(&rest[..at], &rest[at + 2..])).collect()
}

/// Whether the text can be the name of a tool. Some agents send a title instead, which can be a command.
pub(crate) fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}
