//! Takes the page of the inspector into the program. `make inspector` builds it.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let page = here.join("inspector.html");
    // A file that does not exist always counts as changed.
    let watched = if page.exists() { &page } else { &here };
    println!("cargo::rerun-if-changed={}", watched.display());
    // A build without Node works, too. Its command says that the page is missing.
    let page = fs::read_to_string(&page).unwrap_or_default();
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    let written = fs::write(Path::new(&out).join("inspector.html"), page);
    written.expect("the folder of the build can be written");
}
