//! The entry of the scripted agent in programs that start themselves as the agent.
//!
//! It is a crate of its own, because the linker takes whole objects of a library: only a program that refers to this crate
//! contains the function that runs before `main`. A program that only links the feature `testing` does not. For the same reason
//! this crate uses no generic code, which other crates would share with it: `tests/linked_only.rs` of `kimi-agent` checks that.

#![deny(missing_docs)]

/// Whether programs have the entry on this system.
pub const WORKS: bool = cfg!(any(target_os = "linux", target_os = "macos", windows));

/// Asks for the entry: the program that uses the returned value becomes the scripted agent before its `main` if its first argument is
/// [`FLAG`](kimi_agent_testing::scripted::FLAG). Callers are generic functions, so that their code, and with it this call, is in the
/// program and not in a library.
#[must_use]
pub fn request() -> Option<&'static extern "C" fn()> {
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    return Some(&BEFORE_MAIN);
    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    None
}

// Not `#[used]`, which would put it into every program.
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func,mod_init_funcs"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static BEFORE_MAIN: extern "C" fn() = before_main;

#[cfg(any(target_os = "linux", target_os = "macos", windows))]
extern "C" fn before_main() {
    kimi_agent_testing::scripted::run_if_asked();
}
