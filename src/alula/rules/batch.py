"""Batch arithmetic of GRPO and GKD: how many completions a rollout has, and whether groups, ranks and steps fit into it."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING

from alula.swift.arithmetic import Generation, divisors, nearest_multiples
from alula.swift.parse import UNKNOWN

from .beside import data_of, train_rows
from .context import JobCheck, Place, names
from .registry import RLHF, rule
from .rl import given, kind, minor, whole

if TYPE_CHECKING:
    from alula.run.finding import Finding, Fix


def ranks(c: JobCheck) -> list[tuple[Place, str]]:
    """Where the number of processes is written, for `related`."""
    world = c.v.place.world_size
    token = c.job.launch.nproc
    return [(token, f"{world} processes")] if token is not None and world is not None else []


def unit(c: JobCheck) -> str:
    """What one step of `steps_per_generation` takes, in words with the numbers in it."""
    if c.v.megatron:
        return f"global_batch_size {c.v.get('global_batch_size')}"
    return f"{c.v.place.world_size} process(es) × per_device_train_batch_size {c.v.get('per_device_train_batch_size')}"


def step_flag(c: JobCheck) -> str:
    """The flag that sets how many steps a rollout feeds, in this command."""
    if c.v.written("generation_batch_size") and not c.v.written("steps_per_generation"):
        return "generation_batch_size"
    if c.v.written("steps_per_generation") or c.v.megatron:
        return "steps_per_generation"
    return "gradient_accumulation_steps"


def sizes(c: JobCheck) -> tuple[str, ...]:
    """Canonical names of everything that the rollout's size is made of."""
    base = ("global_batch_size",) if c.v.megatron else ("per_device_train_batch_size", "gradient_accumulation_steps")
    return (*base, "steps_per_generation", "generation_batch_size")


def fitting_steps(rollout: Generation, multiple: int, most: int = 4) -> list[int]:
    """The smallest values of `steps_per_generation` with which a rollout is a multiple of `multiple`, nearest to the present one first."""
    if rollout.micro_global <= 0:
        return []
    step = multiple // gcd(rollout.micro_global, multiple)
    return sorted((step * k for k in range(1, 9)), key=lambda value: (abs(value - rollout.steps_per_generation), value))[:most]


def fit_rollout(c: JobCheck, rollout: Generation, multiple: int) -> Fix:
    """Make the rollout a multiple of `multiple` by the flag that sets its steps."""
    flag = step_flag(c)
    steps = fitting_steps(rollout, multiple, 1)[0]
    value = rollout.micro_global * steps if flag == "generation_batch_size" else steps
    return c.set_flag(flag, str(value))


@rule("BAT001", "generations-do-not-divide", routes=RLHF, since="4.0")
def generations_do_not_divide(c: JobCheck) -> Iterator[Finding]:
    """The completions of one rollout are not a whole number of groups.

    A rollout has `per_device_train_batch_size × processes × steps_per_generation` completions (steps_per_generation is gradient_accumulation_steps
    where it is not given); on Megatron `global_batch_size × steps_per_generation`. It must be a multiple of `num_generations`, the completions of one
    prompt. Giving a GPU to a rollout server (7 processes instead of 8) is a usual way to break it.

    In the log: `ValueError: generation_batch_size (7) must be evenly divisible by num_generations (8). Valid values: [7].`

    Wrong:
    ```sh
    NPROC_PER_NODE=7 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --per_device_train_batch_size 1 --gradient_accumulation_steps 1 --num_generations 8
    ```

    Right:
    ```sh
    NPROC_PER_NODE=7 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --per_device_train_batch_size 1 --gradient_accumulation_steps 8 --num_generations 8
    ```

    Source: swift/rlhf_trainers/args_mixin.py:RolloutTrainerArgumentsMixin._init_generation_batch_params; swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin.resolve_generation_batch_size
    """
    rollout, count = c.v.generation, whole(c.v.get("num_generations"))
    if kind(c) != "grpo" or rollout is None or rollout.conflict or count is None or count <= 1:
        return
    size = rollout.generation_batch_size
    if size % count == 0:
        return
    valid = divisors(size, 2)
    steps = fitting_steps(rollout, count)
    flag = step_flag(c)
    choices = [rollout.micro_global * s for s in sorted(steps)] if flag == "generation_batch_size" else sorted(steps)
    template = (
        "a rollout has {unit} × {steps} step(s) = {size} completions, which is no multiple of num_generations {count}; "
        "valid num_generations: {valid}; or --{flag} {choices}{hint}"
    )
    at = "num_generations" if c.v.use("num_generations") is not None else flag
    yield c.finding(
        template, at, flags=["num_generations", *sizes(c)], related=ranks(c), unit=unit(c), steps=rollout.steps_per_generation, size=size, count=count,
        valid=names(valid) or "none", hint=_one_process(c), flag=flag, choices=" or ".join(map(str, choices)), fix=fit_rollout(c, rollout, count),
    )  # fmt: skip


def _one_process(c: JobCheck) -> str:
    """Why there is one process only, where that may not be meant."""
    return "" if c.v.place.torchrun or c.v.megatron else "; NPROC_PER_NODE is not set, so that one process trains"


@rule("BAT002", "generation-batch-not-a-multiple", routes=RLHF, since="4.0")
def generation_batch_not_a_multiple(c: JobCheck) -> Iterator[Finding]:
    """`generation_batch_size` is no multiple of what the ranks train on in one step.

    A rollout feeds a whole number of steps: `generation_batch_size` must be a multiple of `per_device_train_batch_size × processes` (Megatron:
    `global_batch_size`).

    In the log: `ValueError: generation_batch_size (20) must be divisible by the global batch size (8).`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --per_device_train_batch_size 1 --generation_batch_size 20 --num_generations 4
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --per_device_train_batch_size 1 --generation_batch_size 24 --num_generations 4
    ```

    Source: swift/rlhf_trainers/args_mixin.py:RolloutTrainerArgumentsMixin._init_generation_batch_params; swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin.resolve_generation_batch_size
    """
    rollout = c.v.generation
    if rollout is None or rollout.conflict != "not-multiple":
        return
    near = nearest_multiples(rollout.generation_batch_size, rollout.micro_global)
    template = "--generation_batch_size {size} is no multiple of {unit} = {micro}; nearest: {near}"
    yield c.finding(
        template, "generation_batch_size", flags=sizes(c), related=ranks(c), size=rollout.generation_batch_size, unit=unit(c), micro=rollout.micro_global,
        near=" or ".join(map(str, near)) or "none", fix=c.set_flag("generation_batch_size", str(near[-1] if near else rollout.micro_global)),
    )  # fmt: skip


@rule("BAT003", "generation-sizes-disagree", routes=RLHF, since="4.0")
def generation_sizes_disagree(c: JobCheck) -> Iterator[Finding]:
    """`generation_batch_size` and `steps_per_generation` together, and not of one mind.

    Each follows from the other; give one. Both are accepted only where they agree, and before 4.4 (Megatron: 4.2) not even then.

    In the log: `ValueError: generation_batch_size (64) must equal per_device_train_batch_size * world_size * steps_per_generation = 32.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --per_device_train_batch_size 1 --generation_batch_size 64 --steps_per_generation 4
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --per_device_train_batch_size 1 --generation_batch_size 64
    ```

    Source: swift/rlhf_trainers/args_mixin.py:RolloutTrainerArgumentsMixin._init_generation_batch_params; swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin.resolve_generation_batch_size
    """
    rollout = c.v.generation
    related = [*ranks(c), ("steps_per_generation", "given too")]
    if rollout is not None and rollout.conflict == "mismatch":
        expected = rollout.micro_global * rollout.steps_per_generation
        template = "--generation_batch_size {size} does not agree with {unit} × --steps_per_generation {steps} = {expected}; drop one of the two"
        yield c.finding(
            template, "generation_batch_size", flags=sizes(c), related=related, size=rollout.generation_batch_size, unit=unit(c),
            steps=rollout.steps_per_generation, expected=expected, fix=c.drop_flag("steps_per_generation"),
        )  # fmt: skip
        return
    both = c.v.written("generation_batch_size") and c.v.written("steps_per_generation")
    if both and kind(c) == "grpo" and minor(c) < ((4, 2) if c.v.megatron else (4, 4)):
        template = "ms-swift {version} refuses --generation_batch_size and --steps_per_generation together, even where they agree; drop one"
        yield c.finding(template, "generation_batch_size", flags=sizes(c), related=related, version=c.facts.version, fix=c.drop_flag("steps_per_generation"))


@rule("BAT004", "no-steps-per-generation", routes=RLHF, since="4.0")
def no_steps_per_generation(c: JobCheck) -> Iterator[Finding]:
    """`steps_per_generation` (or the accumulation it follows) below 1.

    A rollout feeds at least one step. Where `steps_per_generation` is not given it is `gradient_accumulation_steps`, so 0 there ends here too.

    In the log: `ValueError: steps_per_generation must be > 0, got 0.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --steps_per_generation 0
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --steps_per_generation 4
    ```

    Source: swift/rlhf_trainers/args_mixin.py:RolloutTrainerArgumentsMixin._init_generation_batch_params; swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin.resolve_generation_batch_size
    """
    rollout = c.v.generation
    if rollout is None or rollout.conflict != "steps":
        return
    flag = step_flag(c)
    template = "a rollout would feed {steps} steps; --{flag} must be at least 1"
    value = rollout.micro_global if flag == "generation_batch_size" else 1
    yield c.finding(template, flag, flags=sizes(c), steps=rollout.steps_per_generation, flag=flag, fix=c.set_flag(flag, str(value)))


@rule("BAT005", "eval-batch-breaks-groups", routes=("swift rlhf",), since="4.0")
def eval_batch_breaks_groups(c: JobCheck) -> Iterator[Finding]:
    """The evaluation batch of GRPO is not a whole number of groups.

    With evaluation on, `per_device_eval_batch_size × processes` must be a multiple of `num_generations_eval` (`num_generations` where it is not given).
    Evaluation is on when validation data is there and `eval_strategy`, which follows `save_strategy`, is not `no`.

    In the log: `ValueError: The global eval batch size (4 x 1) must be evenly divisible by num_generations_eval (8).`

    Wrong:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --val_dataset val.jsonl --reward_funcs accuracy --per_device_train_batch_size 8 --num_generations 8
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --val_dataset val.jsonl --reward_funcs accuracy --per_device_train_batch_size 8 --per_device_eval_batch_size 2 --num_generations 8
    ```

    Source: swift/rlhf_trainers/args_mixin.py:RolloutTrainerArgumentsMixin._init_generation_batch_params
    """
    found = _broken_groups(c)
    if found is None or c.v.get("eval_strategy") in (UNKNOWN, None, "no"):
        return
    size, wanted, name, valid_batch = found
    world, per_device, chosen = c.v.place.world_size, c.v.get("per_device_eval_batch_size"), name == "num_generations_eval"
    valid = divisors(size)
    template = (
        "evaluation takes {world} process(es) × per_device_eval_batch_size {per_device} = {size} completions at a time, which is no multiple of {name} {wanted}; "
        "use --per_device_eval_batch_size {batch} (or a multiple), --num_generations_eval {valid}, or --eval_strategy no"
    )
    at = "per_device_eval_batch_size" if c.v.use("per_device_eval_batch_size") is not None else "num_generations_eval" if chosen else None
    yield c.finding(
        template, at, flags=["per_device_eval_batch_size", "num_generations_eval", "num_generations", "eval_strategy"], related=ranks(c), world=world,
        per_device=per_device, size=size, name=name, wanted=wanted, batch=valid_batch, valid=" or ".join(map(str, valid[:6])),
        fix=c.set_flag("per_device_eval_batch_size", str(valid_batch)),
    )  # fmt: skip


@rule("BAT010", "eval-batch-would-break-groups", severity="warning", consequence="refused", confidence="medium", routes=("swift rlhf",), since="4.0")
def eval_batch_would_break_groups(c: JobCheck) -> Iterator[Finding]:
    """Evaluation is asked for, has no data yet, and its batch would not hold whole groups.

    Without validation data ms-swift turns evaluation off. As soon as data is given, `per_device_eval_batch_size × processes` must be a multiple of
    `num_generations_eval`, or the run is refused.

    In the log: with data, `ValueError: The global eval batch size (4 x 1) must be evenly divisible by num_generations_eval (8).`

    Wrong:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --per_device_train_batch_size 8 --per_device_eval_batch_size 1 --num_generations 8 --eval_strategy steps --eval_steps 100
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --per_device_train_batch_size 8 --per_device_eval_batch_size 2 --num_generations 8 --eval_strategy steps --eval_steps 100
    ```

    Source: swift/rlhf_trainers/args_mixin.py:RolloutTrainerArgumentsMixin._init_generation_batch_params; swift/arguments/sft_args.py:SftArguments.__post_init__
    """
    asked = given(c.v, "eval_strategy")
    if c.v.get("eval_strategy") == "no" and asked in ("steps", "epoch") and c.v.written("per_device_eval_batch_size"):
        found = _broken_groups(c)
        if found is not None:
            size, wanted, name, batch = found
            template = (
                "evaluation is asked for but has no data; with data, its {size} completions at a time must be a multiple of {name} {wanted}: "
                "--per_device_eval_batch_size {batch}, or --num_generations_eval"
            )
            yield c.finding(
                template, "per_device_eval_batch_size", flags=["num_generations_eval", "num_generations", "eval_strategy"], related=ranks(c), size=size,
                name=name, wanted=wanted, batch=batch, fix=c.set_flag("per_device_eval_batch_size", str(batch)),
            )  # fmt: skip


def _broken_groups(c: JobCheck) -> tuple[int, int, str, int] | None:
    """Evaluation batches that hold no whole groups: (completions at a time, group size, its flag, a batch that fits); None where they do."""
    count, world, per_device = whole(c.v.get("num_generations")), c.v.place.world_size, whole(c.v.get("per_device_eval_batch_size"))
    chosen = c.v.get("num_generations_eval")
    if kind(c) != "grpo" or count is None or count <= 1 or world is None or per_device is None or chosen is UNKNOWN:
        return None
    wanted = chosen or count
    size = per_device * world
    if size % wanted == 0:
        return None
    return size, wanted, "num_generations_eval" if chosen else "num_generations", wanted // gcd(world, wanted)


@rule("BAT006", "fewer-prompts-than-a-rollout", consequence="wrong", routes=("swift rlhf",), since="4.0")
def fewer_prompts_than_a_rollout(c: JobCheck) -> Iterator[Finding]:
    """The data has fewer rows than one rollout takes prompts, so that no rollout is ever formed.

    A rollout takes `generation_batch_size / num_generations` prompts (GKD: `generation_batch_size`), and an incomplete one is dropped.

    In the log: `ValueError: args.max_steps must be set to a positive value …`; with `--max_steps` the run ends well at step 0

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset AI-MO/NuminaMath-TIR#20 --reward_funcs accuracy --per_device_train_batch_size 8 --gradient_accumulation_steps 8 --num_generations 8
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset AI-MO/NuminaMath-TIR#2000 --reward_funcs accuracy --per_device_train_batch_size 8 --gradient_accumulation_steps 8 --num_generations 8
    ```

    Source: trl/trainer/utils.py:RepeatSampler; swift/rlhf_trainers/gkd_trainer.py:GKDTrainer._get_train_sampler
    Not shown on CPU: the arguments are accepted; training finds no batch
    """
    rollout, rows = c.v.generation, train_rows(c)
    count = whole(c.v.get("num_generations")) if kind(c) == "grpo" else 1
    if rollout is None or rollout.conflict or rows is None or not count or count < 1 or not exact_rows(c):
        return
    prompts = rollout.generation_batch_size // count
    if 0 < rows < prompts:
        most = max(rows * count // rollout.micro_global, 0)
        smaller = f", or a smaller rollout (--{step_flag(c)} {most})" if most >= 1 and step_flag(c) != "generation_batch_size" else ""
        template = (
            "a rollout of {size} completions takes {prompts} prompts, but the data has {rows} rows: no rollout is ever complete; give at least {prompts} "
            "rows{smaller}"
        )
        yield c.finding(
            template, "dataset", flags=["num_generations", *sizes(c)], related=ranks(c), size=rollout.generation_batch_size, prompts=prompts, rows=rows,
            smaller=smaller, fix=f"at least {prompts} rows, or a smaller generation batch",
        )  # fmt: skip


def exact_rows(c: JobCheck) -> bool:
    """The number of rows is counted or given with `#N`, not estimated."""
    data = data_of(c)
    return data is not None and all(entry.take is not None or (entry.sample is not None and entry.sample.exact) for entry in data.entries)


@rule("BAT009", "too-few-evaluation-rows", consequence="wrong", routes=("swift rlhf",), since="4.0")
def too_few_evaluation_rows(c: JobCheck) -> Iterator[Finding]:
    """The validation data does not fill one evaluation batch of GRPO.

    GRPO evaluates `per_device_eval_batch_size × processes / num_generations_eval` prompts at a time and wants at least one full batch of them.

    In the log: `AssertionError: eval_dataset size 2 is smaller than total_eval_batch_size 8.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --val_dataset AI-MO/NuminaMath-TIR#4 --reward_funcs accuracy --per_device_train_batch_size 8 --per_device_eval_batch_size 8 --num_generations 8
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --val_dataset AI-MO/NuminaMath-TIR#64 --reward_funcs accuracy --per_device_train_batch_size 8 --per_device_eval_batch_size 8 --num_generations 8
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer.__init__
    Not shown on CPU: the arguments are accepted; building the trainer raises
    """
    count, chosen = whole(c.v.get("num_generations")), c.v.get("num_generations_eval")
    world, per_device = c.v.place.world_size, whole(c.v.get("per_device_eval_batch_size"))
    if kind(c) != "grpo" or c.v.get("eval_strategy") in (UNKNOWN, None, "no") or chosen is UNKNOWN or not count or world is None or per_device is None:
        return
    data = data_of(c, "val_dataset")
    if data is None or data.count is None or c.v.get("streaming") is not False or c.v.get("eval_use_evalscope") is not False:
        return
    wanted = per_device * world // (chosen or count)
    if data.count < wanted:
        template = "evaluation takes {wanted} prompts at a time, but the validation data has {rows} rows; give more, or --eval_strategy no"
        flags = ["per_device_eval_batch_size", "num_generations_eval"]
        yield c.finding(template, "val_dataset", flags=flags, related=ranks(c), wanted=wanted, rows=data.count, fix=f"at least {wanted} validation rows")


@rule("BAT007", "rollout-straddles-steps", severity="warning", consequence="wrong", confidence="medium", routes=("swift rlhf",), since="4.0")
def rollout_straddles_steps(c: JobCheck) -> Iterator[Finding]:
    """Optimizer steps that begin in one rollout and end in the next.

    An optimizer step takes `gradient_accumulation_steps` micro-steps, a rollout feeds `steps_per_generation` of them. Where neither divides the other,
    some optimizer steps mix completions of two policies, and the losses that normalise over the whole step count the wrong tokens.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --gradient_accumulation_steps 4 --steps_per_generation 6
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --gradient_accumulation_steps 4 --steps_per_generation 8
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_inputs
    """
    rollout, accumulation = c.v.generation, whole(c.v.accumulation)
    if rollout is None or rollout.conflict or not accumulation or accumulation < 1:
        return
    steps = rollout.steps_per_generation
    if steps % accumulation == 0 or accumulation % steps == 0:
        return
    near = nearest_multiples(steps, accumulation)
    template = (
        "a rollout feeds {steps} micro-steps and an optimizer step takes {accumulation}: some optimizer steps mix two rollouts; "
        "use --steps_per_generation {near}"
    )
    yield c.finding(
        template, step_flag(c), flags=["steps_per_generation", "gradient_accumulation_steps", "generation_batch_size"], steps=steps,
        accumulation=accumulation, near=" or ".join(map(str, near)), fix=f"--steps_per_generation {near[-1]}",
    )  # fmt: skip


@rule("BAT008", "off-policy-steps", severity="info", consequence="wrong", routes=RLHF, since="4.0")
def off_policy_steps(c: JobCheck) -> Iterator[Finding]:
    """Several optimizer steps on one rollout: all but the first are off-policy.

    That is PPO's way of using samples more than once, and what the clip is for. It is asked for by `steps_per_generation` above
    `gradient_accumulation_steps` (Megatron: above 1), or by `num_iterations` above 1.

    In the log: clip ratios above 0

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --gradient_accumulation_steps 2 --steps_per_generation 8
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --gradient_accumulation_steps 8
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_inputs
    """
    rollout = c.v.generation
    if kind(c) != "grpo" or rollout is None or rollout.conflict:
        return
    accumulation = 1 if c.v.megatron else whole(c.v.accumulation)
    iterations = whole(c.v.get("num_iterations")) or 1
    if not accumulation or rollout.steps_per_generation % accumulation:
        return
    updates = rollout.steps_per_generation // accumulation * iterations
    if updates > 1:
        template = "each rollout of {size} completions feeds {updates} optimizer steps, {stale} of them off-policy"
        yield c.finding(
            template, step_flag(c) if rollout.steps_per_generation > accumulation else "num_iterations", flags=["steps_per_generation", "num_iterations"],
            size=rollout.generation_batch_size, updates=updates, stale=updates - 1, fix="as intended, or --steps_per_generation 1 × accumulation",
        )  # fmt: skip
