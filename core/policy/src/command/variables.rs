//! Variables that name programs or code.

/// Whether programs run what a variable says, or load code from where it says.
pub(crate) fn is_program_variable(name: &str) -> bool {
    const STARTS: &[&str] = &[
        "GIT_",
        "LD_",
        "DYLD_",
        "BASH_",
        "PERL5",
        "RUBY",
        "LESS",
        "CARGO_BUILD_",
        "CARGO_TARGET_",
        "CARGO_ALIAS_",
        "RUSTC",
        "npm_config_",
        "NPM_CONFIG_",
        "TAR_",
        "SSH_",
    ];
    const NAMES: &[&str] = &[
        "PATH",
        "HOME",
        "ENV",
        "IFS",
        "PS4",
        "SHELL",
        "SHELLOPTS",
        "PAGER",
        "MANPAGER",
        "EDITOR",
        "VISUAL",
        "BROWSER",
        "CDPATH",
        "FPATH",
        "ZDOTDIR",
        "XDG_CONFIG_HOME",
        "MAKEFLAGS",
        "MFLAGS",
        "CC",
        "CXX",
        "GCONV_PATH",
        "COMSPEC",
        "NODE_PATH",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "PYTHONBREAKPOINT",
        "PYTHONWARNINGS",
        "PYTHONUSERBASE",
        "GEM_PATH",
        "GEM_HOME",
        "JAVA_HOME",
        "CLASSPATH",
        "CARGO_HOME",
        "GOFLAGS",
        "GOROOT",
        "GOTOOLCHAIN",
        "LUA_PATH",
        "LUA_CPATH",
        "LUA_INIT",
        "RIPGREP_CONFIG_PATH",
    ];
    let is_suffix = ["_PAGER", "_EDITOR", "_WRAPPER", "_COMMAND", "_BROWSER", "_ASKPASS", "_SHELL", "_OPTIONS"];
    STARTS.iter().any(|start| name.starts_with(start))
        || NAMES.contains(&name)
        || is_suffix.iter().any(|end| name.ends_with(end))
}
