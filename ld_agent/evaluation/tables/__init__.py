"""The papers' tables, from runs. Plays nothing itself."""
