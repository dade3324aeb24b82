//! Where the watcher has not been made for: what an agent has started itself outlives a host that is killed.

pub(super) enum Place {}

pub(super) fn place() -> Option<Place> {
    None
}

impl Place {
    pub(super) fn enter(&self) {
        match *self {}
    }

    pub(super) fn leave(&self) {
        match *self {}
    }
}
