"""Ratings by people or a judge: forms, verdicts, agreement. Plays nothing itself."""
