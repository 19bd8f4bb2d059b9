"""The agent behind an address: OpenAI's protocol, the memory over HTTP, and a page to look into it.

Knows HTTP, keys and tenants. Of the agent it knows the public face alone; prompts, models and SQL stay where they are.
"""
