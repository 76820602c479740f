"""Prefill and decode graphs of a language model from the header of its GGUF file, as ggml-hexagon would run them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from hexloom.hwmodels import MachineFileError
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.opportunities.costs import Costs, Work
from hexloom.optimizer.opportunities.gguf_header import Header, read_header
from hexloom.optimizer.opportunities.graph import Graph, Node

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.opportunities.gguf_header import TensorInfo

LAYER = re.compile(r"blk\.(\d+)\.(.+)\.weight$")
OUTSIDE = ("token_embd", "output_norm", "output", "rope_freqs", "token_embd_norm")
KNOWN = (
    "attn_norm", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_q_norm", "attn_k_norm", "attn_output",
    "post_attention_norm", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down", "post_ffw_norm", "ffn_gate_inp",
    "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "shortconv.in_proj", "shortconv.conv", "shortconv.out_proj",
)  # fmt: skip


def graph_of_gguf(path: Path, machine: Machine, tokens: int, context: int | None = None) -> Graph:
    """Return the graph of one pass over ``tokens`` tokens; 1 is a step of decode.

    Parameters
    ----------
    path
        The file, or the first part of it.
    machine
        Where it runs.
    tokens
        Rows of the pass.
    context
        Keys that attention looks at; default: the tokens, or 1,024 in decode.

    Raises
    ------
    InvalidInputError
        The header is damaged, or describes no transformer whose layers are known.
    """
    header = read_header(path)
    context = context or (max(tokens, 1024) if tokens == 1 else tokens)
    try:
        return _Builder(header, machine, tokens, context, str(path)).graph(path.name)
    except MachineFileError as error:
        raise InvalidInputError(f"{path}: {error}") from None


class _Builder:
    def __init__(self, header: Header, machine: Machine, tokens: int, context: int, source: str) -> None:
        self.header, self.source = header, source
        self.tokens, self.context = tokens, context
        self.machine = machine
        self.costs = Costs(machine)
        self.arch = str(header.metadata.get("general.architecture", ""))
        self.width = self._number("embedding_length")
        self.heads = self._number("attention.head_count")
        self.nodes: list[Node] = []
        self.left_out: set[str] = set()

    def _number(self, key: str, default: int | None = None) -> int:
        value: Any = self.header.metadata.get(f"{self.arch}.{key}", default)
        if isinstance(value, list):
            value = max(value, default=None)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidInputError(f"{self.source}: metadata {self.arch}.{key} is {value!r}; a whole number is needed")
        return value

    def graph(self, name: str) -> Graph:
        layers: dict[int, dict[str, TensorInfo]] = {}
        others: dict[str, TensorInfo] = {}
        for tensor in self.header.tensors:
            match = LAYER.fullmatch(tensor.name)
            if match is not None:
                layers.setdefault(int(match[1]), {})[match[2]] = tensor
                if match[2] not in KNOWN:
                    self.left_out.add(match[2])
            elif tensor.name.endswith(".weight"):
                others[tensor.name.removesuffix(".weight")] = tensor
        if not layers:
            raise InvalidInputError(f"{self.source}: no tensor is called blk.N.NAME.weight; this is no language model")
        at = self.add("GET_ROWS token_embd", self.costs.copy(4 * self._size(1), 4 * self._size(1)), ())
        for k in sorted(layers):
            at = self._layer(k, layers[k], at)
        at = self._norm("output_norm", at)
        head = others.get("output", others.get("token_embd"))
        if head is not None and len(head.dims) == 2:
            self.add("MUL_MAT output", self.costs.matmul(1, *head.dims, head.type), (at,), out=head.dims[1])
        notes = [f"{self.tokens} tokens at a time, attention over {self.context}; the output for one of them"]
        if self.left_out:
            notes.append("not modelled: tensors " + ", ".join(sorted(self.left_out)))
        kind = "decode" if self.tokens == 1 else "prefill"
        return Graph(
            name=f"{name} {kind}",
            kind="gguf",
            nodes=tuple(self.nodes),
            addresses_known=False,
            vtcm_bytes=self.machine.available_vtcm_bytes,
            notes=tuple(notes),
        )

    def _size(self, columns: int) -> int:
        return self.tokens * (self.width if columns == 1 else columns)

    def add(self, name: str, work: Work, after: tuple[int, ...], out: int = 0) -> int:
        """Add an operator with ``out`` columns of output, and return its position."""
        ns, needs = self.costs.predicted(work)
        self.nodes.append(
            Node(
                name=name,
                op=name.partition(" ")[0],
                ns=ns,
                needs=needs,
                after=tuple(sorted(set(after))),
                vtcm_bytes=min(work.vtcm_bytes, self.machine.available_vtcm_bytes),
                out_bytes=4 * self.tokens * (out or self.width),
            )
        )
        return len(self.nodes) - 1

    def _rows(self, op: str, name: str, rate: str, columns: int, after: tuple[int, ...], inputs: int = 1) -> int:
        work = self.costs.rows(rate, self.tokens * columns, inputs, columns)
        return self.add(f"{op} {name}", work, after, columns)

    def _norm(self, name: str, at: int, columns: int = 0) -> int:
        return self._rows("RMS_NORM+MUL", name, "hvx_rmsnorm", columns or self.width, (at,))

    def _matmul(self, name: str, tensor: TensorInfo, after: tuple[int, ...], times: int = 1) -> int:
        k, n = tensor.dims[0], tensor.dims[1]
        rows = self.tokens if len(tensor.dims) < 3 else max(1, math.ceil(self.tokens * times / tensor.dims[2]))
        count = 1 if len(tensor.dims) < 3 else min(tensor.dims[2], self.tokens * times)
        work = self.costs.matmul(rows, k, n, tensor.type).times(count)
        op = "MUL_MAT" if len(tensor.dims) < 3 else "MUL_MAT_ID"
        return self.add(f"{op} {name}", work, after, n * times)

    def _layer(self, k: int, has: dict[str, TensorInfo], at: int) -> int:
        here = f"blk.{k}"
        if "shortconv.in_proj" in has:
            mixed = self._shortconv(here, has, self._norm(f"{here}.attn_norm", at))
        else:
            mixed = self._attention(here, has, self._norm(f"{here}.attn_norm", at))
        if mixed is not None:
            if "post_attention_norm" in has and "ffn_norm" in has:
                mixed = self._norm(f"{here}.post_attention_norm", mixed)
            at = self._rows("ADD", f"{here}.attn", "hvx_add", self.width, (mixed, at), 2)
        fed = self._feed(here, has, self._norm(f"{here}.ffn_norm", at))
        if fed is None:
            return at
        return self._rows("ADD", f"{here}.ffn", "hvx_add", self.width, (fed, at), 2)

    def _attention(self, here: str, has: dict[str, TensorInfo], normed: int) -> int | None:
        if not {"attn_q", "attn_k", "attn_v"} <= has.keys() and "attn_qkv" not in has:
            return None
        if "attn_qkv" in has:
            joint = self._matmul(f"{here}.attn_qkv", has["attn_qkv"], (normed,))
            kv = self._number("attention.head_count_kv", self.heads)
            head = has["attn_qkv"].dims[1] // (self.heads + 2 * kv)
            q = key = value = joint
            columns = self.heads * head, kv * head
        else:
            q, key, value = (
                self._matmul(f"{here}.{part}", has[part], (normed,)) for part in ("attn_q", "attn_k", "attn_v")
            )
            columns = has["attn_q"].dims[1], has["attn_k"].dims[1]
            head = columns[0] // self.heads
            kv = max(1, columns[1] // max(1, head))
        if "attn_q_norm" in has:
            q = self._norm(f"{here}.attn_q_norm", q, columns[0])
        if "attn_k_norm" in has:
            key = self._norm(f"{here}.attn_k_norm", key, columns[1])
        q = self._rows("ROPE", f"{here}.q", "hvx_add", columns[0], (q,))
        key = self._rows("ROPE", f"{here}.k", "hvx_add", columns[1], (key,))
        size = 4 * self.tokens * columns[1]
        stored = tuple(
            self.add(f"SET_ROWS {here}.{part}", self.costs.copy(size, size // 2), (of,), columns[1])
            for part, of in (("k", key), ("v", value))
        )
        work = self.costs.attention(self.tokens, max(1, head), self.heads, kv, self.context)
        found = self.add(f"FLASH_ATTN_EXT {here}", work, (q, *stored), columns[0])
        return self._matmul(f"{here}.attn_output", has["attn_output"], (found,)) if "attn_output" in has else found

    def _shortconv(self, here: str, has: dict[str, TensorInfo], normed: int) -> int | None:
        """LFM2: in_proj gives b, c and x; b times x is convolved over time, c gates the result."""
        wide = self._matmul(f"{here}.shortconv.in_proj", has["shortconv.in_proj"], (normed,))
        gated = self._rows("MUL", f"{here}.shortconv.bx", "hvx_add", self.width, (wide,), 2)
        taps = has["shortconv.conv"].dims[0] if "shortconv.conv" in has else 3
        work = self.costs.rows("hvx_add", self.tokens * self.width, 1, self.width, passes=taps)
        conv = self.add(f"SSM_CONV {here}", work, (gated,))
        out = self._rows("MUL", f"{here}.shortconv.c", "hvx_add", self.width, (conv, wide), 2)
        last = has.get("shortconv.out_proj")
        return out if last is None else self._matmul(f"{here}.shortconv.out_proj", last, (out,))

    def _feed(self, here: str, has: dict[str, TensorInfo], normed: int) -> int | None:
        experts = "ffn_up_exps" in has
        end = "_exps" if experts else ""
        if f"ffn_up{end}" not in has or f"ffn_down{end}" not in has:
            return None
        after: tuple[int, ...] = (normed,)
        times = 1
        if experts:
            times = self._number("expert_used_count", 1)
            if "ffn_gate_inp" in has:
                router = self._matmul(f"{here}.ffn_gate_inp", has["ffn_gate_inp"], (normed,))
                count = has["ffn_gate_inp"].dims[1]
                after = (normed, self._rows("SOFT_MAX", f"{here}.experts", "hvx_softmax", count, (router,)))
        up = self._matmul(f"{here}.ffn_up{end}", has[f"ffn_up{end}"], after, times)
        columns = has[f"ffn_up{end}"].dims[1] * times
        gates = [up]
        if f"ffn_gate{end}" in has:
            gates.append(self._matmul(f"{here}.ffn_gate{end}", has[f"ffn_gate{end}"], after, times))
        mid = self._rows("SWIGLU", here, "hvx_swiglu", columns, tuple(gates), len(gates))
        return self._matmul(f"{here}.ffn_down{end}", has[f"ffn_down{end}"], (mid,), times)
