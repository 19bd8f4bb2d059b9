"""Adapters that offer a conversation's memory to other frameworks, one module each, imported only on use.

They know `ld_agent.conversation` and their framework; nothing in the package depends on them.
"""
