# From a fresh clone, `make demo` shows what Lookalike does and `make test` runs everything that CI runs.
PYTHON ?= python3
BIN := .venv/bin
WORKERS := -n 3 --dist loadfile --no-loadscope-reorder  # tests/conftest.py decides which files start first

.PHONY: demo test lint check coverage docs gallery peers lock clean

demo: .venv/installed
	$(BIN)/lookalike --collection demo/collection demo demo/pictures

test: lint check

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell

check: .venv/installed .venv/torch .venv/browser .venv/proxies
	$(BIN)/python -m pytest $(WORKERS) --durations=10

# Line and branch coverage, including child processes; fails below the threshold in pyproject.toml.
coverage: .venv/installed .venv/torch .venv/browser .venv/proxies
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(WORKERS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# Build the manual in site/. A broken link, or a file that would be loaded from another host, fails the build.
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html, or: python3 -m http.server --bind 127.0.0.1 --directory site"

# Redraw the gallery from examples/ and the plots of the method pages from their tables.
gallery: .venv/installed
	$(BIN)/python docs-build/gallery.py
	$(BIN)/python docs-build/figures.py

# Install the locked versions, checked by hash, then the package itself in editable mode.
.venv/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# The tools that build the manual (115 MB) have their own lock file; the demo and the tests do not need them.
.venv/docs: .venv/installed requirements-docs.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements-docs.txt
	touch $@

# torch is not in the lock file: each platform has its own build, and the tests use the CPU build.
.venv/torch: .venv/installed
	$(BIN)/pip install --quiet torch==2.13.0
	touch $@

# The web page is tested in Debian's Chromium. If it is missing and cannot be installed, those tests are skipped.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
.venv/browser: .venv/installed
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
		|| ($(ROOT) apt-get update -qq && $(ROOT) apt-get install -qq --yes --no-install-recommends chromium) \
		|| echo "Chromium is missing and cannot be installed (apt-get install chromium): skipping the tests of the web page."
	touch $@

# docs/proxy is tested with Debian's nginx and Caddy. If they are missing and cannot be downloaded, those tests are skipped.
# The packages are unpacked, not installed: their installation scripts would start two web servers.
.venv/proxies: .venv/installed
	@mkdir -p $@
	@cd $@ && PATH="$$PATH:/usr/sbin" && (command -v nginx && command -v caddy) \
		|| ((apt-get download -qq nginx caddy || ($(ROOT) apt-get update -qq && apt-get download -qq nginx caddy)) \
			&& for package in *.deb; do dpkg -x $$package . || exit; done && usr/sbin/nginx -v && usr/bin/caddy version) \
		|| (rm -rf usr; echo "nginx or Caddy is missing and cannot be downloaded (apt-get): skipping the tests of docs/proxy.")
	touch $@

# metric-learn, for `lookalike bench run peers`. It needs an older scikit-learn than ours. If it cannot be installed, the
# benchmark skips its rows.
peers: .venv-peers/installed

.venv-peers/installed: requirements-peers.txt
	$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/pip install --quiet --require-hashes -r requirements-peers.txt && touch $@ \
		|| (rm -rf .venv-peers; echo "metric-learn cannot be installed: the benchmark skips its rows.")

# Update the lock files from pyproject.toml. They contain no address of a package index.
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet
lock:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet uv
	$(COMPILE) pyproject.toml --extra dev --upgrade -o requirements.txt
	$(COMPILE) pyproject.toml --extra docs --constraint requirements.txt --upgrade -o requirements-docs.txt
	$(COMPILE) --group peers --upgrade -o requirements-peers.txt

clean:
	rm -rf .venv .venv-peers demo site
