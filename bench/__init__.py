"""Benchmarks of ampcast against its peers: `python -m bench --help`."""
