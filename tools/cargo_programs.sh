#!/usr/bin/env bash
# The cargo that maturin runs for the development wheel. maturin would compile the Python package by itself, and its dependencies
# once more with other features. This compiles it together with all other programs, as .cargo/config.toml says.
set -eu
[ "${1:-}" = rustc ] || exec cargo "$@"
cd "$(dirname "$0")/.."
# About the interpreter, which the stable ABI does not need. With them PyO3 would be compiled again.
unset PYO3_BUILD_EXTENSION_MODULE PYO3_CONFIG_FILE PYO3_ENVIRONMENT_SIGNATURE PYO3_PYTHON
exec cargo programs --message-format=json-render-diagnostics
