"""A command in front of an agent, as `kubectl exec` is. Only the agent behind it has the variable SCENARIO_PLACE."""

import os
import subprocess
import sys

os.environ["SCENARIO_PLACE"] = "inside"
if sys.platform == "win32":
    sys.exit(subprocess.call(sys.argv[1:]))
os.execv(sys.argv[1], sys.argv[1:])
