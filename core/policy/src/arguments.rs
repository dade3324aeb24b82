//! The arguments of a tool call by meaning: paths, globs, commands, addresses, and those whose meaning is not known.

use serde_json::{Map, Value};

/// How many paths and addresses a call may have.
const MAX_TARGETS: usize = 400;
/// How many values are looked at.
const MAX_VALUES: usize = 20_000;

const COMMAND_KEYS: &[&str] = &["command", "cmd", "commandline", "script", "commands", "code", "input", "chars"];
const ARGUMENT_KEYS: &[&str] = &["args", "argv", "arguments"];
/// Values that change what a command does.
const ENVIRONMENT_KEYS: &[&str] = &[
    "env",
    "environment",
    "envvars",
    "environmentvariables",
    "variables",
    "shell",
    "stdin",
    "executable",
    "interpreter",
    "program",
];
const DIRECTORY_KEYS: &[&str] = &[
    "cwd",
    "cd",
    "workdir",
    "workingdirectory",
    "workingdir",
    "directory",
    "dir",
    "dirpath",
    "currentdirectory",
    "projectpath",
];
const PATH_KEYS: &[&str] = &[
    "path",
    "paths",
    "filepath",
    "filepaths",
    "absolutepath",
    "absolutepaths",
    "filename",
    "filenames",
    "file",
    "files",
    "notebookpath",
    "targetfile",
    "target",
    "targets",
    "source",
    "sources",
    "sourcepath",
    "sourcefile",
    "destination",
    "destinations",
    "destinationpath",
    "destinationfile",
    "destpath",
    "src",
    "srcpath",
    "dst",
    "dstpath",
    "dest",
    "from",
    "frompath",
    "to",
    "topath",
    "oldpath",
    "newpath",
    "oldname",
    "newname",
    "oldfile",
    "newfile",
    "movepath",
    "moveto",
    "renameto",
    "copyto",
    "directory",
    "directories",
    "dir",
    "dirpath",
    "dirs",
    "targetdirectory",
    "targetpath",
    "relativeworkspacepath",
    "relativepath",
    "uri",
    "uris",
    "fileuri",
    "folder",
    "folders",
    "folderpath",
    "filepattern",
    "outputpath",
    "outputfile",
    "inputpath",
    "inputfile",
    "root",
    "rootpath",
    "basepath",
    "base",
    "cwd",
    "cd",
    "workdir",
    "workingdirectory",
    "workingdir",
    "projectpath",
    "attachments",
    "images",
    "imagepath",
    "link",
    "linkpath",
    "symlink",
    "location",
    "locations",
];
/// Keys with globs of files.
const GLOB_KEYS: &[&str] = &[
    "glob",
    "globs",
    "globpattern",
    "include",
    "includes",
    "includepattern",
    "includeglob",
    "filepattern",
    "fileglob",
    "filter",
    "iglob",
];
const URL_KEYS: &[&str] = &["url", "urls", "uri", "href", "link", "endpoint", "domain", "host", "hostname", "address"];
const PATCH_KEYS: &[&str] = &["patch", "input", "patchtext", "diff", "unifieddiff"];
/// Objects whose keys are paths.
const CHANGE_KEYS: &[&str] = &["changes", "filechanges", "fileedits"];
/// Arguments that name no target.
const NEUTRAL_KEYS: &[&str] = &[
    "content",
    "contents",
    "text",
    "filetext",
    "body",
    "data",
    "oldstring",
    "newstring",
    "oldtext",
    "newtext",
    "oldstr",
    "newstr",
    "old",
    "new",
    "oldcontent",
    "newcontent",
    "replaceall",
    "replace",
    "search",
    "searchtext",
    "expectedreplacements",
    "expectedoccurrences",
    "occurrence",
    "instruction",
    "instructions",
    "description",
    "explanation",
    "reason",
    "reasoning",
    "justification",
    "thought",
    "thoughts",
    "title",
    "summary",
    "comment",
    "message",
    "label",
    "encoding",
    "mode",
    "line",
    "lines",
    "lineoffset",
    "nlines",
    "linecount",
    "offset",
    "limit",
    "length",
    "count",
    "size",
    "head",
    "tail",
    "startline",
    "endline",
    "startlineone",
    "starttline",
    "start",
    "end",
    "insertline",
    "inserttext",
    "viewrange",
    "linenumber",
    "linerange",
    "pages",
    "page",
    "pagesize",
    "maxresults",
    "maxcount",
    "maxbytes",
    "maxlines",
    "maxchars",
    "maxlength",
    "maxdepth",
    "maxoutputtokens",
    "maxoutputlength",
    "maxmatchesperfile",
    "totalmaxmatches",
    "depth",
    "headlimit",
    "timeout",
    "timeoutms",
    "timeoutseconds",
    "timeoutsec",
    "hardtimeout",
    "yieldtimems",
    "wait",
    "waitms",
    "blocking",
    "block",
    "background",
    "isbackground",
    "runinbackground",
    "casesensitive",
    "ignorecase",
    "caseinsensitive",
    "i",
    "n",
    "a",
    "b",
    "c",
    "o",
    "outputmode",
    "outputformat",
    "multiline",
    "dotall",
    "type",
    "types",
    "pattern",
    "patterns",
    "query",
    "queries",
    "regex",
    "isregex",
    "isregexp",
    "regexp",
    "format",
    "raw",
    "prompt",
    "todos",
    "plan",
    "task",
    "tasks",
    "editmode",
    "cellid",
    "cellnumber",
    "celltype",
    "newsource",
    "respectgitignore",
    "respectgeminiignore",
    "filefilteringoptions",
    "usedefaultexcludes",
    "recursive",
    "ignore",
    "ignorefiles",
    "ignored",
    "exclude",
    "excludes",
    "excludepattern",
    "namesonly",
    "includedirs",
    "includecontent",
    "includehidden",
    "showhidden",
    "sortby",
    "sort",
    "order",
    "context",
    "contextlines",
    "before",
    "after",
    "id",
    "callid",
    "toolcallid",
    "turnid",
    "sessionid",
    "index",
    "edit",
    "edits",
    "operation",
    "operations",
    "action",
    "files",
    "add",
    "update",
    "delete",
    "filechange",
    "parsedcmd",
    "login",
    "tty",
    "language",
    "lang",
    "version",
    "hunks",
    "value",
    "name",
    "kind",
    "status",
    "overwrite",
    "createdirectories",
    "createparents",
    "dryrun",
    "append",
    "insert",
    "method",
    "fetchtype",
    "prefixrule",
    "risk",
    "sideeffects",
    "isdangerous",
    "requiresapproval",
    "requireuserapproval",
    "searchonly",
    "fixedstrings",
    "literal",
    "wholeword",
    "wordregexp",
    "hidden",
    "filesonly",
    "filenameonly",
    "viewtype",
    "goal",
    "purpose",
    "intent",
    "originaltext",
    "modifiedtext",
    "isnewfile",
    "issearch",
    "autoapprove",
    "sinceline",
    "truncate",
    "totalcount",
    "matchstring",
    "matchperline",
    "nomatches",
];

/// Commands of tools for editing, which are no commands of a shell.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'a> {
    pub(crate) commands: Vec<&'a Value>,
    pub(crate) more: Vec<&'a Value>,
    pub(crate) directories: Vec<&'a Value>,
    pub(crate) paths: Vec<&'a str>,
    /// The paths that are no directories for the command.
    pub(crate) globs: Vec<&'a str>,
    pub(crate) urls: Vec<&'a str>,
    pub(crate) patches: Vec<&'a str>,
    /// The name of an argument whose meaning is not known, or of one that changes how a command runs.
    pub(crate) doubt: Option<String>,
    pub(crate) environment: bool,
    /// There are more targets than are looked at.
    pub(crate) is_cut: bool,
}

/// Returns the name of an argument or a tool without case, `_` and `-`, for comparisons.
pub(crate) fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Whether the value says nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Reads the arguments of a call. Nothing recurses.
pub(crate) fn read(arguments: &Map<String, Value>) -> Arguments<'_> {
    let mut found = Arguments::default();
    let mut open: Vec<(&Map<String, Value>, bool)> = vec![(arguments, true)];
    let mut seen = 0;
    while let Some((fields, is_top)) = open.pop() {
        for (name, value) in fields {
            seen += 1;
            if seen > MAX_VALUES || found.paths.len() + found.globs.len() + found.urls.len() > MAX_TARGETS {
                found.is_cut = true;
                return found;
            }
            let key = if name.len() > 64 { String::new() } else { plain(name) };
            let is = |keys: &[&str]| keys.contains(&&*key);
            let mut is_known = is(NEUTRAL_KEYS);
            if is_top && !value.is_null() {
                if is(COMMAND_KEYS) {
                    found.commands.push(value);
                }
                if is(ARGUMENT_KEYS) {
                    found.more.push(value);
                }
                if is(DIRECTORY_KEYS) {
                    found.directories.push(value);
                }
            }
            if is(ENVIRONMENT_KEYS) && !is_empty(value) {
                found.environment = true;
                found.doubt = found.doubt.or_else(|| Some(name.chars().take(64).collect()));
            }
            is_known |= is(COMMAND_KEYS) || is(ARGUMENT_KEYS) || is(ENVIRONMENT_KEYS) || is(CHANGE_KEYS);
            for (keys, list) in [
                (PATH_KEYS, &mut found.paths),
                (GLOB_KEYS, &mut found.globs),
                (URL_KEYS, &mut found.urls),
                (PATCH_KEYS, &mut found.patches),
            ] {
                if is(keys) {
                    is_known = true;
                    texts(value, list);
                }
            }
            if is(CHANGE_KEYS)
                && let Value::Object(files) = value
            {
                found.paths.extend(files.keys().map(|key| &**key));
                open.extend(files.values().filter_map(|file| file.as_object()).map(|file| (file, false)));
                continue;
            }
            if !is_known && !is_empty(value) && found.doubt.is_none() {
                found.doubt = Some(name.chars().take(64).collect());
            }
            let mut inner = vec![value];
            while let Some(value) = inner.pop() {
                match value {
                    Value::Object(fields) => open.push((fields, false)),
                    Value::Array(items) => inner.extend(items),
                    _ => {}
                }
            }
        }
    }
    found.is_cut |= found.paths.len() + found.globs.len() + found.urls.len() > MAX_TARGETS;
    found
}

/// The texts of a value and of its list.
fn texts<'a>(value: &'a Value, list: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => list.push(text),
        Value::Array(items) => list.extend(items.iter().take(MAX_TARGETS + 1).filter_map(Value::as_str)),
        _ => {}
    }
}

/// All texts of the arguments, up to a number of values, and whether there are more.
pub(crate) fn all_texts(arguments: &Map<String, Value>) -> (Vec<&str>, bool) {
    let mut found = Vec::new();
    let mut open: Vec<&Value> = arguments.values().collect();
    let mut seen = 0;
    while let Some(value) = open.pop() {
        seen += 1;
        if seen > MAX_VALUES {
            return (found, true);
        }
        match value {
            Value::String(text) => found.push(&**text),
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
    (found, false)
}
