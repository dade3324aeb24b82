"""A cluster of Ray on this machine: a head and two nodes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Before the first import of Ray.
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
from ray.cluster_utils import Cluster
from support import Gate

from kimi_agent.testing import scripted_agent

# The complete program of the guide.
sys.path.append(str(Path(__file__).resolve().parents[2] / "bindings-python/tests"))
pytest.register_assert_rewrite("complete_program")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the examples first. Ray prints a message about a killed node much later, which would be in their output."""
    items.sort(key=lambda item: item.path.name != "test_examples.py")


def provider_for(spans: Path) -> Callable[[], None]:
    """Returns a function that sets a provider of OpenTelemetry in a worker. It appends each span to a file."""

    # Local, because workers cannot import this module.
    def set_provider() -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

        class Appending(SpanProcessor):
            def on_end(self, span: ReadableSpan) -> None:
                context, parent = span.get_span_context(), span.parent
                found = {"name": span.name, "trace": context and context.trace_id, "parent": parent and parent.span_id}
                with spans.open("a") as file:
                    file.write(json.dumps(found) + "\n")

        provider = TracerProvider()
        provider.add_span_processor(Appending())
        trace.set_tracer_provider(provider)

    return set_provider


@pytest.fixture(scope="session")
def worker_spans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the spans of the workers, a line of JSON each."""
    return tmp_path_factory.mktemp("spans") / "spans.jsonl"


@pytest.fixture(scope="session")
def cluster(worker_spans: Path) -> Iterator[Cluster]:
    """The cluster that this program is connected to. Its actors have a default agent, for examples."""
    # Nodes inherit the environment of this program.
    os.environ["KIMI_AGENT_EXECUTABLE"] = json.dumps(scripted_agent([[{"text": "There are 3 files."}]]))
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    found.add_node(num_cpus=1)
    environment = {"worker_process_setup_hook": provider_for(worker_spans)}
    ray.init(address=found.address, log_to_driver=False, runtime_env=environment)
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.fixture
def node(cluster: Cluster) -> Iterator[object]:
    """A further node, which the test can kill."""
    found = cluster.add_node(num_cpus=1)
    yield found
    if found in cluster.worker_nodes:
        cluster.remove_node(found)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """Holds agents in the middle of their turns."""
    return Gate(tmp_path)
