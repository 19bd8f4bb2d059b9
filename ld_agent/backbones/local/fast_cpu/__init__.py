"""The Llama family on a CPU, faster than by transformers."""
