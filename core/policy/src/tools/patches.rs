//! The files that patches name.

use super::MAX_OPERANDS;

/// Lines of a patch that name a file.
const PATCH_LINES: &[&str] = &["*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: "];

/// The line of a patch that deletes a file.
const DELETED: &str = "*** Delete File: ";

/// The files that patches name with whether they are deleted, and whether there are more than are looked at, or some in quotes.
pub(super) fn patch_paths<'a>(patches: &[&'a str]) -> (Vec<(&'a str, bool)>, bool) {
    const RENAMES: &[&str] = &["rename from ", "rename to ", "copy from ", "copy to ", "Index: "];
    let mut found: Vec<(&str, bool)> = Vec::new();
    for line in patches.iter().flat_map(|patch| patch.lines()) {
        let line = line.trim_start();
        let is_deleted = line.starts_with(DELETED);
        if let Some(last) = found.last_mut().filter(|_| line.starts_with("deleted file") || line == "+++ /dev/null") {
            last.1 = true;
        }
        let path = PATCH_LINES.iter().find_map(|start| line.strip_prefix(start));
        let path = path.or_else(|| {
            let path = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ "))?;
            let path = path.split('\t').next().unwrap_or(path).trim_end();
            Some(path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path))
                .filter(|path| *path != "/dev/null")
        });
        let path = path.or_else(|| RENAMES.iter().find_map(|start| line.strip_prefix(start)));
        // A file of bytes, or an empty one, has no other line with its name.
        let path = path.or_else(|| line.strip_prefix("diff --git ").map(path_of_git));
        if path.is_some_and(|path| path.starts_with('"') || found.len() == MAX_OPERANDS) {
            return (found, true);
        }
        found.extend(path.map(|path| (path, is_deleted)));
    }
    (found, false)
}

/// The file in `a/file b/file`. If the names differ, further lines have them.
fn path_of_git(names: &str) -> &str {
    let (first, second) = names.split_at_checked(names.len() / 2).unwrap_or((names, ""));
    match (first.strip_prefix("a/"), second.strip_prefix(" b/")) {
        (Some(one), Some(other)) if one == other => one,
        _ => names.rsplit_once(" b/").map_or(names, |(_, path)| path),
    }
}
