# Two commands do all the set-up: `make demo` runs a swarm, `make test` runs the standard suite.
# They need make, Python 3.11 or newer and a package index; everything else goes into .venv.

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
WORKERS ?= 2
# One thread per worker: workers that each take every core only wait for one another.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Without bytecode every worker rewrites the assertions of all tests, and every process of a test
# compiles the package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all suite lint style types format docs bench audit sbom attacks clean

help:
	@echo "make demo      set up and watch the shipped law organise a swarm of 16"
	@echo "make test      set up, lint, run the standard suite (WORKERS=$(WORKERS)); make suite: without lint"
	@echo "make test-all  the same with the slow tests"
	@echo "make lint      ruff, mypy --strict (sources and tests), import-linter"
	@echo "make format    let ruff rewrite what it can"
	@echo "make docs      build the documentation into build/site, strict"
	@echo "make bench     cost of the runtime per local update"
	@echo "make attacks   every attack of the suite, and the table docs/attacks.md"
	@echo "make audit     known vulnerabilities of the installed packages (asks the network)"
	@echo "make sbom      software bill of materials, dist/sbom.json (CycloneDX)"
	@echo "make clean     remove caches and runs/, keep $(VENV)"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer found; install one or say make PYTHON=..." >&2; exit 2; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --upgrade-deps $(VENV) >/dev/null

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing waggle-swarm"
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-law: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing waggle-swarm with what its law runs on (torch is the large part)"
	@$(PIP) -e '.[law]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: $(BIN)/python pyproject.toml constraints.txt $(wildcard distributions/*/pyproject.toml)
	@echo "installing waggle-swarm with what the tests need (torch is the large part)"
	@$(PIP) -e '.[dev,all]' $(patsubst %/pyproject.toml,-e %,$(wildcard distributions/*/pyproject.toml))
	@touch $@ $(VENV)/.installed $(VENV)/.installed-law

demo: $(VENV)/.installed-law
	@$(BIN)/waggle demo

# What takes seconds comes first; types, which take a core for a minute, beside the suite. Where one of them fails, types
# are checked again (in seconds, from the cache), since what they said is lost among the dots of the suite.
test test-all: style
	@$(MAKE) --no-print-directory -j 2 types suite SUITE=$@ || { $(BIN)/mypy; exit 2; }

suite: $(VENV)/.installed-dev
	$(PYTEST) $(if $(filter test-all,$(SUITE)),--runslow)

lint: style types

style: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: $(VENV)/.installed-dev
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The suite builds the site, too, and compares the pages that these programs write with the code.
docs: $(VENV)/.installed-dev
	$(BIN)/python docs/tools/cli.py docs/cli.md
	$(BIN)/python docs/tools/recipes.py docs/recipes.md
	$(BIN)/python docs/tools/contract.py docs/views-and-decisions.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

bench: $(VENV)/.installed
	$(BIN)/waggle bench runtime

# Tools that look at the environment and are no part of it. Of `make audit`, error 1 means that something is known,
# error 2 that something could not be checked.
$(VENV)/.installed-audit $(VENV)/.installed-sbom: $(VENV)/.installed-%: $(VENV)/.installed-law
	@$(PIP) -e '.[$*]'
	@touch $@

audit: $(VENV)/.installed-audit
	@$(BIN)/python -m tools.audit

sbom: $(VENV)/.installed-sbom
	@mkdir -p dist
	$(BIN)/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml --output-reproducible -o dist/sbom.json

# The suite of attacks with its long ones; writes the table of the documentation.
attacks: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 0 tests/hostile --runslow --attack-table docs/attacks.md

clean:
	rm -rf build dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
