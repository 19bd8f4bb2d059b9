"""Tuning the three modules: corpora to training rows (`build`), rows to a LoRA adapter (`train`), one script a module.

Lives beside the package and is no part of the wheel; run it from a checkout.
"""
