#!/usr/bin/env bash
# Compares the stub of the native module, and the whole package, with what is installed in an environment.
set -eu
venv=$(cd "$1" && pwd)
# Elsewhere, or mypy would find the sources next to it instead of what is installed.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
# It takes a `Literal` of several values for a union, which it then does not find at run time. The methods of `Opening`,
# `Replay`, `Batch` and `_hints.py` raise an error with the remedy. They are hidden from type checkers, which refuse a plain `with`, `await` or `for`.
# Two errors always have the `result` that other errors may have: their constructors set it, and not the class.
cat >allowed <<'EOF'
kimi_agent._errors.BudgetExceeded.result
kimi_agent._errors.OutputInvalid.result
kimi_agent._errors.RpcErrorCode
kimi_agent._option_types.Dialect
kimi_agent._hook_types.HookEvent
kimi_agent.testing.script.ScriptSignal
kimi_agent.testing.script.ScriptStatus
kimi_agent.ray._data.OnError
kimi_agent._batch.Batch.__await__
kimi_agent._batch.Batch.__iter__
kimi_agent._opening.Opening.__enter__
kimi_agent._opening.Opening.__exit__
kimi_agent._turn.Replay.__await__
kimi_agent._hints.CoroutinesOnly.__enter__
kimi_agent._hints.CoroutinesOnly.__exit__
kimi_agent._hints.CoroutinesOnly.__iter__
kimi_agent._hints.MadeByFunction.__new__
kimi_agent._hints.Property.__call__
EOF
"$venv/bin/python" -m mypy.stubtest kimi_agent --allowlist allowed
