//! The file that a policy was read from: no call may change the rules.

use std::path::Path;

use serde_json::{Map, json};

use crate::kinds::Kind;
use crate::tools::{Part, Target};
use crate::{Call, Decision, Policy};

impl Policy {
    /// The warning if the rules allow edits of the file that they come from, which is in the current directory.
    pub(crate) fn warning_about_file(&self, name: &str) -> Option<String> {
        let file = self.file.as_ref()?;
        let current = std::env::current_dir().ok().filter(|current| file.starts_with(current))?;
        let arguments = Map::from_iter([("path".to_owned(), json!(file))]);
        let call = Call { name: "WriteFile", arguments: Some(&arguments), ..Call::default() };
        let mut left = usize::MAX;
        let allows = self.deciding(call, &current, &mut left).1 == Decision::Allow;
        allows.then(|| {
            format!(
                "{name}: the rules allow edits of this file; such edits are denied, because they would change the rules"
            )
        })
    }

    /// The part that surely changes the file that the policy was read from.
    pub(crate) fn change_of_file<'c>(&self, parts: &'c [Part]) -> Option<&'c Part> {
        let file = self.file.as_ref()?;
        let known = file.canonicalize().ok();
        let is_file = |place: &Path| place == file || known.as_deref() == Some(place);
        let is_around =
            |place: &Path| [Some(file), known.as_ref()].into_iter().flatten().any(|file| file.starts_with(place));
        parts.iter().filter(|part| !part.vague).find(|part| match (&part.target, part.kind) {
            (Target::Path(path), Some(Kind::Edit)) => path.places().any(is_file),
            (Target::Path(path), Some(Kind::Delete | Kind::Move)) => path.places().any(is_around),
            _ => false,
        })
    }
}
