#!/usr/bin/env bash
# Runs the demo in three languages: demo.sh PYTHON [AGENT]. Without an agent the scripted one plays; AGENT=kimi is the one
# on PATH. Each gets a directory of its own with the same mistake in it.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
agent=${2:-}
if [[ -n $agent ]] && ! command -v "$agent" >/dev/null; then
    echo "there is no \`$agent\` on PATH; Kimi Code brings \`kimi\`: npm install -g @moonshot-ai/kimi-code" >&2
    exit 1
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The folder in which Node looks for the package.
mkdir -p demo/node_modules && ln -sfn ../../bindings-node demo/node_modules/kimi-agent
cargo programs -q

run() {
    local language=$1 program=$2
    local dir=$scratch/$language
    shift 2
    mkdir "$dir" && cp demo/prices.py "$dir"
    printf '\n=== %s: %s\n' "$language" "$program"
    "$@" "$dir" "$agent"
    # The file after the turn.
    { diff demo/prices.py "$dir/prices.py" || true; } | sed -n 's/^</-/p; s/^>/+/p'
}

run Python demo/demo.py "$python" demo/demo.py
run Node demo/demo.mjs node demo/demo.mjs
run Rust core/kimi-agent/examples/demo.rs "${CARGO_TARGET_DIR:-target}/debug/examples/demo"
