"""Search over the records of one view of one conversation: `base.Index` is the interface, the rest is the in-memory index.

Knows records, vectors, words and times; no mechanism, prompt or SQL.
"""
