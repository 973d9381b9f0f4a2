"""The numbers of a model that decide memory, time and which parallel sizes are legal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from alula.run.record import record


@record
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2 and its heirs): sizes of the compressed projections, in elements.

    `q_rank` 0 means that queries are projected directly. `index_layers` layers have a sparse-attention indexer of their own
    (DeepSeek-V3.2, GLM-5): `index_heads` heads of `index_dim`.
    """

    q_rank: int
    kv_rank: int
    qk_nope_dim: int
    qk_rope_dim: int
    value_dim: int
    index_heads: int = 0
    index_dim: int = 0
    index_layers: int = 0


@record
class LinearAttention:
    """The recurrent layers of a hybrid model (gated delta net): they have no growing KV cache.

    Attributes:
        interval: every `interval`-th layer is full attention, the others are linear; 0 where the pattern is another.
        full_layers: how many layers are full attention.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    interval: int
    full_layers: int


@record
class Mamba:
    """Mamba-2 layers of a hybrid whose layers are each *one* of recurrence, attention, feed-forward or experts (Nemotron-H).

    Attributes:
        layers, attention_layers, mlp_layers: how many layers are recurrent, attention, dense feed-forward.
    """

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    layers: int
    attention_layers: int
    mlp_layers: int


@record
class Vision:
    """A vision (or audio) tower beside the language model. `parameters` counts it with its projector; 0 where unknown."""

    hidden_size: int
    layers: int
    heads: int
    intermediate: int
    patch: int = 0
    merge: int = 1
    parameters: int = 0


@record
class Counts:
    """Parameters of a language model, by where parallelism puts them. All are totals over layers.

    Attributes:
        embedding: the input table; `head` is 0 where both are one.
        attention: projections (and recurrent layers), divided by tensor parallelism.
        dense_mlp: feed-forward of layers without experts.
        experts: all routed experts; `active_experts` only those a token visits.
        shared: shared experts with their gates, and the projections around narrower routed experts.
        router: the routers, replicated.
        norms: everything that is replicated in each layer, and the last norm.
        mtp: multi-token-prediction layers; absent from plain fine-tuning.
    """

    embedding: int
    head: int
    attention: int
    dense_mlp: int
    experts: int
    active_experts: int
    shared: int
    router: int
    norms: int
    mtp: int = 0

    @property
    def total(self) -> int:
        """Without multi-token prediction, as transformers loads it."""
        return self.embedding + self.head + self.attention + self.dense_mlp + self.experts + self.shared + self.router + self.norms

    @property
    def active(self) -> int:
        """Parameters that one token visits."""
        return self.total - self.experts + self.active_experts


@dataclass(frozen=True)
class ModelShape:
    """One model's architecture. Sizes count elements; a language model inside a multimodal one is described by itself.

    Attributes:
        name: the id it is best known by, or the folder's name.
        family: the file of `facts/models` it belongs to, or the model type.
        model_type: as in `config.json` (of the whole model, such as `qwen3_vl`).
        architecture: first entry of `architectures`; empty where unknown.
        intermediate: width of a dense feed-forward layer; 0 where every layer has experts.
        tied: input and output embeddings are one tensor.
        head_dim: of queries and keys; with latent attention see `latent`.
        gated_attention: the query projection also makes an output gate (twice as wide).
        qk_norm: queries and keys are normalised: per `head`, or the `whole` projection at once; empty when they are not.
        layer_norms: norms of `hidden_size` in each layer.
        qkv_bias, out_bias: the attention projections have biases.
        mlp_matrices: 3 for gated feed-forward (SwiGLU), 2 for plain.
        experts, top_k: routed experts, and how many a token visits; 0 for dense models.
        expert_intermediate, shared_intermediate: width of a routed expert, and of all shared experts together.
        expert_input: width that routed experts read and write, where it is not `hidden_size` (projected down and up once a layer); else 0.
        first_dense: leading layers without experts.
        expert_layers: number of layers with experts.
        mtp_layers: multi-token-prediction layers in the checkpoint.
        sliding_window: tokens that a windowed layer sees; 0 for none.
        ids: other ids with exactly this architecture.
        published: the parameter total where it was published or counted on the real model (vision included).
        exact: `counts` reproduces the real model for this architecture; otherwise it is an estimate.
        source: where the numbers come from.
    """

    name: str
    family: str
    model_type: str
    architecture: str
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool = False
    max_positions: int = 0
    gated_attention: bool = False
    qk_norm: Literal["", "head", "whole"] = ""
    layer_norms: int = 2
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_matrices: int = 3
    experts: int = 0
    top_k: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    shared_gate: bool = False
    expert_input: int = 0
    first_dense: int = 0
    expert_layers: int = 0
    mtp_layers: int = 0
    sliding_window: int = 0
    latent: LatentAttention | None = None
    linear: LinearAttention | None = None
    mamba: Mamba | None = None
    vision: Vision | None = None
    ids: tuple[str, ...] = ()
    published: int = 0
    exact: bool = False
    source: str = ""

    @property
    def is_moe(self) -> bool:
        return self.experts > 0

    @property
    def multimodal(self) -> bool:
        return self.vision is not None

    @property
    def attention_layers(self) -> int:
        """Layers with full attention: those that keep a growing KV cache."""
        if self.mamba:
            return self.mamba.attention_layers
        return self.linear.full_layers if self.linear else self.layers

    @property
    def kv_elements_per_token(self) -> int:
        """Elements of KV cache that one token needs in all layers together (latent attention caches its compressed form)."""
        if self.latent:
            return self.attention_layers * (self.latent.kv_rank + self.latent.qk_rope_dim)
        return self.attention_layers * 2 * self.kv_heads * self.head_dim

    @cached_property
    def counts(self) -> Counts:
        """Parameters of the language model, by kind."""
        h, full = self.hidden_size, self.attention_layers
        attention, norms = full * self._attention(), full * self._attention_norms()
        dense_layers, norms_per_layer = self.layers - self.expert_layers, self.layer_norms * h
        if self.mamba:
            dense_layers, norms_per_layer = self.mamba.mlp_layers, h
            attention += self.mamba.layers * _mamba(h, self.mamba)
            norms += self.mamba.layers * (self.mamba.heads * (self.mamba.head_dim + 3))
        if self.linear:
            recurrent = self.layers - full
            attention += recurrent * _linear_attention(h, self.linear)
            norms += recurrent * (self.linear.value_dim + 2 * self.linear.value_heads)
        if self.latent and self.latent.index_layers:
            m = self.latent
            attention += m.index_layers * (m.q_rank * m.index_heads * m.index_dim + h * (m.index_dim + m.index_heads))
            norms += m.index_layers * 2 * m.index_dim
        width = self.mlp_matrices * h
        return Counts(
            embedding=self.vocab * h,
            head=0 if self.tied else self.vocab * h,
            attention=attention,
            dense_mlp=dense_layers * width * self.intermediate,
            experts=self.expert_layers * self.experts * self._expert(),
            active_experts=self.expert_layers * self.top_k * self._expert(),
            shared=self.expert_layers * (width * self.shared_intermediate + (h if self.shared_gate else 0) + 2 * h * self.expert_input),
            router=self.expert_layers * self._router(),
            norms=norms + self.layers * norms_per_layer + h,
            mtp=self.mtp_layers * self._mtp(),
        )

    @property
    def parameters(self) -> int:
        """All parameters that training loads: the published total, else the counted language model with its vision tower."""
        return self.published or self.counts.total + (self.vision.parameters if self.vision else 0)

    @property
    def active_parameters(self) -> int:
        """Parameters that one text token visits."""
        return self.counts.active

    def _attention(self) -> int:
        """Projections of one full-attention layer."""
        h = self.hidden_size
        if self.latent:
            m = self.latent
            qk = m.qk_nope_dim + m.qk_rope_dim
            query = m.q_rank * (h + self.heads * qk) if m.q_rank else h * self.heads * qk
            return (
                query
                + h * (m.kv_rank + m.qk_rope_dim)
                + m.kv_rank * self.heads * (m.qk_nope_dim + m.value_dim)
                + self.heads * m.value_dim * h
            )
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        q_out = q * 2 if self.gated_attention else q
        weights = h * q_out + 2 * h * kv + q * h
        return weights + (q_out + 2 * kv if self.qkv_bias else 0) + (h if self.out_bias else 0)

    def _attention_norms(self) -> int:
        if self.latent:
            return self.latent.kv_rank + self.latent.q_rank
        extra = self.heads if self.model_type == "gpt_oss" else 0  # attention sinks
        heads = {"": 0, "head": 2, "whole": self.heads + self.kv_heads}[self.qk_norm]
        return extra + heads * self.head_dim

    def _expert(self) -> int:
        biases = 2 * self.expert_intermediate + self.hidden_size if self.model_type == "gpt_oss" else 0
        return self.mlp_matrices * (self.expert_input or self.hidden_size) * self.expert_intermediate + biases

    def _router(self) -> int:
        # The correction bias of DeepSeek-like routers is a buffer, not a parameter.
        return self.experts * (self.hidden_size + (1 if self.model_type == "gpt_oss" else 0))

    def _mtp(self) -> int:
        """One multi-token-prediction layer: a decoder layer, the projection of the two inputs, three norms."""
        h = self.hidden_size
        if self.experts:
            mlp = self.experts * self._expert() + self.mlp_matrices * h * self.shared_intermediate + self._router()
        else:
            mlp = self.mlp_matrices * h * self.intermediate
        return self._attention() + self._attention_norms() + mlp + 2 * h * h + 5 * h


def _mamba(hidden: int, mamba: Mamba) -> int:
    """Projections and convolution of one Mamba-2 layer (transformers `NemotronHMamba2Mixer`)."""
    inner = mamba.heads * mamba.head_dim
    convolved = inner + 2 * mamba.groups * mamba.state
    return hidden * (inner + convolved + mamba.heads) + inner * hidden + convolved * (mamba.kernel + 1)


def _linear_attention(hidden: int, linear: LinearAttention) -> int:
    """Projections and convolution of one gated-delta-net layer (transformers `Qwen3NextGatedDeltaNet`)."""
    keys, values = linear.key_heads * linear.key_dim, linear.value_heads * linear.value_dim
    projections = hidden * (2 * keys + 2 * values + 2 * linear.value_heads) + values * hidden
    return projections + linear.kernel * (2 * keys + values)
