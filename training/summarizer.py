"""Tunes the summarizer:

python -m training.summarizer -c configs/training/summarizer.yaml [key=value ...] [--dry-run] [--overwrite]
"""

from training.train import main

if __name__ == "__main__":
    main("summarizer")
