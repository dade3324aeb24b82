#!/usr/bin/env bash
# The core's tests under AddressSanitizer and LeakSanitizer, which stable Rust has on Linux; RUSTC_BOOTSTRAP lets it
# use them. Arguments are those of `cargo test`.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $(uname -s) == Linux ]] || { echo "sanitizers are run on Linux only"; exit 1; }
target=$(uname -m)-unknown-linux-gnu
export CARGO_TARGET_DIR=$PWD/.cache/sanitize
export RUSTC_BOOTSTRAP=1
# Models switch stacks by themselves, which AddressSanitizer can't follow; they run without it, in `make test-rust`.
RUSTFLAGS="-Zsanitizer=address -Copt-level=1" ASAN_OPTIONS=detect_stack_use_after_return=1 \
    nice cargo test -q --locked --target "$target" -p kimi-agent --features bridge --lib --tests "$@" -- --skip models::
