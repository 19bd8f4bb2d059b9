"""Tuning the three modules: corpora to training rows (`build`), rows to a LoRA adapter (`train`), one script a module.

Lives next to the package and is not part of the wheel; run it from a checkout.
"""
