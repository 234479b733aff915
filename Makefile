# Two commands do everything on a machine with Python, make and git:
#   make demo   trains and evaluates on the embedded dataset, ends with a table and a report
#   make test   lints and tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes that tests are spread over; each computes with one thread.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile
export PYTHONUNBUFFERED = 1

.PHONY: demo tables test test-slow test-faults lint docs clean

$(VENV)/.ready: requirements.txt requirements-dev.txt setup.cfg setup.py pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

# If it is stopped, `make demo` resumes it.
demo: $(VENV)/.ready
	$(BIN)/gc-net train --flagfile=recipes/creatures.flags

# The paper's Tables 1 and 2 on the embedded dataset, with three seeds: which loss terms are needed,
# and which shape and generator fit best. If it is stopped, `make tables` resumes it.
TABLES := $(BIN)/gc-net sweep --flagfile=recipes/creatures.flags --detector_steps=1200 --nomirror --seeds=0,1,2
tables: $(VENV)/.ready
	$(TABLES) --sweep=losses --work_dir=runs/tables/losses
	$(TABLES) --sweep=geometries --work_dir=runs/tables/geometries \
	    --reuse=runs/tables/losses/object_area_background/seed0,runs/tables/losses/object_area_background/seed1,runs/tables/losses/object_area_background/seed2

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

test: lint
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.ready
	$(PYTEST) -m slow

# Killed processes, full disks, damaged files and mutated input, in their long form.
test-faults: $(VENV)/.ready
	GC_NET_FAULTS=long $(BIN)/python -m pytest -s tests/faults

# The documentation as a site, in site/: an environment of its own, since nothing else needs it.
docs: .venv-docs/.ready
	.venv-docs/bin/mkdocs build

.venv-docs/.ready: requirements-docs.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	touch $@

clean:
	rm -rf $(VENV) .venv-docs site build dist *.egg-info .pytest_cache .ruff_cache
