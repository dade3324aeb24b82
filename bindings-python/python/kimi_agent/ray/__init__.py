"""Prompts on a cluster of Ray. Needs the extra `ray`: `pip install "kimi-agent[ray]"`.

`map_prompts` runs a prompt for each row of a dataset of Ray Data. `run_batch(…, on="ray")` runs the jobs of a batch on
a cluster, and `on=ActorPool(…)` sets the sizes of its pool. Ray decides which machine an actor runs on, starts actors
again that were lost with their machine, and adds machines if the cluster has an autoscaler.

>>> import ray
>>> from kimi_agent.ray import map_prompts
>>> dataset = ray.data.from_items([{"question": "What is in this directory?"}])
>>> answered = map_prompts(dataset, "question", output_column="answer", concurrency=(1, 8), work_dir=".")
>>> answered.take_all()[0]["answer"]
'There are 3 files.'
"""

from __future__ import annotations

from ._actors import ActorPool
from ._data import RowPrompt, map_prompts

__all__ = ["ActorPool", "RowPrompt", "map_prompts"]
