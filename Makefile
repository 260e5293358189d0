# Two commands for people: `make demo` and `make test`. Python 3.11 or later (with its venv
# module) and make are all that must be there; everything else comes from the locks.

PY ?= python3
V ?= .venv
# The tests to run; all of them unless told otherwise: make test TESTS="tests/domain tests/http".
TESTS ?=
BIN := $(V)/bin
PACKAGES := staffbooking_core staffbooking_adapters staffbooking_http staffbooking_cli staffbooking_worker
SOURCES := $(PACKAGES) tests $(wildcard benchmarks)
TOO_OLD := Python 3.11 or later is needed: make PY=python3.12 ...

# Bytecode is kept whatever the environment says: in a fresh clone each process that the tests
# start would compile all that it loads (3.4 s of processor time in place of 1.3).
export PYTHONDONTWRITEBYTECODE :=

# uv is fast but knows nothing of pip's own configuration (mirrors, certificates), so pip
# takes over where uv cannot reach its registry, or could not be installed at all.
export UV_HTTP_RETRIES ?= 1
install = $(BIN)/uv pip install -q --python $(BIN)/python $(1) 2>/dev/null || $(BIN)/pip install -q $(1)
compile = $(BIN)/uv pip compile -q --universal --python-version 3.11 \
	--generate-hashes --no-header --no-emit-index-url --no-emit-find-links $(UPGRADE)

.PHONY: help demo test check bench bench-growth bench-money bench-webhooks bench-channel bench-people bench-pages bench-overload soak prove docs lock clean

help:
	@echo "make demo    run the service with sample data on SQLite, or make demo PORT=8080; prints where to look"
	@echo "make test    run the tests, on SQLite and on a PostgreSQL of their own"
	@echo "make check   format, lint, types, imports, locks, generated pages"
	@echo "make bench   measure against the yardstick, on PostgreSQL"
	@echo "make bench-growth   lists, feeds, exports and claims at 10,000 to 1,000,000 rows"
	@echo "make bench-money   reconcile 100,000 bookings, send 1,000 payouts at once"
	@echo "make bench-webhooks   deliveries per second, late retries, hanging receivers"
	@echo "make bench-channel   messages delivered per second to 200 and 2,000 connections"
	@echo "make bench-people   import and search 1,000 to 100,000 companions, or a MILLION=--million"
	@echo "make bench-overload   twice and ten times the load that can be served; the channel and the worker beside it"
	@echo "make bench-pages   server time of each page beside the JSON calls of its data"
	@echo "make soak    long races, endurance, examples by chance, planted bugs, a shard of histories, 400 kills"
	@echo "make prove   a quarter of an hour of simulation, planted bugs, races and kills, and its table"
	@echo "make kills   kills and partitions of processes on PostgreSQL, the short form"
	@echo "make simulate    histories of the whole system with faults: SEEDS=\"1 500\" STORE=memory|sqlite"
	@echo "make soak-simulation   a shard of 100,000 histories, an hour at most; goes on where the last ended"
	@echo "make planted       plant the bugs of tests/mutants, each to be found by the simulation and by a test"
	@echo "make clients       clients made from the OpenAPI document, and its Bruno collection, let people book"
	@echo "make journeys      people and all pages in a real browser, in two views"
	@echo "make journeys-all  the same in twelve: 360, 768, 1280 px, light and dark, with and without script"
	@echo "make screenshots   pictures of all pages, or PAGES=\"home search\", in build/screenshots"
	@echo "make installed     the wheel with each extra, in an environment of its own"
	@echo "make lowest        tests on the lowest versions that are allowed; make newest on the newest"
	@echo "make release KEY=~/.ssh/id_ed25519   build, check and sign the distributions in dist"
	@echo "make docs    remake the generated pages"
	@echo "make lock    remake the locks (UPGRADE=--upgrade for newer versions)"
	@echo "make clean   remove environments, caches and build results"

PORT ?=
demo: $(V)/.run
	PYTHONPATH=. $(BIN)/python -m staffbooking_cli.main demo $(if $(PORT),--port $(PORT))

# Each file runs in one process, so that its fixtures are made once. The files start in the order of
# `tests/conftest.py`, not in that of their numbers of tests.
BY_FILE := --dist loadfile --no-loadscope-reorder

test: $(V)/.dev
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 $(BY_FILE) $(TESTS)

check: $(V)/.dev
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/python -m tests.docs.page_types
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python -m pytest -q tests/architecture

bench: $(V)/.dev
	$(BIN)/python -m benchmarks

bench-growth: $(V)/.dev
	$(BIN)/python -m benchmarks.growth

bench-money: $(V)/.dev
	$(BIN)/python -m benchmarks.money

bench-webhooks: $(V)/.dev
	$(BIN)/python -m benchmarks.webhooks

bench-channel: $(V)/.dev
	$(BIN)/python -m benchmarks.channel

bench-pages: $(V)/.dev
	$(BIN)/python -m benchmarks.pages

bench-overload: $(V)/.dev
	$(BIN)/python -m benchmarks.overload

bench-people: $(V)/.dev
	$(BIN)/python -m benchmarks.companions measure $(MILLION)

soak: UNLIMITED := -o faulthandler_timeout=0
soak: $(V)/.dev
	RACE_ROUNDS=1000 RACE_CALLERS=64 $(BIN)/python -m pytest -q $(UNLIMITED) tests/contract/test_races.py \
		tests/contract/payments/test_payment_races.py
	$(BIN)/python -m pytest -q $(UNLIMITED) -m soak
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 $(UNLIMITED) \
		--hypothesis-profile=searching \
		tests/domain tests/usecases tests/adapters
	$(BIN)/python -m tests.mutants --again
	$(MAKE) soak-simulation
	$(BIN)/python -m tests.kills --store sqlite --kills 200 --record
	$(BIN)/python -m tests.kills --store postgresql --kills 200 --record

prove: $(V)/.dev
	$(BIN)/python -m tests.prove

.PHONY: kills
kills: $(V)/.dev
	$(BIN)/python -m pytest -q -m kills tests/kills

# One shard for each store, of at most half an hour: the next run goes on after its last seed. A history
# on SQLite takes six times as long.
.PHONY: simulate soak-simulation planted
SEEDS ?= 1 500
STORE ?= memory
JOBS ?= $(shell nproc)
simulate: $(V)/.dev
	$(BIN)/python -m tests.simulation $(SEEDS) --store $(STORE) --jobs $(JOBS)

SHARD := --jobs $(JOBS) --minutes 30 --results tests/simulation/results.csv
soak-simulation: $(V)/.dev
	$(BIN)/python -m tests.simulation 1 95000 $(SHARD)
	$(BIN)/python -m tests.simulation 1 5000 $(SHARD) --store sqlite

planted: $(V)/.dev
	$(BIN)/python -m tests.mutants

# The wheel in an environment of its own with each extra: what the extra is for works.
.PHONY: installed release sign lowest newest
installed: $(V)/.dev $(BIN)/uv
	$(BIN)/python -m pytest -q -m installed tests/packaging

DIST ?= dist
release: $(V)/.dev $(BIN)/uv
	@test -n "$(KEY)" || { echo "name a key to sign with: make release KEY=~/.ssh/id_ed25519" >&2; exit 1; }
	@test -z "$$(git status --porcelain)" || { echo "the work tree has changes that no commit has" >&2; exit 1; }
	rm -rf $(DIST)
	$(BIN)/python -m hatchling build -d $(DIST)
	DIST=$(DIST) $(BIN)/python -m pytest -q -m "installed or not installed" tests/packaging
	$(MAKE) sign

sign:
	cd $(DIST) && sha256sum *.whl *.tar.gz > SHA256SUMS
	rm -f $(DIST)/SHA256SUMS.sig
	ssh-keygen -Y sign -q -f $(KEY) -n staffbooking $(DIST)/SHA256SUMS

# What depends on other packages, on the lowest and on the newest versions that pyproject.toml
# allows. The newest are those of the day: the run tells of them, and does not fail.
BOUND_TESTS := tests/contract tests/http tests/adapters tests/mail
on_versions = $(BIN)/uv venv -q --clear --python $(BIN)/python $(1) \
	&& $(BIN)/uv pip sync -q --python $(1) $(2) \
	&& $(BIN)/uv pip install -q --python $(1) --no-deps --no-build-isolation -e . \
	&& $(1)/bin/python -m pytest -q -n auto --maxprocesses 4 $(BY_FILE) $(or $(TESTS),$(BOUND_TESTS))

lowest: $(V)/.dev $(BIN)/uv
	$(call on_versions,.venv-lowest,--require-hashes requirements-lowest.lock)

newest: $(V)/.dev $(BIN)/uv
	@mkdir -p build
	-$(BIN)/uv pip compile -q --upgrade --no-header --python $(BIN)/python pyproject.toml --extra all \
		--extra testing --group dev -o build/requirements-newest.txt \
		&& $(call on_versions,.venv-newest,build/requirements-newest.txt)

.PHONY: clients journeys journeys-all screenshots

# One browser and one server for each of two processes.
journeys: $(V)/.dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m journeys tests/journeys
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m journeys tests/e2e

journeys-all: export JOURNEY_VIEWS := all
journeys-all: journeys

# Clients that others generate from the document, and their generators in an environment apart.
clients: $(V)/.dev .venv-clients/.done
	$(BIN)/python -m pytest -q -m clients tests/clients

.venv-clients/.done: $(BIN)/python requirements-clients.lock
	@$(PY) -m venv .venv-clients
	@if .venv-clients/bin/pip install -q --require-hashes -r requirements-clients.lock; \
		then touch $@; else echo "without the generator of Python clients: no registry" >&2; fi

PAGES ?=
screenshots: $(V)/.dev
	$(BIN)/python -m tests.journeys.screenshots $(PAGES)

docs: $(V)/.dev
	$(BIN)/python -c "from staffbooking_core.domain.bookings.lifecycle_page import render_lifecycle_page; print(render_lifecycle_page())" > docs/lifecycle.md
	$(BIN)/python -m tests.docs.reference_pages
	$(BIN)/python -m tests.docs.bruno_collection

lock: $(BIN)/uv
	$(compile) pyproject.toml --extra all -o requirements.lock
	$(compile) pyproject.toml --extra all --extra testing --group dev -o requirements-dev.lock
	$(compile) pyproject.toml --extra all --extra testing --group dev --upgrade --resolution lowest-direct -o requirements-lowest.lock
	$(compile) --group lock -o requirements-uv.lock
	$(compile) --group clients -o requirements-clients.lock

clean:
	rm -rf .venv* build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(TOO_OLD)")'
	@echo "Making the environment $(V)..."
	@$(PY) -m venv $(V) || { rm -rf $(V); echo "$(PY) could not make $(V): on Debian, install python3-venv" >&2; exit 1; }
	@$(BIN)/pip install -q --require-hashes -r requirements-uv.lock 2>/dev/null || echo "without uv: pip installs, more slowly"

$(BIN)/uv: $(BIN)/python
	@test -x $@ || $(BIN)/pip install -q --require-hashes -r requirements-uv.lock

$(V)/.run: $(BIN)/python requirements.lock
	@echo "Installing what requirements.lock names, which may take a minute..."
	@$(call install,--no-deps --require-hashes -r requirements.lock)
	@touch $@

# The tests start many processes: none should have to compile what is installed.
$(V)/.dev: export UV_COMPILE_BYTECODE = 1
$(V)/.dev: $(BIN)/python requirements-dev.lock pyproject.toml
	@echo "Installing what requirements-dev.lock names, which may take a minute or two..."
	@$(call install,--no-deps --require-hashes -r requirements-dev.lock)
	@$(call install,--no-deps --no-build-isolation -e .)
	@touch $@ $(V)/.run
