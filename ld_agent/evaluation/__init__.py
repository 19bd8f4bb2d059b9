"""Evaluation tasks, metrics, benchmarks and the papers' tables.

Whatever is given here and cannot be used (a file, a run, an option) raises an InputError, a broken record of a file a
DataFileError that names its line, and a model what `ld_agent.errors` says of it; docstrings do not repeat it.
"""
