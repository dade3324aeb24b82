#!/usr/bin/env bash
# Runs the programs of this folder with the npm package as it is installed: run.sh PYTHON DIST.
# `fetch` in place of DIST only installs what the programs need.
set -euo pipefail
cd "$(dirname "$0")"
dist=$2
[[ node_modules/.ready -nt package-lock.json ]] || { npm ci --no-audit --no-fund --loglevel=error && touch node_modules/.ready; }
[[ $dist != fetch ]] || exit 0
node ../../../bindings-node/scripts/unpack.mjs "$dist" node_modules
PYTHON=$1 npm test --silent
