"""Shell faults: the reader finds them; here stand their pages."""

from __future__ import annotations

from alula.read.shell.fault_table import FAULTS

from .registry import Rule, add

for _fault in FAULTS.values():
    add(Rule(_fault.code, _fault.slug, _fault.severity, _fault.confidence, _fault.consequence, "run", (), None, None, _fault.doc, None, __name__))
