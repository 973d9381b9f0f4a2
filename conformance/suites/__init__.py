"""What is held against the judge. A suite is a module with `run(oracle) -> Report`; `SUITES` in `run.py` names them all.

alula itself is imported from `src/`, installed or not.
"""

import sys

from conformance.client import REPOSITORY

if (SRC := str(REPOSITORY / "src")) not in sys.path:
    sys.path.insert(0, SRC)
