"""Everything that is stored, in SQLite or PostgreSQL, and its exports. Knows no model, no prompt and no score."""
