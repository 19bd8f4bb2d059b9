"""Tunes the generator:

python -m training.generator -c configs/training/generator.yaml [key=value ...] [--dry-run] [--overwrite]
"""

from training.train import main

if __name__ == "__main__":
    main("generator")
