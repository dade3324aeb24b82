#!/usr/bin/env bash
# Compares the API of crates with that of their newest release, or with that of the git revision BASELINE: semver.sh FOLDER CRATE….
# The output names a crate that has no release yet. FOLDER gets cargo-semver-checks, if there is anything to compare.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
shift
version=0.51.0
released=()
baseline=()
if [[ -n ${BASELINE:-} ]]; then
    baseline=(--baseline-rev "$BASELINE")
    released=("$@")
    set --
fi
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
    "$folder/bin/cargo-semver-checks" semver-checks --package "$crate" "${baseline[@]}"
done
