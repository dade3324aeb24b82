#!/usr/bin/env bash
# Publishes the packages in a folder to the registries of npm, Python and Rust: publish.sh FOLDER. It takes the identity of the
# workflow as its credentials, and leaves out what a former attempt has published.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
tools/release.py packages "$folder"

# An installation of kimi-agent needs the packages for systems, so they come first.
for tarball in "$folder"/kimi-agent-[a-z]*.tgz "$folder/kimi-agent-$version.tgz"; do
    name=$(tar -xzOf "$tarball" package/package.json | node -p 'JSON.parse(fs.readFileSync(0, "utf8")).name')
    if [[ $(npm view "$name@$version" version 2>/dev/null) == "$version" ]]; then
        echo "$name $version is there"
    else
        npm publish --access public --provenance "$tarball"
    fi
done

uv publish --trusted-publishing always "$folder"/*.whl "$folder"/*.tar.gz

# The crate of the command contains the page of the inspector.
make inspector
# In the order of their dependencies; cargo waits until each can be downloaded.
for crate in kimi-agent-protocol kimi-agent-policy kimi-agent-files kimi-agent-testing kimi-agent-client kimi-agent-command kimi-agent; do
    if cargo info --registry crates-io "$crate@$version" >/dev/null 2>&1; then
        echo "$crate $version is there"
    else
        cargo publish --locked -p "$crate"
    fi
done
