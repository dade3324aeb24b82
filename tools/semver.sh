#!/usr/bin/env bash
# Compares the API of crates with that of their newest release: semver.sh FOLDER CRATE…. A crate that was never released has nothing to be
# compared with, which the output says. FOLDER gets cargo-semver-checks, if there is anything to compare.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
version=0.51.0
released=()
for crate in "$@"; do
    if said=$(cargo info --registry crates-io "$crate" 2>&1); then
        released+=("$crate")
    elif [[ $said == *"could not find \`$crate\`"* ]]; then
        echo "not compared: $crate has no release"
    else
        echo "the releases of $crate are not known: $said"
        exit 1
    fi
done
((${#released[@]})) || { echo "nothing was compared: there is no release yet"; exit 0; }
[[ $("$folder/bin/cargo-semver-checks" --version 2>/dev/null) == *" $version" ]] ||
    cargo install -q --debug --locked --root "$folder" --version "$version" cargo-semver-checks
for crate in "${released[@]}"; do
    "$folder/bin/cargo-semver-checks" semver-checks --package "$crate"
done
