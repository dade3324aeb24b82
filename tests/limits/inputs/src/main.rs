//! Gives a parser of foreign text one of its worst inputs: `worst-inputs PARSER TEXT BYTES`, with the number of the text. It
//! prints the largest memory that the parser had at a time, in bytes. Without arguments it prints the parsers and the numbers
//! of their texts. `worst.py` checks the memory, and counts the instructions.

#![allow(clippy::print_stdout, clippy::panic, clippy::unwrap_used, reason = "a program that fails loudly")]

mod allocations;
mod decisions;
mod policies;

use kimi_agent_protocol::worst::{PARSERS, Parser};

fn main() {
    let parsers: Vec<&Parser> = PARSERS.iter().chain(policies::PARSERS).chain([&decisions::DECISIONS]).collect();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, text, bytes] = &*arguments else {
        for parser in parsers {
            println!("{}\t{}", parser.name, parser.texts.len());
        }
        return;
    };
    let parser = parsers.iter().find(|parser| parser.name == name).unwrap();
    let text = parser.texts[text.parse::<usize>().unwrap()];
    // Tables are made once.
    (parser.read)(&text.of_size(100));
    let text = text.of_size(bytes.parse().unwrap());
    let peak = allocations::peak(|| (parser.read)(&text));
    println!("{peak}");
}
