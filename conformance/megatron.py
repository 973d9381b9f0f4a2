"""What the judge adds for Megatron routes: no CUDA, and the checks that stand between the arguments and the first weight.

They are real calls into megatron-core, made without a model: its configuration, the split of its layers over the pipeline, and the first
lines of the expert layer. `STAGES` lists them in the order in which a run meets them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def without_cuda() -> None:
    """Keep ms-swift's parallel-state set-up, leave out its random seeds and MoE scale, which are tensors on a device."""
    import swift.megatron.arguments.megatron_args as arguments
    from swift.megatron.utils import megatron_lm_utils

    arguments.initialize_megatron = megatron_lm_utils._initialize_mpu


def model_config(args: Any) -> None:
    """The Megatron model configuration: heads, experts, recomputation, dispatchers against the parallel sizes."""
    from swift.megatron.model.utils import get_mcore_model_config
    from transformers import AutoConfig

    args.mcore_config = get_mcore_model_config(args, AutoConfig.from_pretrained(args.model_dir))


def model_build(args: Any) -> None:
    """How many layers every pipeline stage builds, and how many experts every rank (`TransformerBlock`, `BaseMoELayer`)."""
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.transformer.moe.moe_layer import BaseMoELayer
    from megatron.core.transformer.transformer_block import get_num_layers_to_build

    config = args.mcore_config
    for stage in range(config.pipeline_model_parallel_size):
        for chunk in range(config.virtual_pipeline_model_parallel_size or 1):
            get_num_layers_to_build(config, vp_stage=chunk, pp_rank=stage)
    if config.num_moe_experts:

        class Layer(BaseMoELayer):  # type: ignore[misc]  # megatron-core is not installed where types are checked
            def forward(self, hidden_states: Any) -> Any:
                return hidden_states

        Layer(config, pg_collection=ProcessGroupCollection.use_mpu_process_groups())


def first_step(args: Any) -> None:
    """What the expert layer refuses at the first training forward pass, the only check that waits so long."""
    from megatron.core import mpu
    from megatron.core.transformer.moe.moe_layer import MoELayer

    if not args.mcore_config.num_moe_experts or getattr(args, "to_hf", False) or getattr(args, "to_mcore", False):
        return
    with suppress(_PastTheChecks):
        MoELayer.forward(_Layer(args.mcore_config, mpu.get_tensor_model_parallel_group()), None)


class _PastTheChecks(Exception):
    """The layer began its work."""


class _Layer:
    """An expert layer in training that knows its configuration and its group, and nothing to compute with."""

    training = True

    def __init__(self, config: Any, group: Any) -> None:
        self.config = config
        self.attn_tp_group = group

    def __getattr__(self, name: str) -> Any:
        raise _PastTheChecks(name)


def limits(args: Any, exception: str, message: str) -> str:
    """Why a refusal says more of this environment than of the command; empty if it does not."""
    from mcore_bridge.model.constant import ModelType

    if exception == "AmbiguousGlobalPerLayerAttributeError":
        return "this transformers keeps some sizes of the model a layer, where mcore-bridge 1.6.5 reads one for all"
    if message.endswith("is not supported.") and hasattr(ModelType, str(args.model_type)):
        return "mcore-bridge registers this model only beside a newer megatron-core, which needs Python 3.12"
    return ""


STAGES = (("model config", model_config), ("model build", model_build), ("first step", first_step))
