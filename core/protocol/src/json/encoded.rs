//! The size of a text as JSON. A control character takes six bytes.

/// Returns the length of a string as JSON, in bytes, without its quotes.
///
/// ```
/// use kimi_agent_protocol::json::encoded_size;
/// assert_eq!(encoded_size(b"a\n\0"), 1 + 2 + 6);
/// ```
pub fn encoded_size(text: &[u8]) -> usize {
    text.iter().map(|byte| usize::from(SIZES[usize::from(*byte)])).sum()
}

/// Returns the start of the longest end of a string that takes at most `max` bytes as JSON.
pub(crate) fn start_of_encoded_end(text: &[u8], max: usize) -> usize {
    let (mut start, mut size) = (text.len(), 0);
    while start > 0 {
        size += usize::from(SIZES[usize::from(text[start - 1])]);
        if size > max {
            break;
        }
        start -= 1;
    }
    start
}

/// The number of bytes that each byte takes as JSON, as serde writes it.
const SIZES: [u8; 256] = {
    let mut sizes = [1; 256];
    let mut byte = 0;
    while byte < 0x20 {
        sizes[byte] = 6;
        byte += 1;
    }
    let short = [b'"', b'\\', b'\n', b'\r', b'\t', 0x08, 0x0c];
    let mut place = 0;
    while place < short.len() {
        sizes[short[place] as usize] = 2;
        place += 1;
    }
    sizes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_size_is_that_of_serde() {
        for text in (0..=0x80).filter_map(char::from_u32).chain(['ä', '\u{2028}', '\u{1F980}']).map(String::from) {
            let encoded = serde_json::to_string(&text).unwrap();
            assert_eq!(encoded_size(text.as_bytes()), encoded.len() - 2, "{text:?}");
        }
    }

    #[test]
    fn end_of_text_has_encoded_limit() {
        for (text, max, start) in
            [("abc", 3, 0), ("abc", 2, 1), ("a\0b", 6, 2), ("a\0b", 7, 1), ("\n", 1, 1), ("", 0, 0)]
        {
            assert_eq!(start_of_encoded_end(text.as_bytes(), max), start, "{text:?} {max}");
        }
    }
}
