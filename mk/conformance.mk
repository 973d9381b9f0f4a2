# The real ms-swift as judge; see conformance/README.md. SUITES= picks some of: recorded rules derived build.
PYTHON ?= python3

.PHONY: conformance conformance-install conformance-lint

conformance-install:
	$(PYTHON) conformance/install.py

conformance: conformance-install
	$(PYTHON) -m conformance.run $(SUITES)

conformance-lint:
	$(PYTHON) -m ruff check conformance tests/conformance
	$(PYTHON) -m ruff format --check conformance tests/conformance
	$(PYTHON) -m mypy --config-file conformance/mypy.ini -p conformance
