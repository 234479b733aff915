"""Measurements that can be repeated; `tools.benchmark_input` and its like print them."""
