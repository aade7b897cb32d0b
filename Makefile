# Two commands do everything: `make run` (the main job, from plan to proof) and `make test` (all checks, then all tests).
PYTHON ?= python3
BIN := .venv/bin
# a third of the slow tests' time is waiting, for browsers, sockets and other processes: one worker more than cores
WORKERS = $$(($$(getconf _NPROCESSORS_ONLN) + 1))

# compiled modules are kept, whatever the shell says: uv compiles nothing, and each command would compile all it imports
export PYTHONDONTWRITEBYTECODE =

.PHONY: run test test-all check fast lint prepared prepared-all bench docs wheel lock clean

run: .venv/.run-ready ## install what the main job needs and run it: two run configs on real data, from plan to report
	$(BIN)/epsilog run $$(scripts/demo-data fashion-mnist && echo examples/fashion.toml || echo examples/central.toml) examples/local.toml

test: .venv/.dev-ready ## install everything, run all checks, then the tests that each change must pass
	$(MAKE) --jobs=2 lint prepared
	$(BIN)/python -m pytest -m "not extended" --numprocesses $(WORKERS) --dist worksteal

test-all: .venv/.dev-ready ## every test: also those with peers, in all browser pages, and every case and example
	$(MAKE) --jobs=2 lint prepared-all
	EPSILOG_TEST_ALL=1 $(BIN)/python -m pytest -m "" --numprocesses $(WORKERS) --dist worksteal

check: .venv/.dev-ready ## everything that takes about a minute
	$(MAKE) --jobs=3 --output-sync=target lint docs fast

fast: .venv/.dev-ready ## the fast tests, and of those with many cases a part
	EPSILOG_TEST_FEW=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: .venv/.dev-ready ## format, lint, strict types, import contract
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

prepared: .venv/.dev-ready ## what tests need beside the environment: pages, system packages, data
	$(BIN)/python hatch_build.py
	scripts/system-packages
	scripts/demo-data fashion-mnist

prepared-all: prepared ## and the peers' environments
	scripts/peer-environments

bench: .venv/.dev-ready ## measure ourselves beside the peers; figures go to bench/RESULTS.md by hand, with their date
	$(BIN)/python -m bench

docs: .venv/.dev-ready ## build the docs, warnings as errors; `epsilog serve` shows them at /docs
	$(BIN)/python hatch_build.py docs

wheel: docs ## what a release uploads: pages and docs inside
	$(BIN)/python -m hatchling build

# The lock files hold versions and hashes only; `requirements/run.txt` is what `make run` installs.
.venv/.run-ready: requirements/run.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	scripts/install-packages $(BIN)/python --require-hashes -r requirements/run.txt
	scripts/install-packages $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

.venv/.dev-ready: .venv/.run-ready requirements/dev.txt
	scripts/install-packages $(BIN)/python --require-hashes -r requirements/dev.txt
	touch $@

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header
lock: ## recompute the lock files from pyproject.toml (needs uv)
	$(LOCK) --extra all --extra demo --group build --group dev pyproject.toml -o requirements/dev.txt
	$(LOCK) -c requirements/dev.txt --extra train --extra demo --extra data --extra server --group build pyproject.toml -o requirements/run.txt

clean:
	rm -rf .venv .venvs src/epsilog/server/built_docs .mypy_cache .ruff_cache .pytest_cache .hypothesis
