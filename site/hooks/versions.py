"""Shows the list of versions only in a site that has several: `mike` builds it, and serves it."""

from __future__ import annotations

import os
from typing import Any


def on_config(config: Any) -> Any:
    if "MIKE_DOCS_VERSION" not in os.environ:
        config.extra.pop("version", None)
    return config
