//! The directories in which known agents keep their sessions, logins and caches. A sandbox leaves them usable.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::transport::launch::Launch;

/// The directories of an agent.
struct Own {
    /// Names of its program, and of folders that its program is in.
    names: &'static [&'static str],
    /// The variable that names another directory instead of the first one.
    variable: Option<&'static str>,
    /// Relative to the home directory. The second part is relative to a directory of the XDG specification.
    directories: &'static [Directory],
}

enum Directory {
    Home(&'static str),
    /// The variable, its default relative to the home directory, and the name in it.
    Xdg(&'static str, &'static str, &'static str),
}
use Directory::{Home, Xdg};

const CONFIG: (&str, &str) = ("XDG_CONFIG_HOME", ".config");
const DATA: (&str, &str) = ("XDG_DATA_HOME", ".local/share");
const STATE: (&str, &str) = ("XDG_STATE_HOME", ".local/state");
const CACHE: (&str, &str) = ("XDG_CACHE_HOME", ".cache");

/// Each row has the page of the vendor that names the directories. To add an agent, add a row.
const OWN: &[Own] = &[
    // https://moonshotai.github.io/kimi-code
    own(&["kimi", "kimi-code"], Some("KIMI_CODE_HOME"), &[Home(".kimi-code")]),
    // https://moonshotai.github.io/kimi-cli
    own(&["kimi", "kimi-cli", "kimi_cli"], Some("KIMI_SHARE_DIR"), &[Home(".kimi")]),
    // https://geminicli.com/docs/get-started/configuration
    own(&["gemini", "gemini-cli"], None, &[Home(".gemini")]),
    // https://code.claude.com/docs/en/settings
    own(&["claude-agent-acp", "claude-code-acp"], Some("CLAUDE_CONFIG_DIR"), &[Home(".claude"), Home(".claude.json")]),
    // https://developers.openai.com/codex/config-advanced
    own(&["codex-acp"], Some("CODEX_HOME"), &[Home(".codex")]),
    // https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings
    own(&["qwen", "qwen-code"], None, &[Home(".qwen")]),
    // https://opencode.ai/docs/troubleshooting
    own(
        &["opencode", "opencode-ai"],
        None,
        &[xdg(DATA, "opencode"), xdg(CONFIG, "opencode"), xdg(STATE, "opencode"), xdg(CACHE, "opencode")],
    ),
    // https://docs.github.com/en/copilot/how-tos/copilot-cli
    own(&["copilot"], Some("COPILOT_HOME"), &[Home(".copilot")]),
    // https://docs.augmentcode.com/cli/overview
    own(&["auggie"], None, &[Home(".augment")]),
    // https://docs.cline.bot/cline-cli/overview
    own(&["cline"], None, &[Home(".cline")]),
    // https://block.github.io/goose/docs/guides/logs
    own(&["goose"], None, &[xdg(CONFIG, "goose"), xdg(DATA, "goose"), xdg(STATE, "goose")]),
    // https://cursor.com/docs/cli/reference/configuration
    own(&["cursor-agent"], None, &[Home(".cursor"), xdg(CONFIG, "cursor")]),
    // https://docs.mistral.ai/mistral-vibe
    own(&["vibe-acp"], Some("VIBE_HOME"), &[Home(".vibe")]),
];

const fn own(names: &'static [&'static str], variable: Option<&'static str>, directories: &'static [Directory]) -> Own {
    Own { names, variable, directories }
}

const fn xdg((variable, default): (&'static str, &'static str), name: &'static str) -> Directory {
    Xdg(variable, default, name)
}

/// Returns the directories of the agent that is started, and single files of it. Nothing for an unknown agent.
pub(super) fn of_agent(launch: &Launch) -> Vec<PathBuf> {
    // The program can be an interpreter, or `python -m kimi_cli`.
    let words: Vec<&Path> =
        std::iter::once(&*launch.program).chain(launch.args.iter().take(2).map(Path::new)).collect();
    let known = |own: &&Own| words.iter().any(|word| is_named(word, own.names));
    OWN.iter().filter(known).flat_map(|own| directories(own, launch)).collect()
}

fn is_named(word: &Path, names: &[&str]) -> bool {
    let is_name = |part: &OsStr| part.to_str().is_some_and(|part| names.contains(&part));
    let parts: Vec<&OsStr> = word.components().map(|part| part.as_os_str()).collect();
    let Some((program, folders)) = parts.split_last() else { return false };
    // The folder of a project can have the name `kimi`.
    let of_packages = folders.iter().filter(|folder| folder.to_str().is_some_and(|name| name.contains(['-', '_'])));
    is_name(program) || word.file_stem().is_some_and(is_name) || of_packages.into_iter().any(|folder| is_name(folder))
}

fn directories(own: &Own, launch: &Launch) -> Vec<PathBuf> {
    let variable = |name: &str| {
        let set = launch.env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let value = set.or_else(|| launch.inherited.var(name)).map(PathBuf::from);
        value.filter(|value| !value.as_os_str().is_empty())
    };
    if let Some(directory) = own.variable.and_then(variable) {
        return vec![launch.current_dir.join(directory)];
    }
    let Some(home) = variable("HOME").filter(|home| home.is_absolute()) else { return Vec::new() };
    let path = |directory: &Directory| match directory {
        Home(path) => home.join(path),
        Xdg(name, default, inner) => {
            let base = variable(name).filter(|path| path.is_absolute());
            base.unwrap_or_else(|| home.join(default)).join(inner)
        }
    };
    own.directories.iter().map(path).collect()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::options::{InheritEnv, Inherited};

    #[test]
    fn directories_follow_program_and_environment() {
        let own = |words: &[&str], env: &[(&str, &str)]| {
            let env = [("HOME", "/home/ada")].iter().chain(env).map(|(name, value)| (name.into(), value.into()));
            let launch = Launch {
                program: words[0].into(),
                args: words[1..].iter().map(Into::into).collect(),
                env: env.collect(),
                inherited: Inherited { rule: InheritEnv::Needed, removed: Vec::new() },
                current_dir: "/project".into(),
                private: Default::default(),
                server: None,
                is_gateway: false,
                placed: Default::default(),
            };
            of_agent(&launch).iter().map(|path| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(own(&["/usr/bin/kimi", "acp"], &[]), ["/home/ada/.kimi-code", "/home/ada/.kimi"]);
        let moved = [("KIMI_CODE_HOME", "state"), ("KIMI_SHARE_DIR", "/srv/kimi")];
        assert_eq!(own(&["kimi"], &moved), ["/project/state", "/srv/kimi"]);
        assert_eq!(own(&["python3", "-m", "kimi_cli"], &[]), ["/home/ada/.kimi"]);
        let script = "/n/lib/node_modules/@moonshot-ai/kimi-code/dist/main.mjs";
        assert_eq!(own(&["/usr/bin/node", script], &[]), ["/home/ada/.kimi-code"]);
        let xdg = [("XDG_DATA_HOME", "/data"), ("XDG_CACHE_HOME", "relative")];
        let opencode = [
            "/data/opencode",
            "/home/ada/.config/opencode",
            "/home/ada/.local/state/opencode",
            "/home/ada/.cache/opencode",
        ];
        assert_eq!(own(&["opencode"], &xdg), opencode);
        assert!(own(&["/home/ada/kimi/agent"], &[]).is_empty());
        assert!(own(&["node", "agent.js"], &[("CODEX_HOME", "/x")]).is_empty());
    }
}
