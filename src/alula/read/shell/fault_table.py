"""The shell faults: code, severity, message and page of each. The rule registry takes them from here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alula.run.record import record

if TYPE_CHECKING:
    from alula.run.finding import Confidence, Consequence, Severity


@record
class Fault:
    """One kind of shell fault. `doc` is its page, in the form that rules use; `template` its message."""

    code: str
    slug: str
    severity: Severity
    confidence: Confidence
    consequence: Consequence
    template: str
    doc: str


FAULTS: dict[str, Fault] = {}


def _fault(code: str, slug: str, severity: Severity, consequence: Consequence, template: str, doc: str, confidence: Confidence = "high") -> None:
    FAULTS[code] = Fault(code, slug, severity, confidence, consequence, template, doc)


_fault(
    "SHL001", "blank-after-backslash", "error", "refused",
    "a blank follows the backslash, so the line does not continue: `{program}` ends here and gets a blank as its last argument",
    """A blank after the backslash at the end of a line.

    A backslash joins two lines only when the newline follows it at once. With a blank between them bash passes that blank as an argument and ends the
    command; the lines below run as commands of their own.

    In the log: `--model: command not found`, and ms-swift complains about the arguments that it did not get.

    Wrong:
    ```sh
    swift sft \\\x20
        --model Qwen/Qwen2.5-0.5B-Instruct \\
        --dataset AI-ModelScope/alpaca-gpt4-data-zh
    ```

    Right:
    ```sh
    swift sft \\
        --model Qwen/Qwen2.5-0.5B-Instruct \\
        --dataset AI-ModelScope/alpaca-gpt4-data-zh
    ```

    Source: swift/arguments/sft_args.py:SftArguments (the dataset that never arrives)
    """,
)  # fmt: skip
_fault(
    "SHL002", "missing-backslash", "error", "wrong",
    "`{flag}` starts a command of its own: the line above does not end in a backslash, so `{program}` never gets this and what follows",
    """A line of flags that no longer belongs to the command above it.

    The line before lacks its backslash (or an empty line stands between), so the command ends there. ms-swift starts with the flags that it has got, and
    bash tries to run the rest as a program named `--flag`.

    In the log: `run.sh: line 4: --learning_rate: command not found`, after or beside a training that runs with defaults.

    Wrong:
    ```sh
    swift sft \\
        --model Qwen/Qwen2.5-0.5B-Instruct \\
        --dataset AI-ModelScope/alpaca-gpt4-data-zh
        --learning_rate 1e-5
    ```

    Right:
    ```sh
    swift sft \\
        --model Qwen/Qwen2.5-0.5B-Instruct \\
        --dataset AI-ModelScope/alpaca-gpt4-data-zh \\
        --learning_rate 1e-5
    ```

    Source: swift/arguments/base_args/base_args.py:BaseArguments (the defaults that apply instead)
    Not shown on CPU: ms-swift accepts the shorter command; only bash sees the lost line
    """,
)  # fmt: skip
_fault(
    "SHL003", "comment-in-continuation", "error", "wrong",
    "this comment ends `{program}`: `{flag}` and what follows never reach it",
    """A comment between the lines of a continued command.

    A comment runs to the end of its line, backslash included. It cannot stand inside a continued command: the command ends there, and the lines below run
    as commands of their own.

    In the log: `run.sh: line 5: --learning_rate: command not found`, after or beside a training that runs with defaults.

    Wrong:
    ```sh
    swift sft \\
        --model Qwen/Qwen2.5-0.5B-Instruct \\
        --dataset AI-ModelScope/alpaca-gpt4-data-zh \\
        # --lora_rank 8 \\
        --learning_rate 1e-5
    ```

    Right:
    ```sh
    # --lora_rank 8
    swift sft \\
        --model Qwen/Qwen2.5-0.5B-Instruct \\
        --dataset AI-ModelScope/alpaca-gpt4-data-zh \\
        --learning_rate 1e-5
    ```

    Source: swift/arguments/base_args/base_args.py:BaseArguments (the defaults that apply instead)
    Not shown on CPU: ms-swift accepts the shorter command; only bash sees the lost lines
    """,
)  # fmt: skip
_fault(
    "SHL004", "non-breaking-space", "error", "refused",
    "{what} stands where a plain blank belongs; bash takes it as part of the word `{word}`",
    """A blank that is none: a non-breaking, ideographic or zero-width space, as web pages and chat programs put in.

    bash splits words at spaces and tabs only. What looks like a flag and its value is one word to it.

    In the log: `ValueError: remaining_argv: ['--lora_rank\\u00a08']`, or an invalid value with a strange blank in it.

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh --lora_rank\u00a08
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh --lora_rank 8
    ```

    Source: swift/pipelines/base.py:SwiftPipeline._parse_args
    """,
)  # fmt: skip
_fault(
    "SHL005", "smart-quote", "error", "refused",
    "`{char}` is not what bash knows as {meant}; it is an ordinary character in the word `{word}`",
    """Typographic quotes and dashes, as word processors and chat programs put them in.

    “ ” ‘ ’ quote nothing, and – or — before a name makes no flag. bash passes them on as characters.

    In the log: `ValueError: remaining_argv: ['–lora_rank', '8']`, or a path that does not exist because it begins with a quote.

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh \u2013lora_rank 8
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh --lora_rank 8
    ```

    Source: swift/pipelines/base.py:SwiftPipeline._parse_args
    """,
)  # fmt: skip
_fault(
    "SHL006", "crlf", "error", "refused",
    "the lines end in CR LF, as Windows writes them ({count} lines): bash takes the CR as part of the last word, and no backslash continues a line",
    """Windows line ends.

    bash knows LF only. A CR stays at the end of the last word of a line, and a backslash before it does not continue the line. alula reads the rest of the
    script as if the CRs were gone.

    In the log: `$'\\r': command not found`, or a flag's value that ends in `\\r`.

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh\r
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh
    ```

    Source: swift/arguments/base_args/data_args.py:DataArguments (a data set whose name ends in a CR)
    Not shown on CPU: the data set's name is looked up only when it is loaded
    """,
)  # fmt: skip
_fault(
    "SHL007", "assignment-after-command", "error", "refused",
    "`{word}` stands after `{program}`, so it is an argument and sets nothing; an assignment stands before the command",
    """An environment variable that is set after the command instead of before it.

    `NAME=value` is an assignment only in front of the program. Behind it ms-swift gets it as a word among its arguments.

    In the log: `ValueError: remaining_argv: ['NPROC_PER_NODE=4']`

    Wrong:
    ```sh
    swift sft NPROC_PER_NODE=4 --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh
    ```

    Source: swift/pipelines/base.py:SwiftPipeline._parse_args
    """,
)  # fmt: skip
_fault(
    "SHL008", "export-swallows-command", "error", "wrong",
    "`{builtin}` takes the whole line: `{program}` is a name to it, and nothing is started",
    """`export` continued into the command that it should prepare.

    `export X=2 \\` with the command on the next line is one command, `export`: every word after it is a name to export. ms-swift never starts.

    In the log: ``export: `--model': not a valid identifier``, and nothing else.

    Wrong:
    ```sh
    export NPROC_PER_NODE=2 \\
    swift sft \\
        --model Qwen/Qwen2.5-0.5B-Instruct \\
        --dataset AI-ModelScope/alpaca-gpt4-data-zh
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 \\
    swift sft \\
        --model Qwen/Qwen2.5-0.5B-Instruct \\
        --dataset AI-ModelScope/alpaca-gpt4-data-zh
    ```

    Source: swift/cli/main.py:get_torchrun_args (what would have read the variable)
    Not shown on CPU: nothing reaches ms-swift
    """,
)  # fmt: skip
_fault(
    "SHL009", "empty-value", "warning", "refused",
    "`{variable}` is empty here and not quoted, so it vanishes: `{flag}` is left without a value",
    """An empty variable where a flag's value should be.

    Without quotes an empty variable gives no word at all. The flag before it is left without a value, which ms-swift refuses, or takes as an empty list.

    In the log: `error: argument --learning_rate: expected one argument`

    Wrong:
    ```sh
    LR=""
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh --learning_rate $LR --lora_rank 8
    ```

    Right:
    ```sh
    LR=1e-5
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh --learning_rate $LR --lora_rank 8
    ```

    Source: swift/pipelines/base.py:SwiftPipeline._parse_args
    """,
)  # fmt: skip
_fault(
    "SHL010", "not-exported", "error", "wrong",
    "`{name}` is set but not exported: `{program}` does not get it",
    """A variable that was meant for ms-swift's environment stays in the shell.

    `NAME=value` on a line of its own sets a variable of the shell. A program gets it only when it is exported or stands in front of the command on the same
    line (or on lines that end in a backslash).

    In the log: nothing. One process runs where several were meant, on the devices that happen to be visible.

    Wrong:
    ```sh
    NPROC_PER_NODE=4
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh
    ```

    Right:
    ```sh
    export NPROC_PER_NODE=4
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh
    ```

    Source: swift/cli/main.py:get_torchrun_args
    Not shown on CPU: ms-swift starts, only with one process
    """,
)  # fmt: skip
_fault(
    "SHL011", "flag-and-value-in-one-word", "error", "refused",
    "`{word}` reaches {program} as one word, blank included, so it is no flag",
    """A flag and its value inside one pair of quotes.

    Quotes make one word. `"--lora_rank 8"` is a flag of that whole name, which ms-swift does not have; so is a quoted variable that holds several flags.

    In the log: `ValueError: remaining_argv: ['--lora_rank 8']`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh "--lora_rank 8"
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh --lora_rank 8
    ```

    Source: swift/pipelines/base.py:SwiftPipeline._parse_args
    """,
)  # fmt: skip
_fault(
    "SHL012", "backslash-joins-next-command", "error", "refused",
    "the line above ends in a backslash, so `{word}` is an argument of `{program}` and does not run",
    """A backslash too many: the next command becomes part of this one.

    The last line of a command must not end in a backslash when another command follows.

    In the log: `ValueError: remaining_argv: ['echo', 'done']`

    Wrong:
    ```sh
    swift sft \\
        --model Qwen/Qwen2.5-0.5B-Instruct \\
        --dataset AI-ModelScope/alpaca-gpt4-data-zh \\
        --lora_rank 8 \\
    echo done
    ```

    Right:
    ```sh
    swift sft \\
        --model Qwen/Qwen2.5-0.5B-Instruct \\
        --dataset AI-ModelScope/alpaca-gpt4-data-zh \\
        --lora_rank 8
    echo done
    ```

    Source: swift/pipelines/base.py:SwiftPipeline._parse_args
    """,
)  # fmt: skip
_fault(
    "SHL013", "never-closed", "error", "refused",
    "{reason}",
    """A quote, a bracket of an expansion or a here-document that never ends.

    bash reads on to the end of the file, and refuses what it finds (a here-document: warns, and takes everything as its text). alula reads on as if the
    character were an ordinary one.

    In the log: ``unexpected EOF while looking for matching `"'``

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset "AI-ModelScope/alpaca-gpt4-data-zh
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset "AI-ModelScope/alpaca-gpt4-data-zh"
    ```

    Source: bash (nothing reaches swift/cli/main.py:cli_main)
    Not shown on CPU: nothing reaches ms-swift
    """,
)  # fmt: skip
_fault(
    "SHL014", "syntax-error", "error", "refused",
    "bash cannot read this: {reason}",
    """What bash cannot read as a script.

    A block without its end, a stray keyword or operator. bash runs what stands before and stops here; alula reads on behind it.

    In the log: ``syntax error near unexpected token `fi'``

    Wrong:
    ```sh
    if [ -n "$1" ]
        swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh
    fi
    ```

    Right:
    ```sh
    if [ -z "$1" ]; then
        swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh
    fi
    ```

    Source: bash (nothing reaches swift/cli/main.py:cli_main)
    Not shown on CPU: nothing reaches ms-swift
    """,
)  # fmt: skip
_fault(
    "SHL015", "placeholder", "error", "refused",
    "`{text}` is still to be filled in; bash reads `<` and `>` as redirections",
    """A `<placeholder>` that nobody replaced.

    To bash `<name>` is a redirection from a file `name` and into whatever follows.

    In the log: `name: No such file or directory`, or ``syntax error near unexpected token `newline'``

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset <your_dataset> --lora_rank 8
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset AI-ModelScope/alpaca-gpt4-data-zh --lora_rank 8
    ```

    Source: bash (nothing reaches swift/cli/main.py:cli_main)
    Not shown on CPU: nothing reaches ms-swift
    """,
)  # fmt: skip
