"""Tunes the modules: corpora to training rows (`build`), rows to a LoRA adapter (`train`), one script per module.

Not part of the wheel; run it from a checkout.
"""
