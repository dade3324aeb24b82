//! Refuses an interpreter for which the package cannot be used, before the rest is compiled.

fn main() {
    if pyo3_build_config::get().is_free_threaded() {
        println!(
            "cargo::error=kimi-agent does not support free-threaded Python. Install it in a Python with the global \
             interpreter lock (GIL), such as python3.14 in place of python3.14t."
        );
    }
}
