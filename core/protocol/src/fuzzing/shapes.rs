//! Fuzzing of the lines that differ from an earlier line only in their text.

use super::scenario::Spoken;
use crate::dialect::shape::{Piece, Shapes};
use crate::dialect::{Acp, Call, Dialect, Incoming};

/// The byte that picks ACP.
const ACP: u8 = u8::MAX;

/// Checks that each line that is read by its shape is the event of the general decoder.
pub(super) fn check(which: u8, lines: &[u8]) {
    let mut dialect: Box<dyn Dialect> = if which == ACP {
        let mut acp = Acp::open("s");
        acp.call("prompt-1", &Call::Prompt("hi".into())).expect("a prompt");
        Box::new(acp)
    } else {
        Spoken::all()[usize::from(which) % Spoken::all().len()].dialect()
    };
    let mut shapes = Shapes::default();
    for line in lines.split(|byte| *byte == b'\n') {
        if !dialect.is_text_stateless() {
            dialect.read_line(line);
            continue;
        }
        let read = shapes.read(line).map(Piece::into_event);
        match (dialect.read_line(line), read) {
            (Incoming::Event(event), Some(read)) => {
                assert_eq!(read, event);
                // Equality ignores what is not of the wire.
                assert_eq!(format!("{read:?}"), format!("{event:?}"));
            }
            (other, Some(read)) => panic!("{read:?}, not {other:?}"),
            (Incoming::Event(mut event), None) => shapes.learn(line, &mut event),
            _ => {}
        }
    }
}
