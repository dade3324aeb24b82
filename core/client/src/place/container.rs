//! A container of Docker or Podman: a fresh one for each agent, or one that runs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use kimi_agent_protocol::place::PathMap;

use super::{Checked, Place, find_client, from_home};
use crate::error::AgentExit;
use crate::options::Inherited;
use crate::transport::launch::{Launch, Placed};
use crate::{Error, Result};

/// Removes a container: `SCRIPT NAME RUNTIME CONTAINER`. It prints the container if it cannot be removed. A daemon may still be
/// making the container for a client that was killed, so the script then looks again.
const REMOVE: &str = r#"
trap '' HUP INT TERM
read -r line
is_there() { "$1" container inspect "$2" </dev/null >/dev/null 2>&1; }
remove() {
    is_there "$@" || return 0
    "$1" kill "$2" </dev/null >/dev/null 2>&1
    "$1" rm -f "$2" </dev/null >/dev/null 2>&1
    ! is_there "$@"
}
remove "$@" || { sleep 1; remove "$@"; } || echo "container $2"
exec >/dev/null
[ "$line" = ended ] && exit
for round in 1 2 3; do sleep 1; remove "$@"; done
"#;

/// Ends the processes with a mark in a running container: `SCRIPT NAME COMMAND…`, with the command that runs [`SWEEP`] there.
const END: &str = r#"
trap '' HUP INT TERM
read -r line
"$@" </dev/null 2>/dev/null
exec >/dev/null
[ "$line" = ended ] && exit
for round in 1 2 3; do sleep 1; "$@" </dev/null 2>/dev/null; done
"#;

/// Ends the processes in whose environment the mark is: TERM, and a second later KILL. It prints the mark if some are left.
const SWEEP: &str = r#"
exec 2>/dev/null
signal=TERM
for round in 1 2 3 4 5; do
    found=
    for folder in /proc/[0-9]*; do
        case $(cat "$folder/environ") in *"$1"*) found=yes; kill -$signal "${folder#/proc/}" ;; esac
    done
    [ "$found" ] || exit 0
    signal=KILL
    sleep 1
done
echo "processes with KIMI_AGENT_PLACE=$1"
"#;

/// The variables that the client of the runtime reads itself. The values of others are not in its command line.
const OF_CLIENT: [&str; 20] = [
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "DOCKER_API_VERSION",
    "CONTAINER_HOST",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "REGISTRY_AUTH_FILE",
    "STORAGE_DRIVER",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "SSH_AUTH_SOCK",
];

/// A place in a container. [`Place::container`] and [`Place::running_container`] make it.
///
/// The agent's variables are those of the image and of `env`.
///
/// ```
/// use kimi_agent::Place;
/// let container = Place::container("agents:1").mount(".", "/work").user("1000:1000").network(false);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub(super) image: Option<String>,
    pub(super) name: Option<String>,
    /// `None`: the working directory as `/work`.
    pub(super) mount: Option<Vec<(PathBuf, String)>>,
    pub(super) user: Option<String>,
    pub(super) network: bool,
    pub(super) runtime: OsString,
    pub(super) args: Vec<OsString>,
}

impl Default for Container {
    fn default() -> Self {
        Self {
            image: None,
            name: None,
            mount: None,
            user: None,
            network: true,
            runtime: "docker".into(),
            args: Vec::new(),
        }
    }
}

/// Setters. A setter replaces the value, but `mount` adds.
impl Container {
    /// Mounts a file or directory of this machine. A relative one is relative to the working directory, and `~` is the home
    /// directory. `:ro` at the end of the path in the container makes it read-only. In a running container it says which mounts
    /// there are. Default: the working directory as `/work`.
    ///
    /// ```
    /// let container = kimi_agent::Place::container("node:22").mount(".", "/work").mount("/opt/kimi", "/opt/kimi:ro");
    /// ```
    #[must_use]
    pub fn mount(mut self, path: impl Into<PathBuf>, inside: impl Into<String>) -> Self {
        self.mount.get_or_insert_default().push((path.into(), inside.into()));
        self
    }

    /// Sets the user in the container, such as `1000:1000`. Default: the image's.
    ///
    /// ```
    /// let container = kimi_agent::Place::container("node:22").user("node");
    /// ```
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets whether a fresh container has a network. Default: true.
    ///
    /// ```
    /// let container = kimi_agent::Place::container("node:22").network(false);
    /// ```
    #[must_use]
    pub fn network(mut self, network: bool) -> Self {
        self.network = network;
        self
    }

    /// Sets the program of the runtime: `docker`, `podman`, or the path of one. Default: `docker`.
    ///
    /// ```
    /// let container = kimi_agent::Place::container("node:22").runtime("podman");
    /// ```
    #[must_use]
    pub fn runtime(mut self, runtime: impl Into<OsString>) -> Self {
        self.runtime = runtime.into();
        self
    }

    /// Sets further arguments of `run`, or of `exec` in a running container.
    ///
    /// ```
    /// let container = kimi_agent::Place::container("node:22").args(["--memory", "2g", "--cap-drop", "ALL"]);
    /// ```
    #[must_use]
    pub fn args<W: Into<OsString>>(mut self, args: impl IntoIterator<Item = W>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    pub(super) fn problem(&self) -> Option<String> {
        let (setting, subject) = match (&self.image, &self.name) {
            (Some(image), None) => ("image", image),
            (None, Some(name)) => ("name", name),
            _ => return Some("expected either `image`, for a fresh container, or `name`, of a running one".to_owned()),
        };
        let is_wrong = |text: &str| text.is_empty() || text.starts_with('-') || text.contains(['\0', '\n']);
        if is_wrong(subject) {
            return Some(format!("`{setting}`: expected its name, got {subject:?}"));
        }
        if let Some(user) = self.user.as_ref().filter(|user| is_wrong(user)) {
            return Some(format!("`user`: expected a user, such as \"1000:1000\", got {user:?}"));
        }
        if self.name.is_some() && !self.network {
            return Some("`network`: a running container keeps the network that it has; leave it out".to_owned());
        }
        if self.runtime.is_empty() {
            return Some("`runtime`: expected a program, such as \"podman\", got none".to_owned());
        }
        let has_nul = |word: &OsString| word.as_encoded_bytes().contains(&0);
        let has_nul = has_nul(&self.runtime) || self.args.iter().any(has_nul);
        has_nul.then(|| "`args`: a word contains a NUL byte".to_owned())
    }

    pub(super) fn settle(&mut self, base: &Path) -> Checked<()> {
        for (path, _) in self.mount.get_or_insert_with(|| vec![(".".into(), "/work".to_owned())]) {
            *path = from_home(path, base).map_err(|problem| format!("`mount`: {problem}"))?;
        }
        Ok(())
    }

    /// The mounts: the path of this machine, the path in the container, and whether it is read-only.
    fn mounts(&self) -> impl Iterator<Item = (&Path, &str, bool)> {
        self.mount.iter().flatten().map(|(path, inside)| match inside.strip_suffix(":ro") {
            Some(inside) => (&**path, inside, true),
            None => (&**path, &**inside, false),
        })
    }

    pub(super) fn path_map(&self) -> Checked<Option<PathMap>> {
        for (path, inside, _) in self.mounts() {
            if !path.exists() {
                return Err(format!("`mount`: {} does not exist", path.display()));
            }
            // The runtime separates the parts of a mount with commas.
            let has_comma = |text: &str| text.contains([',', '"', '\n']);
            if has_comma(&path.to_string_lossy()) || has_comma(inside) || inside.contains(':') {
                return Err(format!(
                    "`mount`: {} as {inside:?} cannot be mounted: expected paths without commas and quotes, and `:ro` at most",
                    path.display()
                ));
            }
        }
        let mounts = self.mounts().map(|(path, inside, _)| (path.to_owned(), inside.to_owned()));
        PathMap::new(mounts).map(Some).map_err(|problem| format!("`mount`: {problem}"))
    }

    pub(super) fn reaches_loopback(&self) -> bool {
        let words = || self.args.iter().map(|word| word.to_string_lossy());
        let joined = words().any(|word| matches!(&*word, "--network=host" | "--net=host"));
        let apart =
            words().zip(words().skip(1)).any(|(one, other)| matches!(&*one, "--network" | "--net") && other == "host");
        self.image.is_some() && self.network && (joined || apart)
    }

    pub(super) fn apply(&self, launch: Launch) -> Result<Launch> {
        if cfg!(windows) {
            return Err(Error::Unsupported(
                "containers of agents cannot be removed reliably on Windows; run the program in WSL, or leave `place` out".to_owned(),
            ));
        }
        let install = "; install it, or set another `runtime`, such as \"podman\"";
        let program = find_client(&self.runtime, &launch, install)?;
        let mark = uuid::Uuid::new_v4().simple().to_string();
        let work_dir = self.path_map().ok().flatten().and_then(|paths| {
            let current_dir = std::path::absolute(&launch.current_dir).ok()?;
            paths.to_agent(&current_dir)
        });
        let args = self.words(&launch, &mark, work_dir.as_deref());
        let cleanup = Some(self.cleanup(&program, &mark));
        let explained = self.explained(&launch, work_dir);
        let explain = move |exit: &AgentExit| explained.explanation(exit);
        let env = launch.env.into_iter().filter(|(name, _)| !is_of_client(name)).collect();
        let placed = Box::new(Placed { cleanup, explain: Some(Box::new(explain)), ..*launch.placed });
        // The client has the variables of this program, and the agent has those that are named.
        Ok(Launch { program, args, env, inherited: Inherited::default(), placed, ..launch })
    }

    fn words(&self, launch: &Launch, mark: &str, work_dir: Option<&str>) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut add = |parts: &[&OsStr]| words.extend(parts.iter().map(Into::into));
        match self.name {
            Some(_) => add(&["exec".as_ref(), "-i".as_ref()]),
            None => {
                let name = container_name(mark);
                add(&["run", "-i", "--rm", "--init", "--pull=never", "--log-driver=none"].map(AsRef::as_ref));
                add(&["--name".as_ref(), name.as_ref(), "--entrypoint=".as_ref()]);
                if !self.network {
                    add(&["--network=none".as_ref()]);
                }
                for (path, inside, is_read_only) in self.mounts() {
                    let mut mount = OsString::from("type=bind,source=");
                    mount.push(path);
                    mount.push(format!(",target={inside}{}", if is_read_only { ",readonly" } else { "" }));
                    add(&["--mount".as_ref(), &mount]);
                }
            }
        }
        if let Some(work_dir) = work_dir {
            add(&["--workdir".as_ref(), work_dir.as_ref()]);
        }
        if let Some(user) = &self.user {
            add(&["--user".as_ref(), user.as_ref()]);
        }
        let mark = format!("KIMI_AGENT_PLACE={mark}");
        add(&["--env".as_ref(), mark.as_ref()]);
        for (name, value) in &launch.env {
            let mut variable = name.clone();
            if is_of_client(name) {
                variable.push("=");
                variable.push(value);
            }
            add(&["--env".as_ref(), &variable]);
        }
        words.extend(self.args.iter().cloned());
        words.extend(self.name.iter().chain(&self.image).map(OsString::from));
        words.push(launch.program.clone().into_os_string());
        words.extend(launch.args.iter().cloned());
        words
    }

    /// Returns the arguments of the shell that ends what is left in the place.
    fn cleanup(&self, program: &Path, mark: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["-c".into()];
        let mut add = |parts: &[&OsStr]| words.extend(parts.iter().map(Into::into));
        match &self.name {
            None => {
                let name = container_name(mark);
                add(&[REMOVE.as_ref(), "kimi-agent-cleanup".as_ref(), program.as_os_str(), name.as_ref()]);
            }
            Some(name) => {
                add(&[END.as_ref(), "kimi-agent-cleanup".as_ref(), program.as_os_str(), "exec".as_ref()]);
                if let Some(user) = &self.user {
                    add(&["--user".as_ref(), user.as_ref()]);
                }
                add(&[name, "/bin/sh", "-c", SWEEP, "kimi-agent-sweep", mark].map(AsRef::as_ref));
            }
        }
        words
    }

    fn explained(&self, launch: &Launch, work_dir: Option<String>) -> Explained {
        Explained {
            runtime: Path::new(&self.runtime).display().to_string(),
            image: self.image.clone(),
            name: self.name.clone().unwrap_or_default(),
            program: launch.program.display().to_string(),
            work_dir: work_dir.unwrap_or_default(),
        }
    }
}

impl From<Container> for Place {
    fn from(container: Container) -> Self {
        Self::Container(container)
    }
}

fn container_name(mark: &str) -> String {
    format!("kimi-agent-{mark}")
}

fn is_of_client(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| OF_CLIENT.contains(&name))
}

/// The words of the texts about the failures of a runtime.
struct Explained {
    runtime: String,
    image: Option<String>,
    name: String,
    program: String,
    work_dir: String,
}

impl Explained {
    /// Returns the cause of an exit, for the text of the error.
    fn explanation(&self, exit: &AgentExit) -> Option<String> {
        let Self { runtime, image, name, program, work_dir } = self;
        // The runtime has these codes, and the agent usually has not. `docker exec` has 1 for a missing container.
        let code = exit.exit_code.filter(|code| matches!(code, 1 | 125..=127))?;
        let stderr = exit.stderr.to_ascii_lowercase();
        let says = |texts: &[&str]| texts.iter().any(|text| stderr.contains(text));
        if says(&["cannot connect to the docker daemon", "cannot connect to podman", "docker api at"]) {
            return Some(format!(
                "because {runtime} cannot reach its daemon; start it, or set another `runtime` of the place"
            ));
        }
        if let Some(image) = image
            && says(&["no such image", "image not known", "unable to find image"])
        {
            return Some(format!(
                "because the image {image} is not on this machine; run `{runtime} pull {image}`, or build it"
            ));
        }
        if image.is_none() && says(&["no such container"]) {
            return Some(format!("because the container {name} does not exist; see `{runtime} ps`, or start it"));
        }
        if image.is_none() && says(&["is not running", "container state improper"]) {
            return Some(format!("because the container {name} does not run; run `{runtime} start {name}`"));
        }
        if says(&["chdir to cwd", "workdir \"", "working directory"]) && code != 1 {
            return Some(format!(
                "because the container has no directory {work_dir}; mount it, and name it in `mount` of the place"
            ));
        }
        let is_missing = says(&["executable file not found", "no such file or directory"]) && matches!(code, 126 | 127);
        // The text of catatonit, the init process of Podman, which exits with 1.
        if is_missing || says(&["failed to exec pid1"]) {
            return Some(format!(
                "because the container has no program {program}; put it into the image, or mount it and name its path in `executable`"
            ));
        }
        (code == 125 && image.is_some()).then(|| format!("because {runtime} did not start the container"))
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::place::tests::launch;

    fn fresh() -> Container {
        let mut container = Place::container("agents:1").runtime("podman");
        container.settle(Path::new("/")).unwrap();
        container
    }

    fn joined(words: &[OsString]) -> String {
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn command_of_fresh_container() {
        let dir = tempfile::tempdir().unwrap();
        let shown = dir.path().display();
        let mut container = Place::container("agents:1")
            .mount(".", "/work")
            .mount("/", "/host:ro")
            .user("1000:1000")
            .network(false)
            .args(["--memory", "2g"]);
        container.settle(dir.path()).unwrap();
        let launch = Launch {
            env: vec![("KEY".into(), "secret".into()), ("PATH".into(), "/bin".into())],
            ..launch("kimi", &["acp"])
        };
        let words = joined(&container.words(&launch, "1", Some("/work")));
        let expected = format!(
            "run -i --rm --init --pull=never --log-driver=none --name kimi-agent-1 --entrypoint= --network=none \
             --mount type=bind,source={shown},target=/work --mount type=bind,source=/,target=/host,readonly --workdir /work \
             --user 1000:1000 --env KIMI_AGENT_PLACE=1 --env KEY --env PATH=/bin --memory 2g agents:1 kimi acp"
        );
        assert_eq!(words, expected);
        assert_eq!(
            joined(&container.cleanup(Path::new("/bin/docker"), "1")[2..]),
            "kimi-agent-cleanup /bin/docker kimi-agent-1"
        );
    }

    #[test]
    fn commands_of_running_container() {
        let mut container = Place::running_container("box").user("ada").mount("/", "/host");
        container.settle(Path::new("/")).unwrap();
        let words = joined(&container.words(&launch("kimi", &[]), "1", Some("/host/srv")));
        assert_eq!(words, "exec -i --workdir /host/srv --user ada --env KIMI_AGENT_PLACE=1 box kimi");
        let cleanup = container.cleanup(Path::new("/bin/docker"), "1");
        assert_eq!(joined(&cleanup[2..9]), "kimi-agent-cleanup /bin/docker exec --user ada box /bin/sh");
    }

    #[test]
    fn client_keeps_its_own_variables() {
        let runtime = std::env::current_exe().unwrap();
        let env = vec![("KEY".into(), "secret".into()), ("DOCKER_HOST".into(), "x".into())];
        let launch = fresh().runtime(runtime).apply(Launch { env, ..launch("kimi", &[]) }).unwrap();
        assert_eq!(launch.env, [(OsString::from("KEY"), OsString::from("secret"))]);
        assert!(launch.inherited.has("DOCKER_HOST".as_ref()));
        assert!(joined(&launch.args).contains("--env KEY --env DOCKER_HOST=x "), "{}", joined(&launch.args));
    }

    #[test]
    fn working_directory_is_the_default_mount() {
        let mut container = Place::container("agents:1");
        container.settle(Path::new("/usr")).unwrap();
        let paths = container.path_map().unwrap().unwrap();
        assert_eq!(paths.to_agent(Path::new("/usr/bin")).as_deref(), Some("/work/bin"));
        assert_eq!(paths.to_agent(Path::new("/etc")), None);
        let mut container = container.mount("~", "/home");
        container.settle(Path::new("/usr")).unwrap();
        let home = std::env::home_dir().unwrap();
        assert_eq!(container.path_map().unwrap().unwrap().to_agent(&home.join("a")).as_deref(), Some("/home/a"));
    }

    #[test]
    fn wrong_settings_are_refused() {
        let problem = |container: &Container| container.problem().unwrap();
        assert!(problem(&Container::default()).starts_with("expected either `image`"));
        assert!(problem(&Container { name: Some("a".into()), ..fresh() }).starts_with("expected either `image`"));
        assert!(problem(&Place::container("--privileged")).starts_with("`image`: "));
        assert!(problem(&Place::running_container("")).starts_with("`name`: "));
        assert!(problem(&Place::running_container("a").network(false)).starts_with("`network`: "));
        assert!(problem(&fresh().user("-u")).starts_with("`user`: "));
        assert!(problem(&fresh().runtime("")).starts_with("`runtime`: "));
        let mount = |path: &str, inside: &str| {
            let mut container = Place::container("a").mount(path, inside);
            container.settle(Path::new("/")).unwrap();
            container.path_map().unwrap_err()
        };
        assert_eq!(mount("no-such", "/work"), "`mount`: /no-such does not exist");
        assert!(mount("usr", "/a,readonly").contains("without commas"));
        assert!(mount("usr", "/a:rw").contains("`:ro` at most"));
        assert!(mount("usr", "a").contains("such as \"/work\""));
    }

    #[test]
    fn network_of_the_machine_reaches_its_loopback() {
        let reaches = |args: &[&str]| fresh().args(args.iter().copied()).reaches_loopback();
        assert!(reaches(&["--network=host"]) && reaches(&["--net", "host"]));
        assert!(!reaches(&[]) && !reaches(&["--network", "bridge", "host"]));
        assert!(!fresh().args(["--network=host"]).network(false).reaches_loopback());
    }

    #[test]
    fn failures_of_the_runtime_are_explained() {
        let launch = launch("kimi", &[]);
        let explained = |container: &Container, code: i32, stderr: &str| {
            let exit = AgentExit { exit_code: Some(code), stderr: stderr.to_owned(), ..AgentExit::default() };
            container.explained(&launch, Some("/work".to_owned())).explanation(&exit)
        };
        let running = Place::running_container("box");
        for (container, code, stderr, part) in [
            (&fresh(), 125, "docker: Error response from daemon: No such image: agents:1.", "`podman pull agents:1`"),
            (&fresh(), 125, "Error: agents:1: image not known", "`podman pull agents:1`"),
            (&fresh(), 125, "docker: Cannot connect to the Docker daemon at unix:///x.", "start it"),
            (&fresh(), 127, "exec: \"kimi\": executable file not found in $PATH", "no program kimi"),
            (&fresh(), 127, "[FATAL tini (7)] exec kimi failed: No such file or directory", "no program kimi"),
            (&fresh(), 1, "ERROR (catatonit:6): failed to exec pid1: No such file or directory", "no program kimi"),
            (&fresh(), 126, "Error: workdir \"/work\" does not exist on container 1", "no directory /work"),
            (&fresh(), 125, "Error: unknown flag: --x", "did not start the container"),
            (&running, 1, "Error response from daemon: No such container: box", "the container box does not exist"),
            (
                &running,
                125,
                "Error: no container with name or ID \"box\" found: no such container",
                "the container box does not exist",
            ),
            (&running, 255, "", ""),
            (&running, 1, "Error response from daemon: container 1 is not running", "`docker start box`"),
            (&running, 127, "chdir to cwd (\"/work\") set in config.json failed", "no directory /work"),
        ] {
            let text = explained(container, code, stderr).unwrap_or_default();
            assert!(text.contains(part), "{stderr}: {text}");
        }
        assert_eq!(explained(&fresh(), 1, "no such file or directory"), None);
        assert_eq!(explained(&fresh(), 3, "image not known"), None);
    }
}
