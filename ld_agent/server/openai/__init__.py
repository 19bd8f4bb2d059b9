"""The OpenAI-compatible routes: chat completions and responses. Knows no SQL."""
