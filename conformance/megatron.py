"""What the judge adds for Megatron routes: no CUDA, and the model configuration that is built before the first weight."""

from __future__ import annotations

from typing import Any


def without_cuda() -> None:
    """Keep ms-swift's parallel-state set-up, leave out its random seeds and MoE scale, which are tensors on a device."""
    import swift.megatron.arguments.megatron_args as arguments
    from swift.megatron.utils import megatron_lm_utils

    arguments.initialize_megatron = megatron_lm_utils._initialize_mpu


def build_config(args: Any) -> None:
    """The real Megatron model configuration for these arguments: heads, layers, experts against the parallel sizes."""
    from swift.megatron.model.utils import get_mcore_model_config
    from transformers import AutoConfig

    config = get_mcore_model_config(args, AutoConfig.from_pretrained(args.model_dir))
    args.mcore_config = config
