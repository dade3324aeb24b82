"""The parts of `run_scenarios.py`: scenarios, traces, the runners of the languages, and real agents."""
