"""The routes under /v1/memory: what is known of a person. Knows no prompt."""
