"""Evaluation tasks, metrics, benchmarks and the papers' tables."""
