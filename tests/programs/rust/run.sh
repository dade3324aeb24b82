#!/usr/bin/env bash
# Builds the programs of this folder and runs their tests: run.sh PYTHON DIST. The crate is that of the tree.
# `fetch` in place of DIST only downloads what the programs need.
set -euo pipefail
cd "$(dirname "$0")"
[[ ${2:-} != fetch ]] || exec cargo fetch -q --locked
exec cargo test -q --locked -p cookbook-programs
