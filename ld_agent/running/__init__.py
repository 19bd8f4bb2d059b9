"""Keeps agents going: loaded parts, locks, background work, streams, replays, Ray. Knows no paper and no prompt."""
