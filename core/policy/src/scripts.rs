//! Scripts in words of commands: whether they run programs, write files or name files.

use crate::command::Word;

/// The scripts of sed that options name, and the words that they are in.
pub(crate) fn sed_scripts(words: &[Word]) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 1;
    while let Some(text) = words.get(at).map(Word::text) {
        let value = match text.strip_prefix("--") {
            Some(long) => {
                let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                (!name.is_empty() && "expression".starts_with(name)).then_some(value)
            }
            // Behind other short options, which can have a value of their own, any `e` may begin a script.
            None if text.starts_with('-') => {
                text.split_once('e').map(|(_, value)| Some(value).filter(|value| !value.is_empty()))
            }
            None => None,
        };
        match value {
            Some(Some(value)) => found.push((at, value)),
            Some(None) => {
                at += 1;
                found.extend(words.get(at).map(|word| (at, word.text())));
            }
            None => {}
        }
        at += 1;
    }
    found
}

/// The places of the words of sed that are or have its scripts, if its table finds nothing but plain ones: they name no file.
pub(crate) fn plain_sed_words(words: &[Word]) -> Vec<usize> {
    let named: Vec<usize> = sed_scripts(words).into_iter().map(|(at, _)| at).collect();
    if !named.is_empty() {
        return named;
    }
    (1..words.len()).find(|at| !words[*at].text().starts_with('-')).into_iter().collect()
}

/// Whether a script of sed only prints, deletes or replaces: one command, or several with numbers of lines, without files and
/// programs.
pub(crate) fn is_plain_sed(script: &str) -> bool {
    let is_print = |command: &str| matches!(command.trim_start_matches('!'), "p" | "d" | "q" | "=");
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '$' | ',');
    if script.contains(['\n', '\\', '{', '}']) {
        return false;
    }
    if script.contains(';') {
        return script.split(';').all(|command| is_print(command.trim().trim_start_matches(is_number)));
    }
    let command = script.trim_start_matches(is_number);
    let command = match command.strip_prefix('/') {
        Some(rest) => rest.split_once('/').map_or("?", |(_, command)| command),
        None => command,
    };
    match command.strip_prefix('s') {
        Some(rest) => {
            let Some(delimiter) = rest.chars().next().filter(char::is_ascii_punctuation) else { return false };
            let parts: Vec<&str> = rest.split(delimiter).collect();
            parts.len() == 4 && parts[3].chars().all(|flag| flag.is_ascii_digit() || "gpiI".contains(flag))
        }
        None => is_print(command),
    }
}

/// Whether a script of awk runs nothing and writes nothing.
pub(crate) fn is_plain_awk(script: &str) -> bool {
    !script.contains(['|', '>', '@', '<'])
        && !["system", "getline", "close", "fflush", "ARGV", "ARGC", "ENVIRON", "PROCINFO"]
            .iter()
            .any(|word| script.contains(word))
}

/// Whether a script of jq names no file: it has no `import` and no `include` with a text.
pub(crate) fn is_plain_jq(script: &str) -> bool {
    !(script.contains('"') && ["import", "include"].iter().any(|word| script.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_script_of_sed_only_prints() {
        for script in ["1,20p", "$p", "5q", "/def /p", "1,5p;9p", "1,5p; $!d", "10q;d", "s/a/b/g", "="] {
            assert!(is_plain_sed(script), "{script}");
        }
        for script in
            ["w x", "1,5p;w x", "r x", "1e", "e id", "s/a/b/w x", "s/a/b/e", "1,5p;s/a/b/", "/a/p;q", "{p}", "i x", ""]
        {
            assert!(!is_plain_sed(script), "{script}");
        }
    }

    #[test]
    fn import_of_jq_is_found() {
        for script in ["import \"a\" as $a; .", "include#\n\"a\"; .", "import\"sec\\u0072et\" as $d; $d"] {
            assert!(!is_plain_jq(script), "{script}");
        }
        assert!(is_plain_jq(".include") && is_plain_jq(".\"a\"") && is_plain_jq("include/a.json"));
    }
}
