//! Takes the page of the inspector into the program. `make inspector` builds it.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// A build without Node still works. Its page says what is missing.
const WITHOUT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>No inspector</title>\
<p>This build of kimi-agent has no inspector. Run <code>make inspector</code>, and build it again.</p>\
<script type=\"application/json\" id=\"kimi-agent-recordings\"></script></html>";

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let page = here.join("inspector.html");
    // A file that does not exist always counts as changed.
    let watched = if page.exists() { &page } else { &here };
    println!("cargo::rerun-if-changed={}", watched.display());
    let page = fs::read_to_string(&page);
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    let written = fs::write(Path::new(&out).join("inspector.html"), page.as_deref().unwrap_or(WITHOUT));
    written.expect("the folder of the build can be written");
}
