"""A report that has everything in it, for the tests of the formats."""

from __future__ import annotations

from alula.output.report import Report
from alula.rules.suppress import Suppressed
from alula.run.finding import Edit, Finding, Fix
from alula.run.job import Job, Launch
from alula.run.source import Source, Span, Token

SECRET = "hf_abcdefghijklmnopqrstuvwx"
SCRIPT = f"""#!/bin/bash
# 训练
export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567
CUDA_VISIBLE_DEVICES=0,1,2 \\
swift rlhf --num_generations 8 --model "模型/千问" --hub_token {SECRET} \\
\t--tag 😀 --seed 1
""".encode()
CONFIG = b"\xef\xbb\xbfbeta: 0.1\r\nlr: $(date)\r\n"


def span(text: str, file: str = "run.sh", data: bytes = SCRIPT) -> Span:
    at = data.index(text.encode())
    return Span(file, at, at + len(text.encode()))


def report() -> Report:
    sources = {"run.sh": Source("run.sh", SCRIPT, "/src/run.sh"), "conf/a b.yaml": Source("conf/a b.yaml", CONFIG, "/src/conf/a b.yaml")}
    job = Job("run.sh", "swift rlhf", (), {}, (Launch("torchrun"),), span("swift rlhf"))
    beta = span("beta", "conf/a b.yaml", CONFIG)
    findings = (
        Finding(
            "ZZZ009", "late", "info", "low", "waste", "beta {beta} [x](y) {braces}", {"beta": "0.1", "braces": "{}"}, 0, ("beta",), beta,
            fix=Fix("remove it", "manual"),
        ),
        Finding(
            "BAT001", "generation-batch-not-divisible", "error", "high", "refused",
            "generation_batch_size 3 must be a multiple of num_generations 8", {}, 0, ("num_generations",), span("--num_generations 8"),
            related=((span("0,1,2"), "3 devices"), (beta, "and here"), (Span("gone.sh", 0, 1), "no text")),
            fix=Fix("write --num_generations 3", "safe", (Edit(span("8 --model"), "3 --model"), Edit(span("1\n"), "1 --new 😀\n"))),
        ),
        Finding("SEC001", "leaked-secret", "warning", "high", "wrong", "--hub_token {value}: use the environment", {"value": SECRET}, 0, (),
                span(SECRET), fix=Fix("export it", "unsafe", (Edit(Span("run.sh", 0, 0), f"export HF_TOKEN={SECRET}\n"),))),
        Finding("ENV001", "nowhere", "warning", "high", "waste", "about the whole job", {}, 0),
        Finding("ENV002", "no-place", "warning", "high", "waste", "about nothing", {}),
    )  # fmt: skip
    unknown = Token("$(date)", span("$(date)", "conf/a b.yaml", CONFIG), unresolved=("$(date)",))
    hidden = Suppressed(Finding("LNC001", "hidden", "error", "high", "hangs", "quiet", {}, 0, (), span("--seed 1")), "known, see #12")
    return Report(findings, sources, (unknown,), (job,), (hidden,))
