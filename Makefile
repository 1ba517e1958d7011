# Everything from a fresh clone: `make demo` shows what Lookalike does, `make test` is all that CI runs.
PYTHON ?= python3
BIN := .venv/bin
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder  # tests/conftest.py says which files begin

.PHONY: demo test lint check coverage lock clean

demo: .venv/installed
	$(BIN)/lookalike --collection demo/collection demo demo/pictures

test: lint check

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell

check: .venv/installed .venv/torch .venv/browser
	$(BIN)/python -m pytest $(WORKERS)

# Lines and branches that the tests reach, other processes included; fails below what pyproject.toml asks for.
coverage: .venv/installed .venv/torch .venv/browser
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(WORKERS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# The locked versions with their hashes, then the package itself, in place.
.venv/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# torch stands outside the lock: each platform has its own build, and the tests want one for the CPU.
.venv/torch: .venv/installed
	$(BIN)/pip install --quiet torch==2.13.0
	touch $@

# The page is tested in Debian's Chromium, where there is one or it can be installed; elsewhere those tests are skipped.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
.venv/browser: .venv/installed
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
		|| ($(ROOT) apt-get update -qq && $(ROOT) apt-get install -qq --yes --no-install-recommends chromium) \
		|| echo "No Chromium here, and it cannot be installed (apt-get install chromium): the page is not tested."
	touch $@

# Pin anew what pyproject.toml asks for. No index address is written.
lock:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet --upgrade -o requirements.txt

clean:
	rm -rf .venv demo
