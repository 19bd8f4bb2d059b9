"""What may be stored and said: the learned check, what it keeps of a model's words, and what sentences do.

Knows no prompt, no store and no model that writes.
"""
