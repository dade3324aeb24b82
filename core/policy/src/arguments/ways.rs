//! Names and values of arguments that say what is done with a file, whatever the kind of the call is.

/// Arguments that are a new text for a file, or changes of one.
pub(super) const NEW_TEXT_KEYS: &[&str] = &[
    "content",
    "contents",
    "filetext",
    "newstring",
    "newtext",
    "newstr",
    "newcontent",
    "replacement",
    "inserttext",
    "newsource",
    "modifiedtext",
    "hunks",
    "edits",
    "changes",
    "filechanges",
    "fileedits",
    "filechange",
    "patch",
    "patchtext",
    "unifieddiff",
];

/// Switches that say that a file is written or deleted.
pub(super) const WRITE_SWITCHES: &[&str] =
    &["write", "writefile", "overwrite", "save", "append", "truncate", "inplace", "create", "createfile", "edit"];
pub(super) const DELETE_SWITCHES: &[&str] = &["delete", "deletefile", "remove", "removefile", "unlink"];

/// Arguments that say what is done with a file.
pub(super) const WAY_KEYS: &[&str] = &["mode", "operation", "operations", "action", "method"];

/// Values of such an argument for a call that only reads or searches.
pub(super) const WAYS_OF_READING: &[&str] = &[
    "",
    "r",
    "rb",
    "rt",
    "read",
    "view",
    "get",
    "open",
    "cat",
    "list",
    "ls",
    "search",
    "find",
    "grep",
    "glob",
    "text",
    "binary",
    "raw",
    "full",
    "slice",
    "indentation",
    "lines",
    "range",
    "head",
    "tail",
    "content",
    "files",
    "files_with_matches",
    "count",
    "outline",
    "summary",
    "auto",
    "default",
];

/// Values of such an argument for a call that writes a file.
pub(super) const WAYS_OF_WRITING: &[&str] = &[
    "w",
    "wb",
    "wt",
    "w+",
    "a",
    "ab",
    "at",
    "a+",
    "x",
    "r+",
    "rw",
    "write",
    "append",
    "edit",
    "overwrite",
    "create",
    "insert",
    "replace",
    "update",
    "patch",
    "truncate",
    "save",
];
