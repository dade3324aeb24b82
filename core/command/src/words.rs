//! Command lines as one text: the words of `--executable "node agent.js --acp"`.

/// Takes a command line apart. Quotes keep words together; outside of Windows a backslash keeps the next character.
///
/// # Errors
/// The text is why the line has no words.
pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(letter) = rest.next() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            ('\\', None | Some('"')) if !cfg!(windows) => {
                let kept = rest.next().ok_or("it ends with a backslash")?;
                word.get_or_insert_default().push(kept);
            }
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    if words.is_empty() { Err("it is empty".to_owned()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_becomes_words() {
        assert_eq!(split("kimi").unwrap(), ["kimi"]);
        assert_eq!(
            split(r#" node 'my agent.js'  --name "a 'b'" "" "#).unwrap(),
            ["node", "my agent.js", "--name", "a 'b'", ""]
        );
        assert_eq!(split("a\"b c\"d").unwrap(), ["ab cd"]);
    }

    #[cfg(not(windows))]
    #[test]
    fn backslash_keeps_next_character() {
        assert_eq!(split(r#"my\ agent "a\"b" 'c\d'"#).unwrap(), ["my agent", "a\"b", r"c\d"]);
    }

    #[cfg(windows)]
    #[test]
    fn backslash_is_part_of_path() {
        assert_eq!(split(r"C:\agents\kimi.exe acp").unwrap(), [r"C:\agents\kimi.exe", "acp"]);
    }

    #[test]
    fn incomplete_line_is_refused() {
        for line in ["", "  ", "\"kimi", "kimi 'a"] {
            assert!(split(line).is_err(), "{line:?}");
        }
    }
}
