//! Empty: this crate is its Cargo.toml.
