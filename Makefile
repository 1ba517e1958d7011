# Everything from a fresh clone: `make demo` shows what Lookalike does, `make test` is all that CI runs.
PYTHON ?= python3
BIN := .venv/bin
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder  # tests/conftest.py says which files begin

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

# Lines and branches that the tests reach, other processes included; fails below what pyproject.toml asks for.
coverage: .venv/installed .venv/torch .venv/browser .venv/proxies
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(WORKERS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# The site of docs/, in site/. Strict: a link that leads nowhere, or a file from an outside address, ends the build.
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html, or: python3 -m http.server --bind 127.0.0.1 --directory site"

# The pictures of the gallery, drawn anew by examples/, and figures of tables of the method pages.
gallery: .venv/installed
	$(BIN)/python docs-build/gallery.py
	$(BIN)/python docs-build/figures.py

# The locked versions with their hashes, then the package itself, in place.
.venv/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# What builds the site has a lock of its own: 115 MB that neither the demo nor the tests need.
.venv/docs: .venv/installed requirements-docs.txt
	$(BIN)/pip install --quiet --require-hashes -r requirements-docs.txt
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

# The files of docs/proxy are tested with Debian's nginx and Caddy; where there are none, those tests are skipped. The
# packages are unpacked, not installed: their installation scripts would start two web servers.
.venv/proxies: .venv/installed
	@mkdir -p $@
	@cd $@ && PATH="$$PATH:/usr/sbin" && (command -v nginx && command -v caddy) \
		|| ((apt-get download -qq nginx caddy || ($(ROOT) apt-get update -qq && apt-get download -qq nginx caddy)) \
			&& for package in *.deb; do dpkg -x $$package . || exit; done && usr/sbin/nginx -v && usr/bin/caddy version) \
		|| (rm -rf usr; echo "No nginx or Caddy here, and they cannot be downloaded (apt-get): docs/proxy is not tested.")
	touch $@

# metric-learn, which needs an older scikit-learn than ours, for `lookalike bench run peers`. Without a network its rows
# are left out.
peers: .venv-peers/installed

.venv-peers/installed: requirements-peers.txt
	$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/pip install --quiet --require-hashes -r requirements-peers.txt && touch $@ \
		|| (rm -rf .venv-peers; echo "metric-learn cannot be installed here: the bench leaves its rows out.")

# Pin anew what pyproject.toml asks for. No index address is written.
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet
lock:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet uv
	$(COMPILE) pyproject.toml --extra dev --upgrade -o requirements.txt
	$(COMPILE) pyproject.toml --extra docs --constraint requirements.txt --upgrade -o requirements-docs.txt
	$(COMPILE) --group peers --upgrade -o requirements-peers.txt

clean:
	rm -rf .venv .venv-peers demo site
