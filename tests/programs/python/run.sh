#!/usr/bin/env bash
# Runs the trial programs in Python as a user would, with the wheel in an environment of their own: run.sh PYTHON DIST.
# `fetch` in place of DIST only installs what the programs need.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
python=${1:-python3}
dist=${2:-$root/.cache/packages}
venv=$root/.cache/venv-programs
if ! cmp -s "$here/requirements.txt" "$venv/.requirements"; then
    "$python" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install -q -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$venv/.requirements"
fi
[[ $dist != fetch ]] || exit 0
"$venv/bin/python" -m pip install -q --force-reinstall --no-deps "$dist"/*.whl
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$here"
