#!/usr/bin/env bash
# Tries the crates as their users do: crates.sh FOLDER. FOLDER has the files that cargo publishes. A program depends on kimi-agent
# by its version, and the command kimi-agent is compiled. Both get these files instead of those of crates.io.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
folder=$(cd "$1" && pwd)
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mkdir -p "$scratch/.cargo" "$scratch/program"
for crate in $(tools/release.py crates); do
    tar -xzf "$folder/$crate-$version.crate" -C "$scratch"
    for file in LICENSE Cargo.toml; do
        [[ -s $scratch/$crate-$version/$file ]] || { echo "FAIL  the crate $crate has no $file"; exit 1; }
    done
    printf '[patch.crates-io.%s]\npath = "%s"\n' "$crate" "$scratch/$crate-$version" >>"$scratch/.cargo/config.toml"
done

cp tests/packages/programs/main.rs Cargo.lock "$scratch/program"
sed "s|path = \"@CORE@\"|version = \"$version\"|" tests/packages/programs/Cargo.toml.in >"$scratch/program/Cargo.toml"
said=$(cd "$scratch/program" && cargo run -q)
[[ $said == "hello world" ]] || { echo "FAIL  the program with the crates: $said"; exit 1; }
(cd "$scratch/program" && cargo tree -q --depth 1 --prefix none) | grep -qF "kimi-agent v$version ($scratch/" ||
    { echo "FAIL  the program has another kimi-agent"; exit 1; }
echo "pass  a program compiles with the crates, and has a turn"

cp Cargo.lock "$scratch/kimi-agent-command-$version/Cargo.lock"
(cd "$scratch/kimi-agent-command-$version" && cargo build -q --bin kimi-agent)
"$CARGO_TARGET_DIR/debug/kimi-agent" inspect tests/recordings/wire.jsonl -o "$scratch/page.html" >/dev/null
grep -q '"name":"wire.jsonl"' "$scratch/page.html" && [[ $(wc -c <"$scratch/page.html") -gt 100000 ]] ||
    { echo "FAIL  the command of the crate makes no page"; exit 1; }
echo "pass  the command of the crate makes the page of a recording"
