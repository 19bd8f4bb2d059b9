"""What ``ld-agent bench`` measures on this machine: recall, a turn, the memory mechanisms, training. Knows no terminal's
tables; models that answer are scripted unless their speed is the question.
"""
