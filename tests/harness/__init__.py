"""What `run_scenarios.py` is made of: scenarios, traces, the runners of the languages, and real agents."""
