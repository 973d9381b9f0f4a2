"""`alula explain`."""

from __future__ import annotations

import json
from typing import Any

import click

from alula.facts import swift as facts
from alula.rules.page import page
from alula.rules.registry import Rule, all_rules, find
from alula.run.lazy import get_close_matches

from .options import emit, format_options, resolve_version


@click.command("explain")
@click.argument("code", required=False)
@click.option("--flag", metavar="NAME", help="What a flag does, where it exists, and when it changed.")
@click.option("--list", "listing", is_flag=True, help="All codes with one line each.")
@click.option("--swift", "version", metavar="VERSION", help="ms-swift version (for --flag).")
@format_options("text", "json")
def command(code: str | None, flag: str | None, listing: bool, version: str | None, form: str, output: str | None) -> int:
    """Print a rule's page (`alula explain BAT001`), or what a flag does (`alula explain --flag beta`)."""
    if sum((code is not None, flag is not None, listing)) != 1:
        raise click.UsageError("give one of: a CODE, --flag NAME, --list")
    if listing:
        data: Any = [_rule_data(rule) for rule in all_rules()]
        text = "\n".join(f"{rule.code}  {rule.severity:<7}  {rule.summary}" for rule in all_rules())
    elif flag is not None:
        data = _flag_data(flag.lstrip("-").replace("-", "_"), resolve_version(version))
        text = _flag_text(data)
    else:
        rule = find(code or "")
        if rule is None:
            near = get_close_matches((code or "").upper(), [known.code for known in all_rules()], 3, 0.5)
            raise click.UsageError(f"no rule {code!r}; " + (f"near: {', '.join(near)}" if near else "see alula explain --list"))
        data = {**_rule_data(rule), "page": page(rule).text}
        text = _rule_text(rule)
    emit(json.dumps(data, ensure_ascii=False, indent=1) if form == "json" else text, output)
    return 0


def _rule_data(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code, "slug": rule.slug, "severity": rule.severity, "confidence": rule.confidence, "consequence": rule.consequence,
        "routes": list(rule.routes), "since": rule.since, "until": rule.until, "summary": rule.summary,
    }  # fmt: skip


def _rule_text(rule: Rule) -> str:
    versions = " ".join(part for part in (f"since ms-swift {rule.since}" if rule.since else "", f"until {rule.until}" if rule.until else "") if part)
    facts_line = f"{rule.severity}, {rule.consequence}, confidence {rule.confidence}" + (f", {versions}" if versions else "")
    return f"{rule.code} {rule.slug}\n{facts_line}\n\n{page(rule).text}"


def _flag_data(name: str, version: str) -> dict[str, Any]:
    known = facts.load(version)
    routes = {route: known.flags(route)[name] for route in known.routes if name in known.flags(route)}
    renamed = next((r for route in known.routes if (r := facts.rename(name, route, version))), None)
    if not routes and renamed is None:
        every = sorted({flag for route in known.routes for flag in known.flags(route)})
        near = get_close_matches(name, every, 3, 0.7)
        raise click.UsageError(f"ms-swift {version} has no flag --{name}" + (f"; near: {', '.join('--' + n for n in near)}" if near else ""))
    kinds: dict[str, list[str]] = {}
    for route, fact in routes.items():
        choices = f", one of {', '.join(str(c) for c in fact.choices if c is not None)}" if fact.choices else ""
        many = ", one or more" if fact.nargs == "+" else ""
        kinds.setdefault(f"{fact.type}{many}{choices}, default {_shown(fact.default)}", []).append(route)
    return {
        "flag": name, "version": version, "description": facts.describe(name), "kinds": kinds,
        "renamed_to": renamed.new if renamed else None, "removed": bool(renamed and not renamed.new), "since": renamed.since if renamed else None,
        "changes": _changes(name, next(iter(routes), "swift rlhf")),
    }  # fmt: skip


def _shown(value: Any) -> str:
    return "none" if value is None or value == () else " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _changes(name: str, route: str) -> list[str]:
    """When the flag came, went, or changed its default or type on `route`."""
    out: list[str] = []
    before: facts.Flag | None = None
    for at, (version, fact) in enumerate(facts.history(name, route)):
        if fact is None and before is not None:
            out.append(f"{version}: gone from {route}")
        elif fact is not None and before is None and at:
            out.append(f"{version}: new on {route}")
        elif fact is not None and before is not None and fact.default != before.default:
            out.append(f"{version}: default {_shown(before.default)} → {_shown(fact.default)}")
        before = fact
    return out


def _flag_text(data: dict[str, Any]) -> str:
    lines = [f"--{data['flag']}  (ms-swift {data['version']})"]
    if data["description"]:
        lines.append(data["description"])
    if data["renamed_to"]:
        lines.append(f"Called --{data['renamed_to']} since ms-swift {data['since']}.")
    elif data["removed"]:
        lines.append(f"Removed in ms-swift {data['since']}.")
    for kind, routes in data["kinds"].items():
        lines.append(f"  {kind}\n    on {', '.join(routes)}")
    if data["changes"]:
        lines += ["Changes", *(f"  {change}" for change in data["changes"])]
    return "\n".join(lines)
