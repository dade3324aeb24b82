//! Rule sets that come with the SDK. `settings.toml` lists the settings of agents.

use std::sync::LazyLock;

use serde::Deserialize;

/// The names of the presets.
pub(crate) const NAMES: [&str; 2] = ["read-only", "edit-files"];

/// Files that hold secrets.
const SECRETS: &[&str] = &[
    "**/.env",
    "**/.env.*",
    "**/*.env",
    "**/.envrc",
    "**/.netrc",
    "**/_netrc",
    "**/.pgpass",
    "**/.my.cnf",
    "**/.npmrc",
    "**/.yarnrc",
    "**/.yarnrc.yml",
    "**/.pypirc",
    "**/.git-credentials",
    "**/.ssh/**",
    "**/.aws/**",
    "**/.azure/**",
    "**/.gnupg/**",
    "**/.kube/**",
    "**/kubeconfig",
    "**/kubeconfig.*",
    "**/.s3cfg",
    "**/.docker/config.json",
    "**/.config/gcloud/**",
    "**/.config/gh/**",
    "**/id_rsa*",
    "**/id_ed25519*",
    "**/id_ecdsa*",
    "**/id_dsa*",
    "**/*.gpg",
    "**/*.pem",
    "**/*.key",
    "**/*.p8",
    "**/*.p12",
    "**/*.ppk",
    "**/*.pfx",
    "**/*.jks",
    "**/*.keystore",
    "**/*.kdbx",
    "**/secrets/**",
    "**/secrets.*",
    "**/secret.*",
    "**/credentials",
    "**/credentials.*",
    "**/.htpasswd",
    "**/.vault-token",
    "**/.terraform.d/**",
    "**/*.tfstate*",
    "**/*.tfvars",
    "**/*.tfvars.*",
    // Settings of git can have passwords in addresses.
    "**/.git/config",
    "**/.git/config.worktree",
    "**/.git/modules/**/config",
    "**/.git/worktrees/**/config.worktree",
    "**/.gitconfig",
    // Objects of git hold each file that a commit had.
    "**/.git/objects/**",
    "**/auth.json",
    "**/token",
    "**/token.json",
    "**/service-account*.json",
    "**/*-adminsdk*.json",
    "**/.config/rclone/**",
    "**/.password-store/**",
    "**/.dockercfg",
    "**/.terraformrc",
    "**/.boto",
    "**/.netrc.*",
    "**/.env-*",
    "**/.env_*",
    "**/.env~",
    "**/*.pem.*",
    "**/*.key.*",
    "**/.secret",
    "**/.secrets/**",
    "**/client_secret*.json",
    "**/application_default_credentials.json",
    "**/token.txt",
    "**/.mylogin.cnf",
    "**/.envrc.*",
    "**/.m2/settings.xml",
    "**/.gradle/gradle.properties",
    "**/.bash_history",
    "**/.zsh_history",
    "**/ssh_host_*",
    "**/id_xmss*",
    "**/*.ovpn",
    "**/key4.db",
    "**/logins.json",
    "**/cookies.sqlite",
    "**/wallet.dat",
    // Keys of models, in the settings of agents.
    "**/.dev.vars",
    "**/.dev.vars.*",
    "**/.credentials.json",
    "**/oauth_creds.json",
    "**/.kaggle/**",
    "**/.claude.json",
    "**/.kimi/config.*",
    "**/.kimi-code/config.*",
];
/// Names that programs give to what they log in with, in folders of their own. Only their parts below the working directory count.
const OWN_SECRETS: &[&str] = &["*cred*", "*auth*", "*token*"];
/// Names of settings in such folders, for agents that are in no row of the table.
const OWN_SETTINGS: &[&str] = &["**/mcp*.json", "settings*.json", "hooks/**", "hooks.json"];
/// Commands that only read, in forms that stay in the working directory.
const READING: &[&str] = &[
    "pwd",
    "whoami",
    "date",
    "date +*",
    "true",
    "uname *",
    "echo *",
    "ls ./**",
    "cat ./**",
    "head ./**",
    "tail ./**",
    "wc ./**",
    "nl ./**",
    "tac ./**",
    "cut ./**",
    "stat ./**",
    "file ./**",
    "basename *",
    "dirname *",
    "grep ./**",
    "rg ./**",
    "find ./**",
    "fd ./**",
    "diff ./**",
    "cmp ./**",
    "sort ./**",
    "tree ./**",
    "du ./**",
    "cd ./**",
    "which *",
    "sed -n ./**",
    "test ./**",
    "[ ./**",
    "git status",
    "git status ./**",
    "git --no-pager status",
    "git --no-pager diff ./**",
    "git --no-pager log ./**",
    "git --no-pager show ./**",
    "git --no-pager grep ./**",
    "git --no-pager branch",
    "git diff ./**",
    "git log ./**",
    "git show ./**",
    "git blame ./**",
    "git grep ./**",
    "git branch",
    "git branch --list",
    "git branch -r",
    "git branch --remotes",
    "git branch --all",
    "git branch -a",
    "git branch -v",
    "git branch -vv",
    "git branch --show-current",
    "git tag",
    "git tag --list",
    "git tag -l",
    "git ls-files ./**",
    "git rev-parse ./**",
    "git describe *",
    "git shortlog ./**",
    "git rev-list ./**",
    "git cat-file -t *",
    "git cat-file -s *",
    "git merge-base *",
    "git stash list",
];
/// Forms of these commands that show what a search leaves out, or follow links.
const ASKED: &[&str] = &[
    "execute(grep -r *)",
    "execute(grep -R *)",
    "execute(grep -f *)",
    "execute(grep --recursive *)",
    "execute(grep --dereference-recursive *)",
    "execute(grep --directories *)",
    "execute(grep -d *)",
    "execute(grep --file *)",
    "execute(rg -u *)",
    "execute(rg -. *)",
    "execute(rg -g *)",
    "execute(rg -L *)",
    "execute(rg -f *)",
    "execute(rg --hidden *)",
    "execute(rg --no-ignore *)",
    "execute(rg --unrestricted *)",
    "execute(rg --glob *)",
    "execute(rg --iglob *)",
    "execute(rg --follow *)",
    "execute(rg --file *)",
    "execute(rg --ignore-file *)",
    "execute(find -L *)",
    "execute(find -follow *)",
    "execute(fd -L *)",
    "execute(fd --follow *)",
    "execute(git grep --untracked *)",
    "execute(git grep --no-exclude-standard *)",
    "execute(tail -f *)",
    "execute(tail -*f *)",
    "execute(tail +* *)",
    "execute(tail -F *)",
    "execute(tail --follow *)",
    "execute(diff -r *)",
    "execute(diff --recursive *)",
    "execute(tail --retry *)",
];

/// Files that hold settings of agents.
static SETTINGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    #[derive(Default, Deserialize)]
    struct Table {
        settings: Vec<Row>,
    }
    #[derive(Deserialize)]
    struct Row {
        files: Vec<String>,
    }
    let table: Table = toml::from_str(include_str!("settings.toml")).unwrap_or_default();
    table.settings.into_iter().flat_map(|row| row.files).collect()
});

/// The globs for files below the working directory: unlike `**/`, they are not about the folders that this is in.
fn in_each_folder(glob: &str) -> [String; 2] {
    [glob.to_owned(), format!("[!/]*/**/{glob}")]
}

/// Returns the rules of a preset: the lists `deny`, `ask` and `allow`.
pub(crate) fn rules(name: &str) -> Option<[Vec<String>; 3]> {
    let edits = match name {
        "read-only" => false,
        "edit-files" => true,
        _ => return None,
    };
    let own_secrets: Vec<String> = OWN_SECRETS
        .iter()
        .flat_map(|name| {
            let deep = ["config", "local"].map(|folder| in_each_folder(&format!(".{folder}/**/{name}")));
            deep.into_iter().flatten().chain(in_each_folder(&format!(".[!.]*/{name}")))
        })
        .collect();
    let secrets = || SECRETS.iter().copied().chain(own_secrets.iter().map(|glob| &**glob));
    let mut deny: Vec<String> = secrets().map(|glob| format!("read({glob})")).collect();
    let mut allow = vec!["read(**)".to_owned(), "search(**)".to_owned(), "think".to_owned()];
    if edits {
        // A repository's own settings name programs that git runs. Each folder with a file `HEAD` can be a repository; one that is a
        // repository is compared as `.git`.
        let protected = [
            "**/.git/**",
            "**/*.git/**",
            "**/.bare/**",
            "**/.githooks/**",
            "**/HEAD",
            "**/commondir",
            "**/.gitmodules",
            "**/.gitattributes",
            "**/.gitconfig",
            "**/.config/git/**",
            "**/.envrc",
            "**/mcp.json",
            "**/mcp_*.json",
            "**/hooks/hooks.json",
        ];
        let protected = secrets().chain(protected).chain(SETTINGS.iter().map(|glob| &**glob));
        deny.extend(protected.map(|glob| format!("edit({glob})")));
        let own_settings = OWN_SETTINGS.iter().flat_map(|name| in_each_folder(&format!(".[!.]*/{name}")));
        deny.extend(own_settings.map(|glob| format!("edit({glob})")));
        allow.push("edit(**)".to_owned());
    }
    allow.extend(READING.iter().map(|command| format!("execute({command})")));
    let ask = ASKED.iter().map(|rule| (*rule).to_owned()).collect();
    Some([deny, ask, allow])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_a_source_in_each_row() {
        let source: toml::Table = toml::from_str(include_str!("settings.toml")).unwrap_or_default();
        let rows = source["settings"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(rows.len() > 25 && SETTINGS.len() > 60);
        for row in rows {
            assert!(row["source"].as_str().is_some_and(|source| source.starts_with("https://")), "{row:?}");
        }
        let mut sorted = SETTINGS.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), SETTINGS.len());
    }
}
