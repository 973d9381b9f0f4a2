"""What a suite found: how many cases, and every one in which the two sides differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Disagreement:
    """One case in which the judge says something else. `known` holds the reason where the difference is understood and right."""

    case: str
    what: str
    expected: Any
    judged: Any
    known: str = ""

    def __str__(self) -> str:
        tail = f"  [{self.known}]" if self.known else ""
        return f"{self.case}: {self.what}: expected {self.expected!r}, judged {self.judged!r}{tail}"


@dataclass
class Report:
    """Counts of one suite. A case counts once, however many of its values differ."""

    name: str
    cases: int = 0
    disagreements: list[Disagreement] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def unexplained(self) -> list[Disagreement]:
        """The differences that nobody has explained: what makes `make conformance` fail."""
        return [d for d in self.disagreements if not d.known]

    @property
    def agreements(self) -> int:
        """Cases without any difference."""
        return self.cases - len({d.case for d in self.disagreements})

    def skip(self, reason: str) -> None:
        """Count a case that this suite cannot judge."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def text(self) -> str:
        """The report as printed: one line of counts, then one line a difference."""
        share = f"{100 * self.agreements / self.cases:.1f} %" if self.cases else "nothing to compare"
        lines = [
            f"{self.name}: {self.agreements} of {self.cases} agree ({share}), {len(self.unexplained)} unexplained, {self.seconds:.0f} s"
        ]
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  not judged, {reason}: {count}" for reason, count in self.skipped.items()]
        lines += [f"  {d}" for d in self.disagreements]
        return "\n".join(lines)
