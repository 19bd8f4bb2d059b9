"""Adapters that give a conversation's memory to other frameworks, a module each, imported only by those who use it.

They know `ld_agent.conversation` and their framework; nothing in the package knows them.
"""
