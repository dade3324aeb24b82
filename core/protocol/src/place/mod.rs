//! The paths of an agent that runs in another place than the program, such as a container. No I/O.
//!
//! - `paths`: the map between the program's paths and the agent's
//! - `lines`: the paths in messages

mod lines;
mod paths;

pub use paths::{FOREIGN, PathMap, Resolved, file_url, normalized, percent_decoded};
