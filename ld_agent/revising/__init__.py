"""What people change in their memory: texts corrected and forgotten by hand, and on request in the chat.

Everything that says the same follows. Asks no model, and knows no server and no page.
"""
