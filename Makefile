# Two commands do everything on a machine with Python, make and git:
#   make demo   trains and evaluates on the embedded dataset, ends with a table and a report
#   make test   lints and tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export TF_CPP_MIN_LOG_LEVEL ?= 2
export PYTHONUNBUFFERED = 1

.PHONY: demo test test-slow test-faults lint clean

$(VENV)/.ready: requirements.txt requirements-dev.txt setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

# Stopped, it goes on where it was.
demo: $(VENV)/.ready
	$(BIN)/gc-net train --flagfile=recipes/creatures.flags

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

test: lint
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(VENV)/.ready
	$(BIN)/python -m pytest -m slow

# Killed processes, full disks, damaged files and mutated input, in their long form.
test-faults: $(VENV)/.ready
	GC_NET_FAULTS=long $(BIN)/python -m pytest -s tests/faults

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache
