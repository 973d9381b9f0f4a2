"""Pipeline layouts and uneven pipeline splits of megatron-core, as plain arithmetic.

A layout string gives each pipeline stage its layers: `E` embedding, `t` transformer layer, `m` MTP layers, `L` loss; `|` ends a stage,
`x*3` and `(ab)*3` repeat, commas mean nothing. Stages are dealt out over the pipeline ranks in turn, so that stages / PP virtual stages
fall on each rank.

Sources (megatron-core 0.16): `transformer/pipeline_parallel_layer_layout.py`, `transformer/transformer_config.py`, `transformer/transformer_block.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from alula.run.record import record

LETTERS = {"E": "embedding", "t": "transformer layer", "m": "MTP", "L": "loss"}
_MOST = 100_000  # letters; a repeat count in a script can be any number

_GROUP = re.compile(r"\(([^)]+)\)\*(\d+)")
_LETTER = re.compile(r"(.)\*(\d+)")


class LayoutError(ValueError):
    """The string is no layout; the message says why."""


@record
class Layout:
    """A layout in stages, in the order of the layers. Each stage is its letters, such as `Ett`."""

    stages: tuple[str, ...]

    @property
    def flat(self) -> str:
        return "".join(self.stages)

    def count(self, letter: str) -> int:
        return self.flat.count(letter)

    def rank_of(self, stage: int, pipeline: int) -> tuple[int, int]:
        """(pipeline rank, virtual stage) of a stage."""
        return stage % pipeline, stage // pipeline

    def faults(self, layers: int | None, mtp_layers: int | None, pipeline: int) -> Iterator[str]:
        """What megatron-core refuses in it, in its order; `layers` None where the model is not known. PP must divide the stages."""
        flat = self.flat
        if not flat or flat[0] != "E":
            yield f"it must begin with E (embedding), not {flat[:1] or 'nothing'}"
        if flat and flat[-1] != "L":
            yield f"it must end with L (loss), not {flat[-1]}"
        for letter in "EL":
            if flat.count(letter) > 1:
                yield f"{letter} ({LETTERS[letter]}) stands {flat.count(letter)} times; it must stand once"
        if layers is not None and flat.count("t") != layers:
            yield f"it places {flat.count('t')} transformer layers (t); the model has {layers}"
        if flat.count("m") != (mtp_layers or 0):
            yield f"it places {flat.count('m')} MTP layers (m); mtp_num_layers is {mtp_layers}"
            return
        if "m" not in flat:
            return
        if "t" in flat[flat.index("m") :]:
            yield "a transformer layer (t) stands after an MTP layer (m)"
        virtual = len(self.stages) // pipeline
        holders = [number for number, stage in enumerate(self.stages) if "m" in stage]
        if len(holders) > 1:
            yield "all MTP layers (m) must stand in one stage"
        elif self.rank_of(holders[0], pipeline)[1] != virtual - 1:
            yield f"the MTP layers (m) must stand in the last virtual stage, so in one of the last {pipeline} stages"

    def lone_mtp_stages(self) -> tuple[int, ...]:
        """Stages with MTP layers and no transformer layer: the bridge copies the stage's last transformer layer to build them."""
        return tuple(number for number, stage in enumerate(self.stages) if "m" in stage and "t" not in stage)


def parse_layout(text: str) -> Layout:
    """A layout string -> its stages.

    Raises:
        LayoutError: a letter that is none, or an absurd length.
    """
    text = text.replace(",", "")
    for pattern in (_GROUP, _LETTER):
        if sum(len(m[1]) * int(m[2]) for m in pattern.finditer(text) if len(m[2]) < 7) > _MOST or any(len(m[2]) > 6 for m in pattern.finditer(text)):
            raise LayoutError("it has more layers than any model")
        text = pattern.sub(lambda match: match[1] * int(match[2]), text)
    strange = next((letter for letter in text if letter not in LETTERS and letter != "|"), None)
    if strange is not None:
        raise LayoutError(f"`{strange}` is none of E, t, m, L and |")
    return Layout(tuple(text.split("|")))


def stage_layers(layers: int, pipeline: int) -> tuple[int, int, int] | None:
    """(first, middle, last) layer counts of an uneven split that works where the layers do not divide evenly; None for no sensible one."""
    if pipeline < 2 or layers < pipeline:
        return None
    if pipeline == 2:
        return layers - layers // 2, 0, layers // 2
    for middle in (-(-layers // pipeline), layers // pipeline):  # the outer stages also hold embedding and loss, so they get fewer layers
        rest = layers - middle * (pipeline - 2)
        if rest >= 2:
            return rest - rest // 2, middle, rest // 2
    return None
