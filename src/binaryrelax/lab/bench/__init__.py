"""Benchmarks: what a step costs, and what a projection costs."""
