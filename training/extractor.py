"""Tunes the extractor:

python -m training.extractor -c configs/training/extractor.yaml [key=value ...] [--dry-run] [--overwrite]
"""

from training.train import main

if __name__ == "__main__":
    main("extractor")
