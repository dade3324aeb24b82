"""Faults of agents and of systems, played through the SDK in each language; `run.py` plays them."""
