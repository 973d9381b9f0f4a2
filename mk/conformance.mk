# The real ms-swift as judge; see conformance/README.md. SUITES= picks some of: recorded rules derived build.
.PHONY: conformance conformance-install conformance-lint

conformance-install:
	$(PYTHON) -m conformance.install

conformance: $(STAMP) conformance-install
	$(BIN)/python -m conformance.run $(SUITES)

conformance-lint: $(STAMP)
	$(BIN)/ruff check conformance tests/conformance
	$(BIN)/ruff format --check conformance tests/conformance
	$(BIN)/mypy --config-file conformance/mypy.ini -p conformance
