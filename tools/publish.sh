#!/usr/bin/env bash
# Publishes what is in a folder: publish.sh packages FOLDER to npm and PyPI, publish.sh crates FOLDER to crates.io. The crates are a
# step of their own because the token of crates.io is valid for half an hour. The credentials are the identity of the workflow.
# Nothing is published unless everything is there. A second attempt leaves out what the first has published.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# == 2 && $1 =~ ^(packages|crates)$ ]] || { echo "usage: tools/publish.sh packages|crates FOLDER" >&2; exit 2; }
folder=$(cd "$2" && pwd)
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
read -ra crates <<<"$(tools/release.py crates | tr '\n' ' ')"

# cargo publishes what it packages itself. So it has to package the same bytes here that were tried and attested.
check_crates() {
    local target crate
    [[ -z $(git status --porcelain) ]] || { git status --short; echo "publish from a commit: these files differ from it" >&2; exit 1; }
    # git ignores the page of the inspector, so cargo reports it as changed. Nothing else is, and the page is the one that was tried.
    tar -xzOf "$folder/kimi-agent-command-$version.crate" "kimi-agent-command-$version/inspector.html" >core/command/inspector.html
    target=$(mktemp -d)
    # shellcheck disable=SC2064 # the variable is gone when the program ends
    trap "rm -rf '$target'" EXIT
    CARGO_TARGET_DIR=$target cargo package -q --locked --allow-dirty --no-verify "${crates[@]/#/--package=}"
    for crate in "$folder"/*.crate; do
        cmp "$target/package/$(basename "$crate")" "$crate"
    done
}

publish_packages() {
    local tarball name wheels
    # An installation of kimi-agent needs the packages for systems, so they come first.
    for tarball in "$folder"/kimi-agent-[a-z]*.tgz "$folder/kimi-agent-$version.tgz"; do
        name=$(tar -xzOf "$tarball" package/package.json | node -p 'JSON.parse(fs.readFileSync(0, "utf8")).name')
        if [[ $(npm view "$name@$version" version 2>/dev/null) == "$version" ]]; then
            echo "$name $version is there"
        else
            npm publish --access public --provenance "$tarball"
        fi
    done
    # With the attestations, which lie next to the files. PyPI accepts a file again if it has not changed.
    wheels=("$folder"/*.whl "$folder"/*.tar.gz)
    uv publish --trusted-publishing always "${wheels[@]}" "${wheels[@]/%/.publish.attestation}"
}

publish_crates() {
    local missing=() crate said
    for crate in "${crates[@]}"; do
        if said=$(cargo info --registry crates-io "$crate@$version" 2>&1); then
            echo "$crate $version is there"
        elif [[ $said == *"could not find \`$crate"* ]]; then
            missing+=("--package=$crate")
        else
            echo "whether $crate $version is there is not known: $said" >&2
            exit 1
        fi
    done
    # In the order of their dependencies; cargo waits until each can be downloaded. `make test-crates` has compiled them.
    ((${#missing[@]} == 0)) || cargo publish --locked --allow-dirty --no-verify "${missing[@]}"
}

tools/release.py packages "$folder"
check_crates
"publish_$1"
