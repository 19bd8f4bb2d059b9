"""Measures: speed on this machine now; the papers' tables and metrics join it here."""
