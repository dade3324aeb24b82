//! Notices that the program has closed the descriptors of the runtime, for example to become a daemon.

/// Begins to watch. The runtime exists.
#[cfg(unix)]
pub(crate) fn begin() {
    unix::WITNESS.get_or_init(|| {
        let shown = std::panic::take_hook();
        // The runtime's thread panics when it finds its descriptors closed. Calls raise an error about that.
        std::panic::set_hook(Box::new(move |panic| {
            if is_intact() {
                shown(panic);
            } else if std::thread::current().name() == Some("kimi-agent") {
                // Its end would close descriptors that other files may have now.
                loop {
                    std::thread::park();
                }
            }
        }));
        unix::Witness::new()
    });
}

/// Returns whether the descriptors are open.
#[cfg(unix)]
pub(crate) fn is_intact() -> bool {
    unix::WITNESS.get().is_none_or(|witness| witness.as_ref().is_none_or(unix::Witness::is_intact))
}

#[cfg(not(unix))]
pub(crate) fn begin() {}

#[cfg(not(unix))]
pub(crate) fn is_intact() -> bool {
    true
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::OnceLock;

    /// `None` if no descriptor was left.
    pub(super) static WITNESS: OnceLock<Option<Witness>> = OnceLock::new();

    /// A pipe that is not used. Each pipe has a number of its own, so that another file with its descriptor is noticed.
    pub(super) struct Witness {
        pipe: File,
        identity: (u64, u64),
    }

    impl Witness {
        pub(super) fn new() -> Option<Self> {
            let pipe = File::from(OwnedFd::from(std::io::pipe().ok()?.0));
            let identity = identity(&pipe)?;
            Some(Self { pipe, identity })
        }

        pub(super) fn is_intact(&self) -> bool {
            identity(&self.pipe) == Some(self.identity)
        }
    }

    fn identity(pipe: &File) -> Option<(u64, u64)> {
        pipe.metadata().ok().map(|data| (data.dev(), data.ino()))
    }
}
