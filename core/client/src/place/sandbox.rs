//! A sandbox of the operating system around the agent: bubblewrap on Linux, Seatbelt on macOS.
//!
//! Everything is read-only but what the options name, the agent's own directories and an empty directory for temporary files.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Checked, Place, from_home, own};
use crate::transport::launch::Launch;
use crate::{Result, private};

/// A place on this machine in which the agent, and all that it starts, can do less. [`Place::sandbox`] makes it.
///
/// Paths are the same inside and outside. A relative path is relative to the working directory; `~` is the home directory.
///
/// ```
/// use kimi_agent::Place;
/// let sandbox = Place::sandbox().write([".", "/srv/cache"]).hide(["~/.ssh", ".env"]).network(false);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    pub(super) write: Vec<PathBuf>,
    pub(super) read: Option<Vec<PathBuf>>,
    pub(super) network: bool,
    pub(super) hide: Vec<PathBuf>,
    /// The working directory that relative paths are relative to, once it is known. It can be read.
    pub(super) base: Option<PathBuf>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self { write: vec![".".into()], read: None, network: true, hide: vec!["~/.ssh".into()], base: None }
    }
}

/// Setters. A setter replaces the value.
impl Sandbox {
    /// Sets the files and directories that can be written. Default: the working directory. The agent's own directories can always be
    /// written.
    ///
    /// ```
    /// let reads_only = kimi_agent::Place::sandbox().write([] as [&str; 0]);
    /// ```
    #[must_use]
    pub fn write<P: Into<PathBuf>>(mut self, write: impl IntoIterator<Item = P>) -> Self {
        self.write = write.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the files and directories that can be read, in addition to those of the system, those that can be written and those of
    /// the agent's program. Default: everything that this user can read.
    ///
    /// ```
    /// let sandbox = kimi_agent::Place::sandbox().read(["/srv/docs"]);
    /// ```
    #[must_use]
    pub fn read<P: Into<PathBuf>>(mut self, read: impl IntoIterator<Item = P>) -> Self {
        self.read = Some(read.into_iter().map(Into::into).collect());
        self
    }

    /// Sets whether there is a network, the loopback interface of this machine included. Default: true.
    ///
    /// ```
    /// let sandbox = kimi_agent::Place::sandbox().network(false);
    /// ```
    #[must_use]
    pub fn network(mut self, network: bool) -> Self {
        self.network = network;
        self
    }

    /// Sets the files and directories whose content cannot be read. A path that does not exist is ignored. Default: `~/.ssh`.
    ///
    /// ```
    /// let sandbox = kimi_agent::Place::sandbox().hide(["~/.ssh", "~/.aws", ".env"]);
    /// ```
    #[must_use]
    pub fn hide<P: Into<PathBuf>>(mut self, hide: impl IntoIterator<Item = P>) -> Self {
        self.hide = hide.into_iter().map(Into::into).collect();
        self
    }

    pub(super) fn problem(&self) -> Option<String> {
        let lists = [("write", Some(&self.write)), ("read", self.read.as_ref()), ("hide", Some(&self.hide))];
        let is_wrong = |path: &PathBuf| path.as_os_str().is_empty() || path.as_os_str().as_encoded_bytes().contains(&0);
        let wrong = |(name, paths): &(&'static str, Option<&Vec<PathBuf>>)| {
            paths.is_some_and(|paths| paths.iter().any(is_wrong)).then_some(*name)
        };
        lists
            .iter()
            .find_map(wrong)
            .map(|name| format!("`{name}`: expected paths, got one that is empty or has a NUL byte"))
    }

    pub(super) fn settle(&mut self, base: &Path) -> Checked<()> {
        for path in self.write.iter_mut().chain(self.read.iter_mut().flatten()).chain(&mut self.hide) {
            *path = from_home(path, base)?;
        }
        for (name, paths) in [("write", Some(&self.write)), ("read", self.read.as_ref())] {
            if let Some(missing) = paths.into_iter().flatten().find(|path| !path.exists()) {
                return Err(format!("`{name}`: {} does not exist", missing.display()));
            }
            let access = if name == "write" { Access::Write } else { Access::Read };
            if let Some(problem) = paths.into_iter().flatten().find_map(|path| kept_problem(path, access)) {
                return Err(format!("`{name}`: {problem}"));
            }
        }
        if let Some(problem) = kept_problem(base, Access::Read) {
            return Err(format!("the working directory: {problem}"));
        }
        self.base = Some(base.to_owned());
        Ok(())
    }

    /// Returns whether the agent can read a directory that exists.
    pub(super) fn shows(&self, path: &Path) -> bool {
        let depth = |paths: &[PathBuf]| {
            paths.iter().filter(|known| path.starts_with(known)).map(|known| known.components().count()).max()
        };
        let is_temporary = temporary().iter().any(|temporary| path.starts_with(temporary));
        let everything = (self.read.is_none() && !is_temporary).then_some(0);
        let known = [&self.write[..], self.read.as_deref().unwrap_or_default(), self.base.as_slice()].map(depth);
        let known = known.into_iter().max().flatten().max(everything);
        known.is_some_and(|known| depth(&self.hide).is_none_or(|hidden| hidden < known))
    }

    pub(super) fn apply(&self, launch: Launch) -> Result<Launch> {
        let view = View::new(self, &launch);
        sys::wrap(launch, &view)
    }
}

impl From<Sandbox> for Place {
    fn from(sandbox: Sandbox) -> Self {
        Self::Sandbox(sandbox)
    }
}

/// How a path looks inside. Of two rules for a path, the later one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    /// An empty directory for temporary files.
    Temporary,
    Read,
    Write,
    Hide,
}

/// The files and directories of a sandbox.
#[derive(Debug)]
struct View {
    /// Only paths that exist, with links followed. A folder comes before what is in it.
    rules: BTreeSet<(usize, Access, PathBuf)>,
    /// Whether everything else can be read.
    reads_all: bool,
    network: bool,
}

impl View {
    fn new(sandbox: &Sandbox, launch: &Launch) -> Self {
        let real = |path: &Path| path.canonicalize().ok();
        let mut rules = BTreeSet::new();
        let mut add = |access: Access, path: &Path| {
            let is_refused = matches!(access, Access::Read | Access::Write) && kept_problem(path, access).is_some();
            if let Some(path) = real(path).filter(|_| !is_refused) {
                rules.insert((path.components().count(), access, path));
            }
        };
        let temporary = temporary();
        temporary.iter().for_each(|path| add(Access::Temporary, path));
        let own = own::of_agent(launch);
        for path in &own {
            // Files appear with the first login.
            if path.extension().is_none() && !path.exists() {
                drop(std::fs::create_dir_all(path));
            }
        }
        let write: Vec<PathBuf> = sandbox.write.iter().chain(&own).filter_map(|path| real(path)).collect();
        write.iter().for_each(|path| add(Access::Write, path));
        sandbox.read.iter().flatten().for_each(|path| add(Access::Read, path));
        for path in needed(launch).into_iter().chain(sandbox.base.clone()) {
            let Some(path) = real(&path) else { continue };
            let is_gone = sandbox.read.is_some() || temporary.iter().any(|temporary| path.starts_with(temporary));
            if is_gone && !write.iter().any(|write| path.starts_with(write)) {
                add(Access::Read, &path);
            }
        }
        sandbox.hide.iter().for_each(|path| add(Access::Hide, path));
        Self { rules, reads_all: sandbox.read.is_none(), network: sandbox.network }
    }
}

/// Returns why a path cannot have this access: the sandbox has a directory of its own there.
#[cfg(not(any(target_os = "linux", test)))]
fn kept_problem(_: &Path, _: Access) -> Option<String> {
    None
}

/// Returns why a path cannot have this access: the sandbox has a directory of its own there.
#[cfg(any(target_os = "linux", test))]
fn kept_problem(path: &Path, access: Access) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let kernel: &[&str] = if access == Access::Write { &["/proc", "/sys"] } else { &["/proc"] };
    let is_kept = kernel.iter().any(|kept| real.starts_with(kept)) || ["/dev", "/run"].map(Path::new).contains(&&*real);
    is_kept.then(|| {
        let (shown, wanted) = (path.display(), if access == Access::Write { "written" } else { "shared" });
        format!(
            "{shown} cannot be {wanted}, because the sandbox has its own /proc, /dev and /run, and a read-only /sys; \
             name single files or directories below /dev and /run that the agent needs"
        )
    })
}

/// Returns the files and directories without which the agent cannot start.
fn needed(launch: &Launch) -> Vec<PathBuf> {
    let mut needed = vec![launch.program.clone(), launch.current_dir.clone()];
    needed.extend(launch.private.dir().map(Path::to_owned));
    needed.extend(launch.args.iter().map(PathBuf::from).filter(|path| path.is_absolute()));
    let home = launch.inherited.var("HOME").map(PathBuf::from);
    let is_specific = |folder: &PathBuf| {
        folder.components().count() > 2 && home.as_ref().is_none_or(|home| !home.starts_with(folder))
    };
    let programs: Vec<PathBuf> = needed.iter().filter(|path| path.is_file()).cloned().collect();
    let spellings = programs.into_iter().flat_map(|program| [program.canonicalize().ok(), Some(program)]);
    needed.extend(spellings.flatten().filter_map(|program| libraries(&program)).filter(is_specific));
    needed
}

/// Returns the folder with a program and what it loads: its packages of Node, or the folder that has its `bin`, or its own.
fn libraries(program: &Path) -> Option<PathBuf> {
    let of_node = program.ancestors().filter(|folder| folder.ends_with("node_modules")).last();
    let folder = program.parent()?;
    let found = of_node.or_else(|| if folder.ends_with("bin") { folder.parent() } else { Some(folder) });
    found.map(Path::to_owned)
}

/// Returns the directories of temporary files of this machine.
fn temporary() -> Vec<PathBuf> {
    let all = [Path::new("/tmp"), &private::temp_dir()].map(|path| path.canonicalize().ok());
    all.into_iter().flatten().collect()
}

/// The system's directories, which are always readable.
#[cfg(any(target_os = "linux", test))]
const SYSTEM: [&str; 9] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix"];
/// What is needed of `/run`: names of hosts, and programs of NixOS. The rest has sockets of services, such as that of Docker.
#[cfg(any(target_os = "linux", test))]
const OF_RUN: [&str; 5] =
    ["/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/current-system", "/run/wrappers"];

/// The settings of the kernel. Their files belong to root, and can be written without privileges if this user is root. A program
/// that is named there runs outside of the sandbox.
#[cfg(any(target_os = "linux", test))]
const OF_KERNEL: [&str; 7] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/fs", "/proc/acpi", "/proc/scsi", "/proc/driver", "/proc/mtrr"];

/// Returns the arguments of bubblewrap before the agent's command line.
#[cfg(any(target_os = "linux", test))]
fn bubblewrap(view: &View) -> Vec<OsString> {
    let mut args: Vec<OsString> = [
        "--die-with-parent",
        "--new-session",
        "--unshare-user-try",
        "--unshare-pid",
        "--unshare-ipc",
        "--cap-drop",
        "ALL",
    ]
    .map(Into::into)
    .into();
    if !view.network {
        args.push("--unshare-net".into());
    }
    let mut add = |words: &[&std::ffi::OsStr]| args.extend(words.iter().map(Into::into));
    // The sandbox mounts directories of its own over it.
    let root = Path::new("/");
    let of_root = |wanted| view.rules.iter().any(|(_, access, path)| path == root && *access == wanted);
    let writes_root = of_root(Access::Write);
    if writes_root {
        add(&["--bind".as_ref(), "/".as_ref(), "/".as_ref()]);
    } else if view.reads_all || of_root(Access::Read) {
        add(&["--ro-bind".as_ref(), "/".as_ref(), "/".as_ref()]);
    } else {
        for path in SYSTEM {
            match std::fs::read_link(path) {
                Ok(target) => add(&["--symlink".as_ref(), target.as_ref(), path.as_ref()]),
                Err(_) => add(&["--ro-bind-try".as_ref(), path.as_ref(), path.as_ref()]),
            }
        }
    }
    add(&["--dev".as_ref(), "/dev".as_ref(), "--proc".as_ref(), "/proc".as_ref(), "--tmpfs".as_ref(), "/run".as_ref()]);
    for path in OF_KERNEL.into_iter().chain(OF_RUN) {
        add(&["--ro-bind-try".as_ref(), path.as_ref(), path.as_ref()]);
    }
    if writes_root {
        add(&["--ro-bind-try".as_ref(), "/sys".as_ref(), "/sys".as_ref()]);
    }
    let mut hidden = Vec::new();
    for (_, access, path) in &view.rules {
        let path = path.as_os_str();
        match access {
            Access::Read | Access::Write if path == root => {}
            Access::Temporary => add(&["--tmpfs".as_ref(), path]),
            Access::Read => add(&["--ro-bind".as_ref(), path, path]),
            Access::Write => add(&["--bind".as_ref(), path, path]),
            Access::Hide if Path::new(path).is_dir() => {
                add(&["--tmpfs".as_ref(), path]);
                hidden.push(path);
            }
            Access::Hide => add(&["--ro-bind".as_ref(), "/dev/null".as_ref(), path]),
        }
    }
    // At the end, because the mounts below need their directories.
    hidden.into_iter().for_each(|path| add(&["--remount-ro".as_ref(), path]));
    add(&["--".as_ref()]);
    args
}

/// Returns the profile of Seatbelt. Of several rules for a path, the last one counts.
#[cfg(any(target_os = "macos", test))]
fn seatbelt(view: &View) -> String {
    let mut profile = String::from("(version 1)\n(allow default)\n(deny file-write*)\n");
    let devices =
        ["/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper"].map(|path| format!("(literal \"{path}\")"));
    profile += &format!("(allow file-write* {} (subpath \"/dev/fd\"))\n", devices.join(" "));
    if !view.reads_all {
        let system =
            ["/usr", "/bin", "/sbin", "/System", "/Library", "/private/etc", "/private/var/db", "/dev", "/opt"];
        let system = system.map(|path| format!("(subpath \"{path}\")"));
        profile += &format!("(deny file-read-data)\n(allow file-read* (literal \"/\") {})\n", system.join(" "));
    }
    for (_, access, path) in &view.rules {
        let path = format!("(subpath {})", quoted(path));
        profile += &match access {
            Access::Temporary | Access::Write => format!("(allow file-read* file-write* {path})\n"),
            Access::Read => format!("(allow file-read* {path})\n(deny file-write* {path})\n"),
            Access::Hide => format!("(deny file-read* file-write* {path})\n"),
        };
    }
    if !view.network {
        profile += "(deny network*)\n";
    }
    profile
}

#[cfg(any(target_os = "macos", test))]
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(target_os = "linux")]
mod sys {
    use super::super::{find_program, put_before};
    use super::{Launch, Result, View, bubblewrap};

    pub(super) fn wrap(launch: Launch, view: &View) -> Result<Launch> {
        let install = "; install bubblewrap, for example with `apt-get install bubblewrap` or `dnf install bubblewrap`";
        let program = find_program("bwrap".as_ref(), &launch, install)?;
        Ok(put_before(launch, program, bubblewrap(view)))
    }
}

#[cfg(target_os = "macos")]
mod sys {
    use super::super::put_before;
    use super::{Launch, Result, View, seatbelt};

    pub(super) fn wrap(launch: Launch, view: &View) -> Result<Launch> {
        Ok(put_before(launch, "/usr/bin/sandbox-exec".into(), ["-p".into(), seatbelt(view).into()]))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod sys {
    use super::{Launch, Result, View};
    use crate::Error;

    pub(super) fn wrap(_: Launch, _: &View) -> Result<Launch> {
        Err(Error::Unsupported(
            "there is no sandbox for agents on this system, only on Linux and macOS; use a container, or leave `place` out".to_owned(),
        ))
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;

    use super::*;
    use crate::options::{InheritEnv, Inherited};

    fn launch(program: &Path, current_dir: &Path) -> Launch {
        Launch {
            program: program.to_owned(),
            args: Vec::new(),
            env: vec![("HOME".into(), current_dir.join("home").into())],
            inherited: Inherited { rule: InheritEnv::Needed, removed: Vec::new() },
            current_dir: current_dir.to_owned(),
            private: Default::default(),
            server: None,
            is_gateway: false,
            placed: Default::default(),
        }
    }

    /// A directory with links followed, outside of the directory of temporary files.
    fn folder() -> tempfile::TempDir {
        tempfile::tempdir_in(Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap()).unwrap()
    }

    fn settled(mut sandbox: Sandbox, base: &Path) -> Sandbox {
        sandbox.settle(base).unwrap();
        sandbox
    }

    fn view(sandbox: Sandbox, base: &Path) -> View {
        View::new(&settled(sandbox, base), &launch(Path::new("/bin/sh"), base))
    }

    fn joined(view: &View) -> String {
        let words: Vec<_> = bubblewrap(view).iter().map(|word| word.to_str().unwrap().to_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn everything_is_read_only_but_what_is_named() {
        let dir = folder();
        let dir = dir.path();
        fs::create_dir_all(dir.join("home/.ssh")).unwrap();
        fs::write(dir.join(".env"), "").unwrap();
        let shown = dir.display();
        let hide = [dir.join("home/.ssh"), ".env".into(), "none".into()];
        let args = joined(&view(Sandbox::default().hide(hide), dir));
        assert!(args.starts_with("--die-with-parent --new-session --unshare-user-try --unshare-pid "), "{args}");
        assert!(args.contains("--cap-drop ALL --ro-bind / / --dev /dev --proc /proc --tmpfs /run "), "{args}");
        assert!(args.contains(" --ro-bind-try /proc/sys /proc/sys "), "{args}");
        let rules = format!(
            "--bind {shown} {shown} --ro-bind /dev/null {shown}/.env --tmpfs {shown}/home/.ssh --remount-ro {shown}/home/.ssh --"
        );
        assert!(args.ends_with(&rules), "{args}");
        assert!(!args.contains("--unshare-net") && !args.contains("none"), "{args}");
        assert!(joined(&view(Sandbox::default().network(false), dir)).contains(" --unshare-net "));
        let reads_only = joined(&view(Sandbox::default().write([] as [&str; 0]), dir));
        assert!(!reads_only.contains(" --bind "), "{reads_only}");
    }

    #[test]
    fn folder_comes_before_what_is_in_it() {
        let dir = folder();
        let dir = dir.path();
        fs::create_dir_all(dir.join("home/project/secret")).unwrap();
        let sandbox = Sandbox::default().write(["home/project"]).hide(["home", "home/project/secret"]);
        let args = joined(&view(sandbox, dir));
        let at = |text: String| args.find(&text).unwrap_or_else(|| panic!("{text}: {args}"));
        let home = at(format!("--tmpfs {} ", dir.join("home").display()));
        let project = at(format!("--bind {0} {0}", dir.join("home/project").display()));
        let secret = at(format!("--tmpfs {} ", dir.join("home/project/secret").display()));
        assert!(home < project && project < secret);
        // A read-only directory could not get the directory of the project.
        assert!(secret < at(format!("--remount-ro {} ", dir.join("home").display())));
    }

    #[test]
    fn order_of_mounts_with_root() {
        let dir = folder();
        let own = "--dev /dev --proc /proc --tmpfs /run --ro-bind-try /proc/sys /proc/sys ";
        for (sandbox, bind) in [
            (Sandbox::default().write(["/"]), "--bind"),
            (Sandbox::default().write(["/"]).read(["/"]), "--bind"),
            (Sandbox::default().read(["/"]), "--ro-bind"),
        ] {
            let args = joined(&view(sandbox, dir.path()));
            assert!(args.contains(&format!("--cap-drop ALL {bind} / / {own}")), "{args}");
            assert_eq!(args.matches(" / / ").count(), 1, "{args}");
            assert_eq!(args.contains(" --ro-bind-try /sys /sys "), bind == "--bind", "{args}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn directories_of_the_sandbox_are_refused() {
        let dir = folder();
        std::os::unix::fs::symlink("/proc/sys", dir.path().join("link")).unwrap();
        let error = |sandbox: Sandbox, base: &Path| {
            let mut sandbox = sandbox;
            sandbox.settle(base).err()
        };
        for path in ["/proc", "/proc/sys/kernel", "/sys", "/dev", "/run", "link"] {
            let error = error(Sandbox::default().write([path]), dir.path()).expect(path);
            assert!(error.starts_with("`write`: ") && error.contains("cannot be written"), "{error}");
        }
        for path in ["/proc", "/proc/self", "/dev", "/run", "link"] {
            let error = error(Sandbox::default().read([path]), dir.path()).expect(path);
            assert!(error.starts_with("`read`: ") && error.contains("cannot be shared"), "{error}");
        }
        let of_base = error(Sandbox::default().write([] as [&str; 0]), Path::new("/proc/self")).unwrap();
        assert!(of_base.starts_with("the working directory: /proc/self cannot"), "{of_base}");
        assert!(error(Sandbox::default().write(["/dev/null"]).read(["/sys"]), dir.path()).is_none());
        // An argument of the agent is no permission.
        let mut launch = launch(Path::new("/bin/sh"), dir.path());
        launch.args = vec!["/proc".into(), "/run".into()];
        let view = View::new(&settled(Sandbox::default().read([dir.path()]), dir.path()), &launch);
        assert!(!joined(&view).contains(" --ro-bind /proc ") && !joined(&view).contains(" --ro-bind /run "));
    }

    #[test]
    fn only_named_files_are_read() {
        let dir = folder();
        let dir = dir.path();
        fs::create_dir_all(dir.join("docs")).unwrap();
        let args = joined(&view(Sandbox::default().write([] as [&str; 0]).read(["docs"]), dir));
        assert!(
            !args.contains("--ro-bind / /") && args.contains(" /usr ") && args.contains(" --tmpfs /tmp "),
            "{args}"
        );
        assert!(args.contains(&format!("--ro-bind {0} {0}", dir.join("docs").display())), "{args}");
    }

    #[test]
    fn directories_of_the_agent_stay_writable() {
        let dir = folder();
        let dir = dir.path();
        let agent = dir.join("kimi");
        fs::write(&agent, "").unwrap();
        let view = View::new(&settled(Sandbox::default().write([] as [&str; 0]), dir), &launch(&agent, dir));
        let own = dir.join("home/.kimi-code");
        assert!(own.is_dir(), "it is made, because the agent could not");
        assert!(joined(&view).contains(&format!("--bind {0} {0}", own.display())));
    }

    #[test]
    fn profile_of_seatbelt_has_the_same_rules() {
        let dir = folder();
        let dir = dir.path();
        fs::create_dir(dir.join("a \"b\"")).unwrap();
        let profile = seatbelt(&view(Sandbox::default().hide(["a \"b\""]).network(false), dir));
        assert!(profile.starts_with("(version 1)\n(allow default)\n(deny file-write*)\n"), "{profile}");
        let written = format!("(allow file-read* file-write* (subpath \"{}\"))\n", dir.display());
        let hidden = format!("(deny file-read* file-write* (subpath \"{}/a \\\"b\\\"\"))\n", dir.display());
        assert!(profile.find(&written) < profile.find(&hidden) && profile.contains(&hidden), "{profile}");
        assert!(profile.ends_with("(deny network*)\n"), "{profile}");
        let some = seatbelt(&view(Sandbox::default().read(["."]), dir));
        assert!(some.contains("(deny file-read-data)\n"), "{some}");
    }

    #[test]
    fn shown_directories_are_those_that_can_be_read() {
        let dir = folder();
        let dir = dir.path();
        fs::create_dir_all(dir.join("a/b")).unwrap();
        let shows = |sandbox: Sandbox, path: &str| settled(sandbox, &dir.join("a")).shows(&dir.join(path));
        assert!(shows(Sandbox::default(), "a/b") && shows(Sandbox::default(), "c"));
        let hides = || Sandbox::default().hide([dir.to_owned()]);
        assert!(shows(hides(), "a/b") && !shows(hides(), "c"));
        let some = || Sandbox::default().read([] as [&str; 0]);
        assert!(shows(some(), "a") && !shows(some(), "c"));
        assert!(!settled(Sandbox::default(), dir).shows(Path::new("/tmp/other")));
    }

    #[test]
    fn missing_paths_are_refused() {
        let error = Sandbox::default().write(["no-such"]).settle(Path::new("/")).unwrap_err();
        assert_eq!(error, "`write`: /no-such does not exist");
        assert!(Sandbox::default().hide(["no-such"]).settle(Path::new("/")).is_ok());
        assert!(Sandbox::default().hide([""]).problem().is_some());
    }
}
