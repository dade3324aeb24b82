//! Prints the schema of ACP's updates of a session as JSON; the tests generate messages from it.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use agent_client_protocol_schema::v1::SessionUpdate;

fn main() -> serde_json::Result<()> {
    println!("{}", serde_json::to_string(&schemars::schema_for!(SessionUpdate))?);
    Ok(())
}
