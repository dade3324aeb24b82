#!/usr/bin/env bash
# Fuzzes the targets of fuzz/, all or those named, FUZZ_SECONDS in all. What it finds is in .cache/fuzz/artifacts.
# Installs cargo-fuzz below .cache; sanitizers are part of stable Rust, RUSTC_BOOTSTRAP lets it use them.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache/fuzz
seconds=${FUZZ_SECONDS:-60}
targets=("$@")
((${#targets[@]})) || targets=(framing envelope dialect shapes connection conversation acp kimi_web policy proxy turn_records schema)
unset CARGO_TARGET_DIR
export RUSTC_BOOTSTRAP=1

if [[ ! -x $cache/bin/cargo-fuzz ]]; then
    command -v c++ >/dev/null || { echo "libFuzzer needs a C++ compiler: install g++ or clang"; exit 1; }
    echo "Installing cargo-fuzz"
    CARGO_TARGET_DIR=$cache/install cargo install -q --locked --root "$cache" --version 0.13.2 cargo-fuzz
    rm -rf "$cache/install"
fi

echo "Building ${targets[*]}"
build=$cache/target/x86_64-unknown-linux-gnu/release
for target in "${targets[@]}"; do
    # As few units as possible would take minutes more to build, for little speed.
    "$cache/bin/cargo-fuzz" build --fuzz-dir fuzz --target-dir "$cache/target" --target x86_64-unknown-linux-gnu \
        --codegen-units 16 "$target" 2>"$cache/build.log" || { cat "$cache/build.log"; exit 1; }
done

# The recordings of real agents: whole sessions, and their lines one by one.
python3 tools/fuzz_corpus.py tests/recorded "$cache/corpus"

failed=()
for target in "${targets[@]}"; do
    share=$((seconds / ${#targets[@]}))
    echo "Fuzzing $target for $share s"
    mkdir -p "$cache/corpus/$target" "$cache/artifacts/$target"
    # The first folder is where new inputs go; memory is a promise, too.
    "$build/$target" "$cache/corpus/$target" "fuzz/seeds/$target" $(compgen -G "fuzz/crashes/$target" || true) \
        -max_total_time="$share" -timeout=10 -rss_limit_mb=1024 -max_len=8192 -print_final_stats=1 \
        -artifact_prefix="$cache/artifacts/$target/" >"$cache/$target.log" 2>&1 || failed+=("$target")
    grep -E '^#[0-9]+.*(DONE|INITED)|stat::number_of_executed_units' "$cache/$target.log" | tail -n 3
done
if ((${#failed[@]})); then
    for target in "${failed[@]}"; do
        tail -n 40 "$cache/$target.log"
    done
    echo "broken: ${failed[*]}; an input in .cache/fuzz/artifacts belongs into fuzz/crashes/<target>, where cargo test runs it"
    exit 1
fi
echo "nothing was found"
