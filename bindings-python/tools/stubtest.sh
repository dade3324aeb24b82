#!/usr/bin/env bash
# Compares the stub of the native module, and the whole package, with what is installed in an environment.
set -eu
venv=$(cd "$1" && pwd)
# Elsewhere, or mypy would find the sources next to it instead of what is installed.
cd "$(mktemp -d)"
exec "$venv/bin/python" -m mypy.stubtest kimi_agent
