"""What is held against the judge. A suite is a module with `run(oracle) -> Report`; `SUITES` in `run.py` names them all."""
