"""Search over the records of one view of one conversation: `base.Index` is the seam, the rest is the index in memory.

Knows records, vectors, words and times; no mechanism, no prompt and no SQL.
"""
