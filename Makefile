# Two commands do all the set-up: `make demo` and `make test`. Both make their own venv and need only python3, make and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types layers unit coverage slow facts bench clean

demo: $(STAMP)  ## the main job on a real case: show, check, explain, fix, build
	@$(BIN)/python examples/demo.py

test: $(STAMP) lint types layers coverage  ## the whole fast suite

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@$(BIN)/python -m compileall -q src/alula  # also where PYTHONDONTWRITEBYTECODE is set: start-up is measured
	@touch $@

lint: $(STAMP)
	$(BIN)/ruff check src tests tools

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports --no-cache

unit: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m "not slow"

coverage: $(STAMP)
	@rm -f .coverage .coverage.*
	$(BIN)/python -m pytest -n 2 -m "not slow" --cov --cov-report=term

slow: $(STAMP)  ## the tests that `make test` leaves out
	$(BIN)/python -m pytest -n 2 -m slow

facts: $(STAMP)  ## the TOML facts as JSON, after a change
	$(BIN)/python tools/compile_facts.py

bench: $(STAMP)  ## speed against the bars, beside the real parser where it is installed
	$(BIN)/python benchmarks/speed.py

clean:
	rm -rf $(VENV) .cache dist build *.egg-info

-include mk/*.mk
