//! The redactor for the directories of this machine.

use std::path::Path;

use kimi_agent_files::spellings;
use kimi_agent_protocol::recording::{Place, Places, Redactor};

/// Returns the redactor that replaces these directories by placeholders.
pub(super) fn redactor(places: &Places) -> Redactor {
    let spelled = |(name, path): &(&'static str, String)| {
        let name = *name;
        spellings(Path::new(path)).into_iter().map(move |path| Place { name, path })
    };
    Redactor::of_places(&places.paths().iter().flat_map(spelled).collect::<Vec<_>>())
}
