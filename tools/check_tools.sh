#!/usr/bin/env bash
# Says which of the needed tools is missing or too old. The argument is the Python to use.
set -u
missing=0
complain() {
    echo "missing: $1" >&2
    missing=1
}
command -v cargo >/dev/null || complain "Rust (stable) with cargo; see https://rustup.rs"
"$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    complain "Python 3.10 or later with venv (tried $1; PYTHON=… names another)"
node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)' 2>/dev/null || complain "Node 20 or later"
command -v npm >/dev/null || complain "npm"
exit $missing
