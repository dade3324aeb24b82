//! The search for the program of an agent.

use std::os::unix::fs::PermissionsExt;

use super::super::executable::{Surroundings, resolve};
use super::*;
use crate::dialect::WireVersion;

fn put(dir: &Path, name: &str, mode: u32) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join(name), "").unwrap();
    std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
}

fn find(option: Option<Executable>, env: &[(&str, &str)], host: &[(&str, &str)]) -> Result<String, String> {
    find_for(Dialect::Auto, option, env, host)
}

fn find_for(
    dialect: Dialect,
    option: Option<Executable>,
    env: &[(&str, &str)],
    host: &[(&str, &str)],
) -> Result<String, String> {
    let env: Vec<(OsString, OsString)> = env.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    let host = |name: &str| host.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
    let found = resolve(option.as_ref(), &Surroundings { env: &env, host: &host, dialect, paths: None });
    found.map(|(path, _)| path.display().to_string()).map_err(|error| {
        assert_eq!(error.code(), "spawn_error");
        error.to_string()
    })
}

#[test]
fn executable_lookup_prefers_option_over_variable() {
    let dir = TempDir::new().unwrap();
    let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
    put(&one, "other", 0o755);
    put(&two, "kimi", 0o755);
    put(&two, "mine", 0o755);
    let path = format!("/no/such::{}:{}", one.display(), two.display());
    let two = two.display();
    let host = [("PATH", path.as_str())];
    assert_eq!(find(None, &[], &host), Ok(format!("{two}/kimi")));
    assert_eq!(find(Some("mine".into()), &[], &host), Ok(format!("{two}/mine")));
    assert_eq!(find(Some(format!("{two}/mine").into()), &[], &[]), Ok(format!("{two}/mine")));
    let with_variable = [("PATH", path.as_str()), ("KIMI_AGENT_EXECUTABLE", "mine")];
    assert_eq!(find(None, &[], &with_variable), Ok(format!("{two}/mine")));
    assert_eq!(find(Some("kimi".into()), &[], &with_variable), Ok(format!("{two}/kimi")));
    let empty_variable = [("PATH", path.as_str()), ("KIMI_AGENT_EXECUTABLE", "")];
    assert_eq!(find(None, &[], &empty_variable), Ok(format!("{two}/kimi")));
    let list = format!(r#" ["{two}/mine", "-m", "x"]"#);
    let option: Option<&Executable> = None;
    let host = |name: &str| (name == "KIMI_AGENT_EXECUTABLE").then(|| OsString::from(&list));
    let (program, args) =
        resolve(option, &Surroundings { env: &[], host: &host, dialect: Dialect::Auto, paths: None }).unwrap();
    assert_eq!((program.display().to_string(), args), (format!("{two}/mine"), vec!["-m".into(), "x".into()]));
    // A PATH among the options counts, and its last one.
    assert_eq!(find(None, &[("PATH", "/x"), ("PATH", &path)], &[("PATH", "/y")]), Ok(format!("{two}/kimi")));
}

#[test]
fn missing_executable_error_lists_places() {
    let text = find(None, &[], &[("PATH", "/no/one:/no/two:/no/one")]).unwrap_err();
    assert!(text.starts_with("can't start the agent: `kimi`: not found on PATH: /no/one, /no/two; install"), "{text}");
    let text = find(Some("mine".into()), &[("PATH", "/no/one")], &[]).unwrap_err();
    let expected = "can't start the agent: `mine` (from the `executable` option): not found on the PATH of the \
                    `env` option: /no/one";
    assert_eq!(text, expected);
    let text = find(Some("gemini".into()), &[], &[("PATH", "/no/one")]).unwrap_err();
    assert!(
        text.ends_with("not found on PATH: /no/one; to install Gemini CLI, run `npm install -g @google/gemini-cli`"),
        "{text}"
    );
    let text = find(None, &[], &[("KIMI_AGENT_EXECUTABLE", "/no/kimi")]).unwrap_err();
    assert!(
        text.starts_with(
            "can't start the agent: /no/kimi (from $KIMI_AGENT_EXECUTABLE) does not exist; install Kimi Code"
        ),
        "{text}"
    );
    assert!(!text.contains("or name the program"), "{text}");
    let text = find(None, &[], &[("KIMI_AGENT_EXECUTABLE", "/no/agent")]).unwrap_err();
    assert_eq!(text, "can't start the agent: /no/agent (from $KIMI_AGENT_EXECUTABLE) does not exist");
    let text = find(Some("/no/gemini".into()), &[], &[]).unwrap_err();
    assert!(text.ends_with("does not exist; to install Gemini CLI, run `npm install -g @google/gemini-cli`"), "{text}");
    assert!(find(None, &[], &[]).unwrap_err().contains("`kimi`: PATH is empty; install"));
    for list in ["[]", "[1]", "[\"\"]", "[kimi"] {
        let text = find(None, &[], &[("KIMI_AGENT_EXECUTABLE", list)]).unwrap_err();
        assert!(text.contains("is not a JSON list of a program and its arguments, such as ["), "{text}");
    }
    for (option, variable, place) in
        [(Some("python -m foo".into()), "", "as `executable`"), (None, "/no/kimi --wire", "in $KIMI_AGENT_EXECUTABLE")]
    {
        let text = find(option, &[("PATH", "/no/one")], &[("KIMI_AGENT_EXECUTABLE", variable)]).unwrap_err();
        assert!(text.contains(&format!("pass a list {place}, [\"")) && text.contains("\", \"-"), "{text}");
    }
}

#[test]
fn missing_kimi_error_advises_agent_by_dialect() {
    let kimi_code = "install Kimi Code (run `npm install -g @moonshot-ai/kimi-code`)";
    let kimi_cli = "kimi-cli, a release up to 1.51 (run `pip install 'kimi-cli<1.52'`)";
    let either = format!("{kimi_code} or {kimi_cli}");
    let wire = format!("install {kimi_cli}");
    for (dialect, advice) in [
        (Dialect::Auto, either.as_str()),
        (Dialect::Acp, kimi_code),
        (Dialect::KimiWeb, kimi_code),
        (Dialect::Wire(WireVersion::LATEST), &wire),
        (Dialect::Legacy, "install kimi-cli, a release up to 0.58 (run `pip install 'kimi-cli<0.59'`)"),
    ] {
        let path = [("PATH", "/no/one")];
        let text = find_for(dialect, None, &[], &path).unwrap_err();
        let named = "or name the program in the `executable` option or in $KIMI_AGENT_EXECUTABLE";
        assert_eq!(text, format!("can't start the agent: `kimi`: not found on PATH: /no/one; {advice}, {named}"));
        let text = find_for(dialect, Some("kimi".into()), &[], &path).unwrap_err();
        assert!(text.ends_with(&format!("not found on PATH: /no/one; {advice}")), "{text}");
    }
}

#[test]
fn file_without_permission_is_not_reported_missing() {
    let dir = TempDir::new().unwrap();
    put(dir.path(), "kimi", 0o644);
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    let dir = dir.path().display().to_string();
    let text = find(Some(format!("{dir}/kimi").into()), &[], &[]).unwrap_err();
    assert!(text.ends_with("/kimi (from the `executable` option) is not executable (its file mode does not allow it)"));
    let text = find(Some(format!("{dir}/folder").into()), &[], &[]).unwrap_err();
    assert!(text.ends_with("is a directory"), "{text}");
    let text = find(None, &[], &[("PATH", &format!("/no/one:{dir}"))]).unwrap_err();
    assert!(text.contains(&format!("on PATH there is only what can't be run: {dir}/kimi is not exec")), "{text}");
}
