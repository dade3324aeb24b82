//! Prints the catalogue of Wire's messages as JSON; the Python and TypeScript types are generated from it.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

fn main() -> serde_json::Result<()> {
    println!("{}", serde_json::to_string_pretty(&kimi_agent_protocol::messages::catalog::catalog())?);
    Ok(())
}
