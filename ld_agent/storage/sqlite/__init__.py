"""The store in one SQLite file. Knows no recall and no model."""
