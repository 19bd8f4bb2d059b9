"""Search over the records of one view of one conversation: `records.RecordIndex` is what the views use.

Knows records, vectors, words and times; no mechanism, prompt or SQL.
"""
