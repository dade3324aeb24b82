//! Framing: the first two bytes are the limit and the size of a piece, the rest is what is read.

use crate::jsonrpc::framing::{LineBuffer, LineTooLong};

/// The reference model of framing: lines up to the first that is too long, and the rest.
fn expected(text: &[u8], limit: usize) -> (Vec<Vec<u8>>, Result<Vec<u8>, usize>) {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        if end > limit {
            return (lines, Err(end));
        }
        lines.push(rest[..end].to_vec());
        rest = &rest[end + 1..];
    }
    if rest.len() > limit { (lines, Err(rest.len())) } else { (lines, Ok(rest.to_vec())) }
}

/// Feeds the text in pieces; what comes after a line that is too long is not asked for.
fn read(text: &[u8], limit: usize, piece: usize) -> (Vec<Vec<u8>>, Result<Vec<u8>, LineTooLong>) {
    let mut buffer = LineBuffer::new(limit);
    let mut lines = Vec::new();
    let mut fed = 0;
    let mut taken = 0;
    for bytes in text.chunks(piece) {
        buffer.extend(bytes);
        fed += bytes.len();
        loop {
            match buffer.next_line() {
                Ok(Some(line)) => {
                    let line = line.to_vec();
                    taken += line.len() + 1;
                    lines.push(line);
                }
                Ok(None) => break,
                Err(too_long) => return (lines, Err(too_long)),
            }
        }
        assert!(fed - taken <= limit, "{} bytes are kept, the limit is {limit}", fed - taken);
        assert_eq!(buffer.is_empty(), fed == taken);
        buffer.release();
    }
    buffer.end();
    let rest = buffer.next_line().ok().flatten().unwrap_or_default().to_vec();
    assert!(buffer.is_empty());
    (lines, Ok(rest))
}

pub(super) fn check(data: &[u8]) {
    let [limit, piece, text @ ..] = data else { return };
    let (limit, piece) = (usize::from(*limit), usize::from(*piece).max(1));
    let (lines, end) = expected(text, limit);
    for piece in [piece, 1, text.len().max(1)] {
        let (found, found_end) = read(text, limit, piece);
        assert_eq!(found, lines, "in pieces of {piece}");
        match (&found_end, &end) {
            (Ok(rest), Ok(expected)) => assert_eq!(rest, expected),
            // In pieces it is found out earlier how long a line is at least.
            (Err(too_long), Err(size)) => {
                assert_eq!(too_long.limit, limit);
                assert!(too_long.size > limit && too_long.size <= *size, "{too_long:?} of {size}");
            }
            _ => panic!("{found_end:?}, not {end:?}"),
        }
    }
}
