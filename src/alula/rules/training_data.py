"""Training data as the flags describe it: streaming, packing's needs, sampling counts, validation data that is or is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .registry import TRAIN, rule
from .training import BASE
from .values import exists

if TYPE_CHECKING:
    from alula.run.finding import Finding


@rule("TRN020", "streaming-without-max-steps", consequence="wrong", routes=TRAIN)
def streaming_without_max_steps(c: JobCheck) -> Iterator[Finding]:
    """`--streaming true` without `--max_steps`.

    A stream has no length, so that epochs cannot be turned into steps: the learning-rate schedule would have no end.

    In the log: `ValueError: The train_dataset does not implement __len__, max_steps has to be specified.`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --streaming true --num_train_epochs 1
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --streaming true --max_steps 1000
    ```

    Source: transformers/trainer.py:Trainer.__init__
    Not shown on CPU: the trainer refuses it, after the model and the data are loaded
    """
    steps = c.v.get("max_steps")
    if c.v.get("streaming") is not True or not isinstance(steps, int) or steps > 0:
        return
    template = "--streaming true without --max_steps: a stream has no length, and the trainer stops; steps = rows × epochs / ({per_device} per device × {world} processes × {accumulation} accumulation)"
    yield c.finding(
        template, "streaming", flags=["max_steps"], per_device=_shown(c.v.get("per_device_train_batch_size")), world=_shown(c.v.place.world_size),
        accumulation=_shown(c.v.accumulation), fix="--max_steps <optimizer steps>",
    )  # fmt: skip


def _shown(value: object) -> str:
    return "?" if value is UNKNOWN or value is None else str(value)


@rule("TRN021", "lazy-tokenize-conflict", routes=BASE)
def lazy_tokenize_conflict(c: JobCheck) -> Iterator[Finding]:
    """`--lazy_tokenize true` with packing or streaming.

    Packing must know every row's length before training, and a stream has no rows to come back to; both tokenize on their own terms.

    In the log: `ValueError: Packing and lazy_tokenize are incompatible.`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --packing true --attn_impl flash_attn --lazy_tokenize true
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --packing true --attn_impl flash_attn
    ```

    Source: swift/arguments/base_args/base_args.py:BaseArguments._init_lazy_tokenize
    """
    if c.v.get("lazy_tokenize") is not True:
        return
    for flag in ("packing", "streaming"):
        if c.v.get(flag) is True:
            yield c.finding("--lazy_tokenize true and --{flag} true exclude each other", "lazy_tokenize", flags=[flag], related=[(flag, flag)], flag=flag, fix=c.set_flag("lazy_tokenize", "false", safety="safe"))
            return


@rule("TRN022", "streaming-cached-data", consequence="wrong", routes=TRAIN, since="3.12")
def streaming_cached_data(c: JobCheck) -> Iterator[Finding]:
    """`--cached_dataset` with `--streaming true`.

    A cached data set is tokenized already and lies on disk; it is not streamed.

    In the log: `AssertionError: Cached dataset does not support streaming.`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --cached_dataset cache --streaming true --max_steps 100
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --cached_dataset cache --max_steps 100
    ```

    Source: swift/pipelines/train/sft.py:SwiftSft._prepare_dataset
    Not shown on CPU: it is refused when the data is loaded
    """
    if c.v.get("streaming") is True and (c.v.written("cached_dataset") or c.v.written("cached_val_dataset")):
        at = "cached_dataset" if c.v.written("cached_dataset") else "cached_val_dataset"
        yield c.finding("--{flag} and --streaming true exclude each other", at, flags=["streaming"], flag=at, fix=c.set_flag("streaming", "false"))


@rule("TRN023", "split-outside-pretraining", consequence="wrong", routes=TRAIN, since="3.12")
def split_outside_pretraining(c: JobCheck) -> Iterator[Finding]:
    """`--truncation_strategy split` in a run that is no pre-training.

    Cutting a long row into several is possible only for plain text: `swift pt`, or `swift sft` without a chat template.

    In the log: ``ValueError: `--truncation_strategy split` is currently only supported for pre-training.``

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --max_length 4096 --truncation_strategy split
    ```

    Right:
    ```sh
    swift pt --model Qwen/Qwen3-8B --dataset data.jsonl --max_length 4096 --truncation_strategy split
    ```

    Source: swift/pipelines/train/sft.py:SwiftSft._encode_dataset
    Not shown on CPU: it is refused when the data is tokenized
    """
    if c.v.get("truncation_strategy") != "split" or c.v.rlhf_type in ("grpo", "gkd") or c.v.rlhf_type is UNKNOWN:
        return
    chat = c.v.get("use_chat_template")
    if c.v.route == "swift rlhf" or chat is True or (chat is None and c.v.route == "swift sft"):
        template = "--truncation_strategy split works in pre-training only (`swift pt`); with `{route}` use delete, left or right"
        yield c.finding(template, "truncation_strategy", route=c.v.route, fix=c.set_flag("truncation_strategy", "delete"))
    elif c.v.get("lazy_tokenize") is True:
        template = "--truncation_strategy split cuts rows while it tokenizes and cannot be lazy"
        yield c.finding(template, "truncation_strategy", flags=["lazy_tokenize"], fix=c.set_flag("lazy_tokenize", "false"))


@rule("TRN024", "sample-count-unreadable", consequence="wrong", routes=(*TRAIN, "megatron sft", "megatron pt", "megatron rlhf", "swift sample"))
def sample_count_unreadable(c: JobCheck) -> Iterator[Finding]:
    """The part after `#` in `--dataset name#count` is no number.

    It says how many rows to take; more than there are repeats rows.

    In the log: `ValueError: invalid literal for int() with base 10: '1k'`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset AI-ModelScope/alpaca-gpt4-data-en#1k
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset AI-ModelScope/alpaca-gpt4-data-en#1000
    ```

    Source: swift/dataset/dataset_syntax.py:DatasetSyntax.parse
    Not shown on CPU: it is read when the data is loaded
    """
    for flag in ("dataset", "val_dataset"):
        use = c.v.use(flag)
        for token in use.values if use is not None and not use.maybe else ():
            name, mark, count = token.text.rpartition("#")
            if not mark or not token.known or exists(c, token.text):
                continue
            try:
                valid = int(count) > 0
            except ValueError:
                valid = False
            if not valid:
                template = "--{flag} {text}: after # stands the number of rows to take, not `{count}`"
                yield c.finding(template, token, flags=[flag], flag=flag, text=token.text, count=count, fix=f"--{flag} {name}#1000, or without #")


@rule("TRN025", "evaluation-without-data", severity="warning", consequence="wrong", routes=TRAIN)
def evaluation_without_data(c: JobCheck) -> Iterator[Finding]:
    """Evaluation is asked for, and there is no validation data.

    ms-swift turns `--eval_strategy` to `no` without a word then. Validation data come from `--val_dataset`, `--split_dataset_ratio` (0 by default, and not
    with streaming), `--cached_val_dataset` or `--eval_dataset`.

    In the log: nothing; no `eval_loss` ever appears

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --eval_strategy steps --eval_steps 100
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --eval_strategy steps --eval_steps 100 --split_dataset_ratio 0.01
    ```

    Source: swift/arguments/sft_args.py:SftArguments.__post_init__
    """
    use = c.v.use("eval_strategy")
    if use is None or use.maybe or use.value in (UNKNOWN, "no") or c.v.get("eval_strategy") != "no" or c.v.open_ended:
        return
    if c.v.get("load_best_model_at_end") is True:
        return  # refused, and said there
    ratio = c.v.use("split_dataset_ratio")
    why = ""
    if c.v.get("streaming") is True and ratio is not None and ratio.value:
        why = ": a stream is not split"
    elif c.v.get("split_dataset_ratio") == 0.0:
        why = " (--split_dataset_ratio 0)" if ratio is not None else ""
    template = "--eval_strategy {value} has no data to evaluate on{why}: ms-swift turns evaluation off; give --val_dataset or --split_dataset_ratio 0.01"
    yield c.finding(template, "eval_strategy", flags=["val_dataset", "split_dataset_ratio"], value=use.value, why=why, fix="--val_dataset <file>, or --split_dataset_ratio 0.01")


@rule("TRN026", "split-ratio-out-of-range", consequence="wrong", routes=TRAIN)
def split_ratio_out_of_range(c: JobCheck) -> Iterator[Finding]:
    """`--split_dataset_ratio` is no share between 0 and 1.

    It is the share of the training rows that becomes validation data. At 1 and above nothing is left to train on.

    In the log: `AssertionError` while the data is loaded

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --split_dataset_ratio 5
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --split_dataset_ratio 0.05
    ```

    Source: swift/dataset/dataset_meta.py:BaseDatasetLoader.post_process
    Not shown on CPU: it is refused when the data is split
    """
    value = c.v.get("split_dataset_ratio")
    if isinstance(value, (int, float)) and c.v.written("split_dataset_ratio") and not 0 <= value < 1:
        yield c.finding("--split_dataset_ratio {value}: a share of the rows, 0 ≤ share < 1", "split_dataset_ratio", value=value, fix=c.set_flag("split_dataset_ratio", "0.01"))


@rule("TRN027", "interleave-count", consequence="wrong", routes=TRAIN)
def interleave_count(c: JobCheck) -> Iterator[Finding]:
    """`--interleave_prob` does not have one probability for each data set.

    The probabilities mix the training sets and must add up to 1.

    In the log: `ValueError: …probabilities…`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset a.jsonl b.jsonl --interleave_prob 0.5 0.3 0.2
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset a.jsonl b.jsonl --interleave_prob 0.7 0.3
    ```

    Source: swift/dataset/loader.py:DatasetLoader.interleave_datasets
    Not shown on CPU: it is refused when the data is loaded
    """
    given, sets = c.v.get("interleave_prob"), c.v.get("dataset")
    if not isinstance(given, tuple) or not isinstance(sets, tuple) or not sets:
        return
    if len(given) != len(sets):
        template = "--interleave_prob has {count} probabilities for {sets} data sets"
        yield c.finding(template, "interleave_prob", flags=["dataset"], count=len(given), sets=len(sets), fix=f"{len(sets)} probabilities that add up to 1")
    elif abs(sum(given) - 1) > 1e-6:
        template = "--interleave_prob {given} adds up to {total}, not 1"
        total = round(sum(given), 6)
        yield c.finding(template, "interleave_prob", given=names(given), total=total, fix="--interleave_prob " + " ".join(f"{p / sum(given):.4g}" for p in given) if sum(given) else "probabilities that add up to 1")


@rule("TRN028", "split-ratio-ignored", severity="info", consequence="wrong", routes=TRAIN)
def split_ratio_ignored(c: JobCheck) -> Iterator[Finding]:
    """`--split_dataset_ratio` beside `--val_dataset`: nothing is split off.

    All rows of `--dataset` are trained on, and `--val_dataset` alone is evaluated.

    In the log: `Because len(args.val_dataset) > 0, setting split_dataset_ratio: 0.0`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset train.jsonl --val_dataset val.jsonl --split_dataset_ratio 0.1
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset train.jsonl --val_dataset val.jsonl
    ```

    Source: swift/arguments/base_args/data_args.py:DataArguments.__post_init__
    """
    use = c.v.use("split_dataset_ratio")
    if use is not None and not use.maybe and isinstance(use.value, float) and use.value > 0 and c.v.written("val_dataset"):
        yield c.finding("--split_dataset_ratio {value} is ignored: --val_dataset is given", "split_dataset_ratio", flags=["val_dataset"], value=use.value, fix=c.drop_flag("split_dataset_ratio"))
