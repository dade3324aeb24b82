#!/usr/bin/env bash
# Checks crates with the oldest dependencies that their manifests allow: minimal_versions.sh FOLDER RUST -p CRATE… . RUST is the
# version that compiles them. It works on a copy of the sources in FOLDER, which has its own lock file. rustup installs what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
rust=$2
shift 2
mkdir -p "$folder/source"
git ls-files -z Cargo.toml core | tar -cf - --null -T - | tar -xf - -C "$folder/source"
# Only the crates of the core are published.
sed -i 's|^members = .*|members = ["core/*"]|; s|^default-members = .*||' "$folder/source/Cargo.toml"
export CARGO_TARGET_DIR=$folder/target
cd "$folder/source"
# Of the dependencies in the manifests; what they depend on is as new as usual.
rustup run --install nightly cargo generate-lockfile -q -Zdirect-minimal-versions
rustup run --install "$rust" cargo check -q --locked --all-features "$@"
