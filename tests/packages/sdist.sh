#!/usr/bin/env bash
# Tries the source distribution as pip does on a system that has no wheel: sdist.sh PYTHON SDIST CACHE. It is compiled with the Rust
# that is here, and a program runs. For a Python without the global interpreter lock it is refused. CACHE keeps compiled crates.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1
sdist=$2
export CARGO_TARGET_DIR=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tar -tzf "$sdist" >"$scratch/listing"
for file in LICENSE THIRD-PARTY-LICENSES.txt sbom.cdx.json core/protocol/LICENSE; do
    grep -q "^[^/]*/$file\$" "$scratch/listing" || { echo "FAIL  $file is not in the source distribution"; exit 1; }
done
echo "pass  the source distribution has its licences and its bill of materials"

"$python" -m venv "$scratch/venv"
new=$scratch/venv/bin/python
"$new" -m pip install -q --no-deps "$sdist"
cp tests/packages/programs/{coroutines,blocking}.py "$scratch"
for program in coroutines blocking; do
    said=$(cd "$scratch" && "$new" "$program.py")
    [[ $said == "hello world" ]] || { echo "FAIL  $program.py from the source distribution: $said"; exit 1; }
done
echo "pass  the source distribution compiles, and its programs run"
for file in LICENSE THIRD-PARTY-LICENSES.txt; do
    compgen -G "$scratch/venv/lib/python*/site-packages/kimi_agent-*.dist-info/licenses/$file" >/dev/null ||
        { echo "FAIL  $file is not in the metadata of the package that pip built"; exit 1; }
done
echo "pass  the package that pip built has its licences"

# As PyO3 would describe that interpreter.
cat >"$scratch/pyo3.txt" <<'END'
implementation=CPython
version=3.14
shared=true
build_flags=Py_GIL_DISABLED
suppress_build_script_link_lines=false
END
mkdir "$scratch/source" && tar -xzf "$sdist" -C "$scratch/source" --strip-components=1
if PYO3_CONFIG_FILE=$scratch/pyo3.txt cargo check -q --offline --manifest-path "$scratch/source/bindings-python/Cargo.toml" 2>"$scratch/err"; then
    echo "FAIL  the source distribution compiles for free-threaded Python" && exit 1
fi
grep -q "kimi-agent does not support free-threaded Python. Install it in a Python with" "$scratch/err" ||
    { echo "FAIL  the refusal of free-threaded Python:"; cat "$scratch/err"; exit 1; }
echo "pass  the source distribution is refused for free-threaded Python"
