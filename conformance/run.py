"""Hold alula, and the judge itself, against the real ms-swift: `python -m conformance.run [SUITE …]`.

Prints every disagreement and their number. Exit code 0 if all are explained, 1 if not, 2 if the environment is missing.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module

from conformance.client import Oracle, environment_dir

SUITES = ("recorded", "rules", "derived", "random", "build")


def main(names: list[str]) -> int:
    """Run the named suites, all without names."""
    unknown = set(names) - set(SUITES)
    if unknown:
        print(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    if not Oracle.installed():
        print(f"no ms-swift in {environment_dir()}: run `make conformance-install` first", file=sys.stderr)
        return 2
    failed = False
    with Oracle() as oracle:
        for name in names or SUITES:
            started = time.monotonic()
            report = import_module(f"conformance.suites.{name}").run(oracle)
            report.seconds = time.monotonic() - started
            print(report.text(), flush=True)
            failed = failed or bool(report.unexplained)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
