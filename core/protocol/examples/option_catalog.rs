//! Prints the declarations of all options as JSON; the Python and TypeScript types and docs/options.md are generated from them.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

fn main() -> serde_json::Result<()> {
    println!("{}", serde_json::to_string_pretty(&kimi_agent_protocol::options::catalog())?);
    Ok(())
}
