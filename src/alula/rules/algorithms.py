"""Algorithms: what each `rlhf_type` refuses, or trains otherwise than asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .registry import RLHF, rule
from .rl import empty, given, kind, number, set_to, whole, words

if TYPE_CHECKING:
    from alula.run.finding import Finding

DPO_LOSSES = (
    "sigmoid", "hinge", "ipo", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot", "aot_unpaired", "apo_zero", "apo_down", "discopop",
    "sft",
)  # fmt: skip
CPO_LOSSES = ("sigmoid", "hinge", "ipo", "simpo", "alphapo")
KTO_LOSSES = ("kto", "apo_zero_unpaired")
KEEPS_REFERENCE = ("dpo", "kto", "ppo", "grpo")


@rule("ALG001", "several-loss-types", routes=("swift rlhf",))
def several_loss_types(c: JobCheck) -> Iterator[Finding]:
    """Several loss types with an algorithm other than DPO.

    Only DPO mixes losses (`--loss_type sigmoid bco_pair sft --loss_weights 0.8 0.2 1`). Every other `rlhf_type` takes one name.

    In the log: `AssertionError: Multiple loss types (['grpo', 'dapo']) are only supported for DPO.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --loss_type grpo dapo
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --loss_type dapo
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._process_loss_type
    """
    losses = words(given(c.v, "loss_type"))
    algorithm = kind(c)
    if len(losses) < 2 or algorithm is None or algorithm == "dpo":
        return
    template = "--loss_type has {count} names ({losses}), but only DPO mixes losses; with --rlhf_type {kind} give one"
    advice = f"--loss_type {losses[0]}"
    yield c.finding(template, "loss_type", flags=["rlhf_type"], count=len(losses), losses=names(losses), kind=algorithm, fix=advice)


@rule("ALG002", "loss-weights-mismatch", routes=("swift rlhf",))
def loss_weights_mismatch(c: JobCheck) -> Iterator[Finding]:
    """`loss_weights` without DPO, or not one weight per loss type.

    A weight belongs to each of DPO's mixed losses, in their order. No other algorithm mixes losses, and ms-swift refuses weights there as soon as a
    `loss_type` is given too.

    In the log: `ValueError: Length of loss_weights list ([0.8, 0.2, 1.0]) must match number of loss types (['sigmoid', 'sft']).`

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --loss_type sigmoid sft --loss_weights 0.8 0.2 1
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --loss_type sigmoid sft --loss_weights 0.8 1
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._process_loss_type; trl/trainer/dpo_config.py:DPOConfig.__post_init__
    """
    weights, losses, algorithm = given(c.v, "loss_weights"), given(c.v, "loss_type"), kind(c)
    if not isinstance(weights, tuple) or losses is UNKNOWN or algorithm is None:
        return
    if algorithm != "dpo":
        if losses is not None:  # without a loss_type ms-swift never looks at the weights
            template = "--loss_weights belongs to DPO's mixed losses; --rlhf_type {kind} has one loss and refuses it"
            yield c.finding(template, "loss_weights", flags=["rlhf_type", "loss_type"], kind=algorithm, fix=c.drop_flag("loss_weights"))
        return
    count = len(losses) if losses is not None else 1
    if len(weights) != count:
        template = "--loss_weights has {weights} values for {count} loss type(s) ({losses}): give exactly {count}"
        yield c.finding(
            template, "loss_weights", flags=["loss_type"], weights=len(weights), count=count, losses=names(losses or ("sigmoid",)),
            fix=f"--loss_weights with {count} value(s)",
        )  # fmt: skip


@rule("ALG003", "unknown-loss-type", consequence="wrong", routes=RLHF, since="4.0")
def unknown_loss_type(c: JobCheck) -> Iterator[Finding]:
    """A loss name that the algorithm does not have.

    No list of choices guards `--loss_type`, so the run loads the model, samples its first batch and only then fails.

    In the log: `ValueError: Unknown loss type: …`, or `UnboundLocalError: … 'per_token_loss'` (GRPO)

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --loss_type dr-grpo
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --loss_type dr_grpo
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._compute_loss_and_metrics; swift/rlhf_trainers/dpo_trainer.py:DPOTrainer.dpo_loss
    Not shown on CPU: the arguments are accepted; the first loss raises
    """
    algorithm, written = kind(c), given(c.v, "loss_type")
    losses = (written,) if isinstance(written, str) else words(written)
    registry = "megatron_grpo_loss_types" if c.v.megatron else "grpo_loss_types"
    known = {"dpo": DPO_LOSSES, "cpo": CPO_LOSSES, "simpo": CPO_LOSSES, "kto": KTO_LOSSES, "grpo": c.facts.registries.lists.get(registry, ())}.get(algorithm or "")
    if not known:
        return
    for loss in losses:
        if isinstance(loss, str) and loss not in known:
            template = "--loss_type {loss}: {kind} has no such loss and fails at the first training step; it has {known}"
            yield c.finding(
                template, "loss_type", flags=["rlhf_type"], loss=loss, kind=algorithm, known=names(known, 16), fix=f"--loss_type {'|'.join(known)}"
            )  # fmt: skip


@rule("ALG004", "loss-never-runs", consequence="wrong", routes=RLHF, since="4.4")
def loss_never_runs(c: JobCheck) -> Iterator[Finding]:
    """`loss_type` real or fipo, or `off_policy_sequence_mask_delta`: they stop at the first loss in this version.

    Since 4.4 every GRPO run without a teacher counts as dynamic self-distillation, and the check that keeps teachers and these per-sequence losses
    apart therefore always fires. With a teacher model or server the arguments themselves are refused.

    In the log: `ValueError: OPD-RL (teacher) does not support loss_type='real' / off_policy_sequence_mask.`, with no teacher set

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --loss_type fipo
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --loss_type dapo
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._setup_teacher; swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._compute_loss_and_metrics
    Not shown on CPU: the arguments are accepted; the first loss raises
    """
    if kind(c) != "grpo":
        return
    if c.v.get("loss_type") in ("real", "fipo"):
        template = "--loss_type {loss} cannot run in ms-swift {version}: every GRPO run counts as having a teacher, and the first loss refuses it"
        yield c.finding(template, "loss_type", loss=c.v.get("loss_type"), version=c.facts.version, fix="--loss_type grpo|bnpo|dr_grpo|dapo|cispo|sapo")
    if number(c.v.get("off_policy_sequence_mask_delta")) is not None:
        template = (
            "--off_policy_sequence_mask_delta cannot run in ms-swift {version}: every GRPO run counts as having a teacher, and the first loss refuses it; "
            "use --rollout_importance_sampling_mode sequence_mask instead"
        )
        yield c.finding(template, "off_policy_sequence_mask_delta", version=c.facts.version, fix=c.drop_flag("off_policy_sequence_mask_delta"))


@rule("ALG005", "ref-model-refused", routes=("swift rlhf",))
def ref_model_refused(c: JobCheck) -> Iterator[Finding]:
    """A reference model where ms-swift takes none.

    DPO, KTO, PPO and GRPO keep a separate reference model only in full training. With LoRA the base model without its adapter is the reference
    (`--ref_adapters` names another start). CPO, SimPO, ORPO, RM and GKD have no reference at all.

    In the log: `ValueError: CPO/ORPO or LoRA training does not require a ref_model to be passed in.`

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --ref_model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments.__post_init__
    """
    written, algorithm, tuner = given(c.v, "ref_model"), kind(c), c.v.get("tuner_type")
    if not isinstance(written, str) or algorithm is None:
        return
    if algorithm == "grpo" and (c.v.get("beta") is UNKNOWN or c.v.get("beta") == 0.0):
        return
    if algorithm in KEEPS_REFERENCE:
        if tuner == "full" or not isinstance(tuner, str):
            return
        template = "--ref_model with --tuner_type {tuner}: the base model without its adapter is the reference, and ms-swift refuses another one"
        related = [("tuner_type", f"{tuner} here")]
        fix = c.drop_flag("ref_model", f"remove --ref_model (--ref_adapters names the adapter that {algorithm} started from)")
    else:
        template = "--ref_model: {kind} has no reference model, and ms-swift refuses one"
        related = [("rlhf_type", f"{algorithm} here")]
        fix = c.drop_flag("ref_model")
    yield c.finding(template, "ref_model", flags=["tuner_type", "rlhf_type"], related=related, tuner=tuner, kind=algorithm, fix=fix)


@rule("ALG006", "ref-adapters-not-supported", consequence="wrong", routes=RLHF)
def ref_adapters_not_supported(c: JobCheck) -> Iterator[Finding]:
    """Reference adapters with an algorithm that has none, or more than one of them.

    The check comes after the model is loaded. DPO, KTO and GRPO take exactly one reference adapter.

    In the log: `AssertionError: Currently, only DPO, KTO, and GRPO support …`, or `AssertionError: args.ref_adapters: [...]`

    Wrong:
    ```sh
    swift rlhf --rlhf_type cpo --model Qwen/Qwen3-8B --dataset data.jsonl --adapters out/sft --ref_adapters out/sft
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --adapters out/sft --ref_adapters out/sft
    ```

    Source: swift/pipelines/train/rlhf.py:SwiftRLHF.prepare_model; swift/megatron/trainers/rlhf_mixin.py
    Not shown on CPU: the arguments are accepted; the assertion is met when the model is loaded
    """
    adapters, algorithm = words(c.v.get("ref_adapters")), kind(c)
    if not adapters or algorithm is None:
        return
    if algorithm not in ("dpo", "kto", "grpo") and not c.v.megatron:
        template = "--ref_adapters works with DPO, KTO and GRPO only; {kind} stops once the model is loaded"
        yield c.finding(template, "ref_adapters", flags=["rlhf_type"], kind=algorithm, fix=c.drop_flag("ref_adapters"))
    elif len(adapters) > 1:
        template = "--ref_adapters has {count} adapters; exactly one is supported"
        yield c.finding(template, "ref_adapters", count=len(adapters), fix=f"--ref_adapters {adapters[0]}")


@rule("ALG007", "adapter-without-reference", severity="warning", consequence="wrong", routes=RLHF)
def adapter_without_reference(c: JobCheck) -> Iterator[Finding]:
    """Training goes on from an adapter, but the KL reference is the bare base model.

    With LoRA the reference is the model with its adapter switched off. Where `--adapters` carries on from an SFT adapter, the penalty therefore pulls
    the policy back to the model before SFT. Give the same checkpoint as `--ref_adapters`, or merge it first and use the merged model.

    In the log: nothing; `kl` starts well above 0

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --adapters output/sft/checkpoint-900
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --adapters output/sft/checkpoint-900 --ref_adapters output/sft/checkpoint-900
    ```

    Source: swift/rlhf_trainers/rlhf_mixin.py:RLHFTrainerMixin.null_ref_context
    """
    adapters, tuner = words(c.v.get("adapters")), c.v.get("tuner_type")
    if kind(c) not in ("dpo", "kto", "grpo") or not adapters or not isinstance(tuner, str) or tuner == "full":
        return
    beta = c.v.get("beta")
    if not empty(c.v.get("ref_adapters")) or not empty(c.v.get("mcore_ref_adapter")) or beta is UNKNOWN or beta == 0:
        return
    if c.v.get("reference_free") is True or set_to(c.v, "resume_from_checkpoint") or c.v.get("resume_from_checkpoint") is UNKNOWN:
        return
    template = (
        "training continues from --adapters {adapter}, but without --ref_adapters the {kind} reference is the base model before that adapter; "
        "add --ref_adapters {adapter}, or merge the adapter and train from the merged model"
    )
    fix = c.set_flag("ref_adapters", adapters[0])
    yield c.finding(template, "adapters", flags=["ref_adapters", "beta"], adapter=adapters[0], kind=(kind(c) or "").upper(), fix=fix)


@rule("ALG008", "reference-sync-without-reference", severity="warning", consequence="wrong", routes=("swift rlhf",), since="4.0")
def reference_sync_without_reference(c: JobCheck) -> Iterator[Finding]:
    """`sync_ref_model` where no reference model exists.

    The callback that mixes the policy into the reference returns at once without a separate reference model, and there is none with LoRA or with
    `--beta 0`: the reference never moves.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --tuner_type lora --sync_ref_model true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --tuner_type full --sync_ref_model true
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:SyncRefModelCallback.on_step_end
    """
    if kind(c) != "grpo" or c.v.get("sync_ref_model") is not True:
        return
    tuner = c.v.get("tuner_type")
    if c.v.get("beta") == 0.0:
        template, related = "--sync_ref_model true does nothing with --beta 0: there is no reference model to move", [("beta", "0 here")]
    elif isinstance(tuner, str) and tuner != "full":
        template = "--sync_ref_model true does nothing with --tuner_type {tuner}: the reference is the frozen base model, not a copy that could move"
        related = [("tuner_type", f"{tuner} here")]
    else:
        return
    yield c.finding(template, "sync_ref_model", flags=["beta", "tuner_type"], related=related, tuner=tuner, fix=c.drop_flag("sync_ref_model"))


@rule("ALG009", "kto-needs-accumulation", consequence="wrong", routes=("swift rlhf",))
def kto_needs_accumulation(c: JobCheck) -> Iterator[Finding]:
    """KTO without `gradient_accumulation_steps`.

    KTO cuts its KL pairs from whole batches while the data is prepared, before the default of `gradient_accumulation_steps` exists, and multiplies
    by None. The loss `apo_zero_unpaired` has no KL term and is not concerned.

    In the log: `TypeError: unsupported operand type(s) for *: 'int' and 'NoneType'`

    Wrong:
    ```sh
    swift rlhf --rlhf_type kto --model Qwen/Qwen3-8B --dataset data.jsonl --per_device_train_batch_size 4
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type kto --model Qwen/Qwen3-8B --dataset data.jsonl --per_device_train_batch_size 4 --gradient_accumulation_steps 4
    ```

    Source: swift/pipelines/train/kto.py:prepare_kto_dataset
    Not shown on CPU: the arguments are accepted; the data preparation raises
    """
    if kind(c) != "kto" or c.v.get("loss_type") in ("apo_zero_unpaired", UNKNOWN) or c.v.get("gradient_accumulation_steps") is not None:
        return
    steps = c.v.accumulation
    example = steps if isinstance(steps, int) else 8
    template = "KTO needs --gradient_accumulation_steps written out: its default comes too late and the data preparation multiplies by None"
    yield c.finding(template, None, flags=["gradient_accumulation_steps", "rlhf_type"], fix=c.set_flag("gradient_accumulation_steps", str(example)))


@rule("ALG010", "kto-batch-of-one", consequence="wrong", routes=RLHF)
def kto_batch_of_one(c: JobCheck) -> Iterator[Finding]:
    """KTO with one sample a step.

    The KL term compares each answer with that of its neighbour in the batch; with a batch of one it would compare the answer with itself.

    In the log: `ValueError: Batch size is 1 (too small). KTO will not work properly …`

    Wrong:
    ```sh
    swift rlhf --rlhf_type kto --model Qwen/Qwen3-8B --dataset data.jsonl --per_device_train_batch_size 1 --gradient_accumulation_steps 1
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type kto --model Qwen/Qwen3-8B --dataset data.jsonl --per_device_train_batch_size 4 --gradient_accumulation_steps 4
    ```

    Source: swift/pipelines/train/kto.py:prepare_kto_dataset
    Not shown on CPU: the arguments are accepted; the data preparation raises
    """
    if kind(c) != "kto" or c.v.get("loss_type") in ("apo_zero_unpaired", UNKNOWN):
        return
    if c.v.megatron:
        size = whole(c.v.get("global_batch_size"))
        if size is not None and size <= 1:
            template = "KTO needs at least 2 samples a step; --global_batch_size is {size}"
            yield c.finding(template, "global_batch_size", size=size, fix=c.set_flag("global_batch_size", "16"))
        return
    world, per_device = c.v.place.world_size, whole(c.v.get("per_device_train_batch_size"))
    steps = whole(c.v.get("gradient_accumulation_steps"))
    if world is None or per_device is None or steps is None or world * per_device * steps > 1:
        return
    template = "KTO needs at least 2 samples a step: {world} process(es) × batch {per_device} × accumulation {steps} = {size}; raise one of them"
    yield c.finding(
        template, "gradient_accumulation_steps", flags=["per_device_train_batch_size"], world=world, per_device=per_device, steps=steps,
        size=world * per_device * steps, fix=c.set_flag("gradient_accumulation_steps", "8"),
    )  # fmt: skip


@rule("ALG011", "ppo-needs-one-reward-model", consequence="wrong", routes=("swift rlhf",))
def ppo_needs_one_reward_model(c: JobCheck) -> Iterator[Finding]:
    """PPO without a reward model, or with several.

    PPO scores with one sequence-classification model and starts its value model from it. Reward functions belong to GRPO and are not read.

    In the log: `AttributeError: 'NoneType' object has no attribute 'base_model_prefix'`; with two: `AssertionError: model_id_or_path: [...]`

    Wrong:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type ppo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type ppo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model output/rm/checkpoint-500
    ```

    Source: swift/pipelines/train/rlhf.py:SwiftRLHF._prepare_single_model
    Not shown on CPU: the arguments are accepted; loading the models raises
    """
    models = c.v.get("reward_model")
    if kind(c) != "ppo" or models is UNKNOWN:
        return
    count = len(words(models))
    if count == 1:
        return
    extra = "; --reward_funcs is for GRPO and is not read" if set_to(c.v, "reward_funcs") else ""
    if count == 0:
        template = "PPO needs exactly one --reward_model (a sequence-classification model, from which the value model starts); none is given{extra}"
        at: str = "reward_funcs" if extra else "rlhf_type"
        fix = "--reward_model <sequence-classification model>, or --rlhf_type grpo with --reward_funcs"
    else:
        template = "PPO needs exactly one --reward_model; {count} are given{extra}"
        at, fix = "reward_model", f"--reward_model {words(models)[0]}"
    yield c.finding(template, at, flags=["reward_model", "rlhf_type"], count=count, extra=extra, fix=fix)


@rule("ALG012", "ppo-ignores-max-steps", severity="warning", consequence="wrong", routes=("swift rlhf",))
def ppo_ignores_max_steps(c: JobCheck) -> Iterator[Finding]:
    """`max_steps` with PPO, which counts epochs only.

    PPO plans its updates from the number of rows and `num_train_epochs` and never asks for `max_steps`.

    In the log: nothing; the run goes on for num_train_epochs

    Wrong:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type ppo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model output/rm --max_steps 200
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type ppo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model output/rm --num_train_epochs 1
    ```

    Source: trl/experimental/ppo/ppo_trainer.py:PPOTrainer.__init__ (total_episodes)
    """
    steps = whole(c.v.get("max_steps"))
    if kind(c) != "ppo" or steps is None or steps <= 0:
        return
    template = "--max_steps {steps} is not read by PPO: it trains for --num_train_epochs {epochs}; cut the data set (`data#N`) to shorten the run"
    yield c.finding(template, "max_steps", flags=["num_train_epochs"], steps=steps, epochs=c.v.get("num_train_epochs"), fix="--num_train_epochs")


@rule("ALG013", "completion-length-shadowed", severity="warning", consequence="wrong", routes=("swift rlhf",))
def completion_length_shadowed(c: JobCheck) -> Iterator[Finding]:
    """`response_length` or `max_new_tokens` beside another `max_completion_length`: the older names win.

    ms-swift keeps three names for one length and takes the first that is set: `response_length`, `max_new_tokens`, `max_completion_length`.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --max_completion_length 4096 --max_new_tokens 1024
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --max_completion_length 4096
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_max_completion_length
    """
    written = whole(given(c.v, "max_completion_length"))
    for name in ("response_length", "max_new_tokens"):  # in the order in which ms-swift prefers them
        other = whole(given(c.v, name))
        if given(c.v, name) is UNKNOWN:
            return
        if other and written is not None and other != written:
            template = "--{name} {other} wins over --max_completion_length {written}: completions end at {other} tokens; keep one of the two"
            related = [("max_completion_length", "not used")]
            yield c.finding(template, name, flags=["max_completion_length"], related=related, name=name, other=other, written=written, fix=c.drop_flag(name))
        if other:
            return


@rule("ALG014", "temperature-not-positive", consequence="wrong", routes=RLHF)
def temperature_not_positive(c: JobCheck) -> Iterator[Finding]:
    """Temperature 0 in on-policy training.

    GRPO and GKD divide the logits by the temperature, so 0 gives no number; besides, greedy sampling makes all completions of a prompt the same,
    and GRPO then has no advantage to learn from.

    In the log: `loss: nan`, reward_std 0

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --temperature 0
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --temperature 1.0
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._get_per_token_logps_and_entropies_single; swift/rlhf_trainers/gkd_loss.py:gkd_loss
    Not shown on CPU: the arguments are accepted; the loss is not a number
    """
    temperature = number(c.v.get("temperature"))
    if kind(c) not in ("grpo", "gkd") or temperature is None or temperature > 0:
        return
    template = "--temperature {temperature}: {kind} divides the logits by it; it must be above 0 (0.9 is the default, 1.0 usual)"
    yield c.finding(template, "temperature", temperature=temperature, kind=(kind(c) or "").upper(), fix=c.set_flag("temperature", "1.0"))
