#!/usr/bin/env bash
# Tries the packages as somebody does who is new to them: run.sh PYTHON DIST AUDIT. AUDIT is the folder of abi3audit, auditwheel
# and twine. Each package is installed from DIST into a fresh
# place, without the network, and a program of ten lines runs there. The last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
python=$1
dist=$(cd "$2" && pwd)
audit=$3
programs=$root/tests/packages/programs
tools=$root/bindings-node/node_modules/.bin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

# check WHAT COMMAND…: the command must succeed, and is given to see if it doesn't.
check() {
    local what=$1
    shift
    if "$@" >"$scratch/out" 2>&1; then
        passed=$((passed + 1))
        echo "pass  $what"
    else
        failed=$((failed + 1))
        echo "FAIL  $what"
        sed 's/^/      /' "$scratch/out"
    fi
}

# prints TEXT COMMAND…: the command prints that text and nothing else.
prints() {
    local expected=$1 got
    shift
    got=$("$@") || return 1
    [[ $got == "$expected" ]] || { echo "expected: $expected"; echo "got:      $got"; return 1; }
}

# inside PLACE COMMAND…: runs it there.
inside() {
    (cd "$scratch/$1" && "${@:2}")
}

# holds LISTING FILE…: the listing has a line that ends with each of the files.
holds() {
    local listing=$1 file
    shift
    for file in "$@"; do
        grep -qE "(^|[ /])${file//./\\.}\$" "$listing" || { echo "$file is not in it"; return 1; }
    done
}

# inspects COMMAND…: the command kimi-agent of a package makes the real page of a recording.
inspects() {
    local page=$scratch/page.html
    rm -f "$page"
    "$@" inspect "$root/tests/recordings/wire.jsonl" -o "$page" || return 1
    [[ $(wc -c <"$page") -gt 100000 ]] || { echo "the page has $(wc -c <"$page") bytes"; return 1; }
    grep -q '"name":"wire.jsonl"' "$page" || { echo "the recording is not in the page"; return 1; }
}

# runs_agent COMMAND…: the command kimi-agent of a package runs a prompt with an agent that plays a recording, and compares it.
runs_agent() {
    local recording=$root/tests/recordings/wire.jsonl
    local agent=(-x "$scratch/venv/bin/kimi-scripted-agent" -x --play-recording -x "$recording")
    prints "There is a.txt." "$@" run --quiet "${agent[@]}" "List the files" || return 1
    prints "turns as recorded: 2 of 2" "$@" verify "$recording" "${agent[@]}"
}

# all_equal FILE FILE…: the others are copies of the first.
all_equal() {
    local first=$1 file
    shift
    for file in "$@"; do cmp "$first" "$file" || return 1; done
}

# count PATTERN FILE: how many lines match.
count() {
    grep -cE "$1" "$2" || true
}

# fits_its_name WHEEL: auditwheel finds the tag that is in the name.
fits_its_name() {
    local found
    found=$("$audit/auditwheel" show "$1" | tr '\n' ' ' | sed -n 's/.* following platform tag: *"\([^"]*\)".*/\1/p')
    [[ -n $found && $(basename "$1") == *"$found"* ]] || { echo "auditwheel found: $found"; "$audit/auditwheel" show "$1"; return 1; }
}

# only_one FILE…: what there is of a kind of package.
only_one() {
    [[ $# == 1 && -f $1 ]] || { echo "expected one package, found: $*" >&2; exit 1; }
    echo "$1"
}

size() {
    printf '      %s: %s kB\n' "$(basename "$1")" "$((($(wc -c <"$1") + 999) / 1000))"
}

wheel=$(only_one "$dist"/*.whl)
tarball=$(only_one "$dist"/kimi-agent-[0-9]*.tgz)
native=$(only_one "$dist"/kimi-agent-[a-z]*.tgz)
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

# --- Python ---

"$python" -m venv "$scratch/venv"
new=$scratch/venv/bin/python
mkdir "$scratch/python" && cp "$programs"/*.py "$scratch/python"
check "the wheel installs without anything else" "$new" -m pip install -q --no-index "$wheel"
check "the wheel is what it should be" "$new" "$root/tests/packages/wheel.py" "$wheel" "$version" "$root"
check "Python, with coroutines" prints "hello world" inside python "$new" coroutines.py
check "Python, blocking" prints "hello world" inside python "$new" blocking.py
check "Python, @tool without its packages" \
    prints '@tool needs pydantic 2 and griffe: pip install "kimi-agent[tools]"' inside python "$new" tool.py
check "the command kimi-agent of the wheel" inspects "$scratch/venv/bin/kimi-agent"
check "the command kimi-agent of the wheel runs an agent" runs_agent "$scratch/venv/bin/kimi-agent"
check "abi3audit: the wheel uses nothing but the stable ABI of Python 3.10" "$audit/abi3audit" --strict "$wheel"
if [[ $(uname) == Linux ]]; then
    check "auditwheel: the wheel fits the systems that its name tells" fits_its_name "$wheel"
fi
check "twine accepts the metadata of the wheel" "$audit/twine" check --strict "$wheel"
size "$wheel"

# --- Node ---

mkdir "$scratch/node" && cp "$programs"/*.{mjs,cjs,mts} "$scratch/node"
tar -tzf "$tarball" >"$scratch/listing"
check "the tarball holds what it must" holds "$scratch/listing" \
    LICENSE README.md package.json dist/index.js dist/index.mjs dist/index.d.ts dist/index.d.mts dist/wire.d.ts \
    dist/testing.js dist/testing.mjs dist/scripted-agent.cjs dist/command.cjs
check "the tarball holds no native file" prints 0 count "\.node$" "$scratch/listing"
tar -tzf "$native" >"$scratch/listing"
check "the tarball of this system holds what it must" holds "$scratch/listing" \
    LICENSE THIRD-PARTY-LICENSES.txt sbom.cdx.json README.md package.json
tar -xzOf "$native" package/sbom.cdx.json | sed -n 's/^   "name": "\(.*\)",/\1/p' >"$scratch/parts"
check "its bill of materials has crates, npm packages and the standard library" holds "$scratch/parts" \
    serde_json diff preact rust-std
check "the tarball of this system holds one native file" prints 1 count "\.node$" "$scratch/listing"
(cd "$scratch/node" && echo '{"private": true}' >package.json)
check "the tarballs install without anything else" \
    inside node npm install --silent --no-audit --no-fund --offline "$tarball" "$native"
installed=$scratch/node/node_modules
check "nothing else is installed" prints $'@kimi-agent\nkimi-agent' ls "$installed"
check "the version is the workspace's" prints "$version" node -p "require('$installed/kimi-agent/package.json').version"
check "the license is the project's" cmp LICENSE "$installed/kimi-agent/LICENSE"
check "Node, import" prints "hello world" inside node node esm.mjs
check "Node, require" prints "hello world" inside node node commonjs.cjs
check "the command kimi-agent of the tarball" inspects "$installed/.bin/kimi-agent"
check "the command kimi-agent of the tarball runs an agent" runs_agent "$installed/.bin/kimi-agent"
# A comma in the path would be the end of it.
ln -s "$root/bindings-node/node_modules/@types" "$scratch/types"
check "TypeScript accepts the types" inside node \
    "$tools/tsc" --strict --module nodenext --target es2022 --lib es2023,esnext.disposable \
    --types node --typeRoots ../types typed.mts
check "Node, compiled from TypeScript" prints "hello world" inside node node typed.mjs
check "publint finds nothing in the tarball" "$tools/publint" --strict "$tarball"
check "publint finds nothing in the tarball of this system" "$tools/publint" --strict "$native"
check "attw finds the types of all entries" "$tools/attw" "$tarball"
size "$tarball"
size "$native"

# --- Rust ---

for crate in $(tools/release.py crates); do
    needed=(LICENSE Cargo.toml src/lib.rs)
    [[ $crate != kimi-agent ]] || needed+=(README.md)
    [[ $crate != kimi-agent-command ]] || needed+=(README.md inspector.html)
    cargo package -q -p "$crate" --allow-dirty --no-verify --list >"$scratch/listing"
    check "the crate $crate holds what it must" holds "$scratch/listing" "${needed[@]}"
done
check "the licence of each crate is the project's" all_equal LICENSE core/*/LICENSE

echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
