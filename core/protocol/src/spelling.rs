//! Finds similar names, for suggestions in errors.

/// Returns the name that may have been meant: the one with the most similar spelling, from pairs of a spelling and its
/// name.
pub fn nearest<'a>(given: &str, spellings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<&'a str> {
    let plain = |name: &str| name.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>().to_lowercase();
    let wanted = plain(given);
    let spellings = spellings.into_iter().map(|(spelling, name)| (distance(&wanted, &plain(spelling)), name));
    let (distance, name) = spellings.min()?;
    // Up to two wrong letters of five are accepted.
    (distance * 5 <= wanted.len() * 2).then_some(name)
}

/// Returns the number of letters to insert, delete or replace to turn one text into the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
