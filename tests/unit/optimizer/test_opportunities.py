"""Opportunities: counts against an independent count, names of logs, ONNX models, GGUF headers, and what is solved."""

from __future__ import annotations

import io
import os
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import GGML, TABLE

from hexloom import InvalidInputError, load_hw, read_trace
from hexloom.optimizer.opportunities.find import find, of_totals
from hexloom.optimizer.opportunities.from_gguf import graph_of_gguf
from hexloom.optimizer.opportunities.from_log import graph_of_log, names_of, totals_of
from hexloom.optimizer.opportunities.from_onnx import graph_of_onnx
from hexloom.optimizer.opportunities.graph import RESOURCES, Graph, Node
from hexloom.optimizer.opportunities.overlap import in_pieces
from hexloom.optimizer.opportunities.pairs import Finder
from hexloom.optimizer.opportunities.reach import Reach, positions
from hexloom.optimizer.opportunities.report import Opportunities

MACHINE = load_hw("hexagon-v79")
ROOM = 1000


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes = []
    for i in range(draw(st.integers(1, 14))):
        ns = draw(st.sampled_from((0, 5, 10, 30, 60)))
        needs = tuple(draw(st.integers(0, ns)) for _ in RESOURCES)
        after = tuple(sorted(draw(st.sets(st.integers(0, i - 1), max_size=2)))) if i else ()
        vtcm = draw(st.sampled_from((0, 400, 700)))
        nodes.append(Node(f"n{i}", draw(st.sampled_from("xy")), ns, needs, after, vtcm, draw(st.integers(0, 9))))  # type: ignore[arg-type]
    return Graph("any", "onnx", tuple(nodes), vtcm_bytes=ROOM)


def closure(graph: Graph) -> nx.DiGraph[int]:
    found: nx.DiGraph[int] = nx.DiGraph()
    found.add_nodes_from(range(len(graph.nodes)))
    found.add_edges_from((p, i) for i, node in enumerate(graph.nodes) for p in node.after)
    return nx.transitive_closure_dag(found)


@settings(max_examples=25)
@given(graphs())
def test_counts_are_those_of_another_reachability(graph: Graph) -> None:
    above = closure(graph)
    work = [i for i, node in enumerate(graph.nodes) if node.ns]
    counts = dict.fromkeys(("independent", "ready", "complementary", "complementary_ready"), 0)
    covered: set[int] = set()
    for i, j in combinations(work, 2):
        if above.has_edge(i, j):
            continue
        ready = all(p < i for p in above.predecessors(j))
        a, b = graph.nodes[i], graph.nodes[j]
        together = max(a.ns, b.ns, *(x + y for x, y in zip(a.needs, b.needs, strict=True)))
        good = 10 * (a.ns + b.ns - together) >= min(a.ns, b.ns) and a.vtcm_bytes + b.vtcm_bytes <= ROOM
        counts["independent"] += 1
        counts["ready"] += ready
        counts["complementary"] += good
        counts["complementary_ready"] += good and ready
        covered |= {i, j} if good else set()
    if not work:
        return
    finder = Finder(graph, Reach(graph))
    found = finder.pairs()
    assert {name: getattr(found, name) for name in counts} == counts
    assert found.coverage == pytest.approx(sum(graph.nodes[i].ns for i in covered) / graph.ns)
    assert sum(found.reasons.values()) + found.complementary == found.pairs == len(work) * (len(work) - 1) // 2
    assert found.coverage + sum(found.uncovered.values()) == pytest.approx(1)
    for pair in finder.named():
        i, j = (int(name[1:]) for name in (pair.first, pair.second))
        assert not above.has_edge(i, j) and pair.saves_us > 0


@settings(max_examples=25)
@given(graphs())
def test_groups_wholly_precede_each_other_and_cannot_be_cut(graph: Graph) -> None:
    above = closure(graph)
    groups = Reach(graph).components()
    assert [i for group in groups for i in group] == list(range(len(graph.nodes)))
    for k, group in enumerate(groups[:-1]):
        assert all(above.has_edge(i, j) for i in group for j in groups[k + 1])
    apart: nx.Graph[int] = nx.Graph()
    apart.add_nodes_from(range(len(graph.nodes)))
    apart.add_edges_from((i, j) for i, j in combinations(range(len(graph.nodes)), 2) if not above.has_edge(i, j))
    assert sorted(map(sorted, nx.connected_components(apart))) == sorted(map(list, groups))


@settings(max_examples=15)
@given(graphs().filter(lambda graph: graph.ns > 0))
def test_what_is_solved_keeps_to_its_bounds(graph: Graph) -> None:
    found = find(graph, MACHINE, time_limit_s=0)
    assert found.one is not None
    one = found.one
    serial = graph.ns / 1000
    assert one.serial_us == pytest.approx(serial)
    assert one.lower_bound_us <= one.makespan_us + 1e-6 <= serial + 2e-6
    above = closure(graph)
    chain: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        chain[i] = node.ns + max((chain[p] for p in above.predecessors(i)), default=0)
    busiest = max(sum(node.needs[r] for node in graph.nodes) for r in range(3))
    assert one.lower_bound_us >= max(*chain.values(), busiest) / 1000 - 1e-6
    assert Opportunities.from_json(found.to_json()) == found


@settings(max_examples=15)
@given(graphs().filter(lambda graph: graph.ns > 0))
def test_list_schedules_in_pieces_keep_orders_and_resources(graph: Graph) -> None:
    """Nobody begins before those that it follows, and no resource works longer than the whole takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hexloom.optimizer.opportunities.overlap.PIECE", 3)
        times, makespan, bound = in_pieces(graph)
    for i, node in enumerate(graph.nodes):
        start, end = times[i]
        assert end - start >= node.ns
        assert all(times[p][1] <= start for p in node.after)
    assert makespan == max(end for _, end in times)
    needs = [sum(node.needs[r] for node in graph.nodes) for r in range(3)]
    assert max(needs) <= bound <= makespan <= graph.ns


def test_a_part_too_large_to_be_solved_is_listed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 pairs of HMX and HVX operators between two others, 1 us each: all pairs hide one of theirs."""
    monkeypatch.setattr("hexloom.optimizer.opportunities.overlap.MOST_SOLVED", 50)
    monkeypatch.setattr("hexloom.optimizer.opportunities.overlap.PIECE", 40)
    nodes = [Node("first", "x", 1000, (0, 0, 1000))]
    for k in range(40):
        nodes += [Node(f"m{k}", "x", 1000, (1000, 0, 0), (0,)), Node(f"v{k}", "x", 1000, (0, 1000, 0), (0,))]
    nodes.append(Node("last", "x", 1000, (0, 0, 1000), tuple(range(81))))
    found = find(Graph("wide", "onnx", tuple(nodes), vtcm_bytes=ROOM), MACHINE, requests=2, time_limit_s=0)
    assert found.one is not None and found.several is not None
    assert (found.one.makespan_us, found.one.largest) == (42, 80)
    assert 2 * 40 + 2 <= found.several.makespan_us <= 2 * 42


def test_two_requests_are_reported_apart() -> None:
    """A chain of an HMX and an HVX operator has nothing to overlap; two of them hide one operator each."""
    nodes = (Node("a", "x", 1000, (1000, 0, 0)), Node("b", "y", 1000, (0, 1000, 0), (0,)))
    found = find(Graph("chain", "onnx", nodes, vtcm_bytes=ROOM), MACHINE, requests=2, time_limit_s=1)
    assert found.one is not None and found.several is not None
    assert (found.one.saves_us, found.one.status) == (0, "OPTIMAL")
    assert (found.several.serial_us, found.several.makespan_us) == (4, 3)
    assert "little is to be had" in found.verdict


def test_sets_of_three_resources() -> None:
    nodes = tuple(
        Node(name, "x", 1000, tuple(900 if r == k else 0 for r in range(3)))
        for k, name in enumerate("abc")  # type: ignore[arg-type]
    )
    found = find(Graph("wide", "onnx", nodes, vtcm_bytes=ROOM), MACHINE, time_limit_s=0.5)
    assert [set(one.names) for one in found.sets] == [{"a", "b", "c"}]
    assert found.sets[0].saves_us == 2
    assert found.one is not None and found.one.makespan_us == 1


def test_reuse_of_memory_in_the_serial_order_breaks_pairs_that_are_counted() -> None:
    """b's output takes the bytes of a's input x in the serial order; run together b writes over what a reads."""
    nodes = (
        Node("x", "x", 1000, (0, 0, 1000), (), 0, 64),
        Node("a", "x", 1000, (1000, 0, 0), (0,), 0, 8),
        Node("b", "x", 1000, (0, 1000, 0), (), 0, 64),
        Node("end", "x", 1000, (0, 0, 1000), (1, 2), 0, 8),
    )
    found = find(Graph("reuse", "onnx", nodes, vtcm_bytes=ROOM), MACHINE, time_limit_s=0.5).one
    assert found is not None
    assert found.makespan_us == 3
    assert (found.activation_bytes_serial, found.activation_bytes) == (80, 136)
    assert found.broken_by_reuse == 1 or found.pairs[0].first == "x"


def test_bits_are_positions() -> None:
    assert positions(0).tolist() == []
    assert positions(1 << 70 | 5).tolist() == [0, 2, 70]


# --- logs


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("blk.0.attn_q.weight x norm-0 -> Qcur-0", ("blk.0.attn_q.weight", "norm-0"), ("Qcur-0",)),
        ("Qcur-0 (reshaped) x inp_pos -> Qcur-0", ("Qcur-0", "inp_pos"), ("Qcur-0",)),
        ("leaf_0 64:64:1:1 x leaf_1 64:8:1:1 -> q 64:8:1:1", ("leaf_0", "leaf_1"), ("q",)),
        ("a x k (view) (permuted) -> o (view)", ("a", "k"), ("o",)),
        ("w1 x w2 x a -> gate + up", ("w1", "w2", "a"), ("gate", "up")),
    ],
)
def test_names_of_tensors(text: str, reads: tuple[str, ...], writes: tuple[str, ...]) -> None:
    assert names_of(text) == (reads, writes, True)
    assert not names_of("only_one").known


def log(*lines: str) -> str:
    """Ops of a made-up log: ``OP|names|dims|types|kparams`` and microseconds."""
    out = []
    for k, line in enumerate(lines):
        body, _, us = line.rpartition(" ")
        op, names, dims, types, params = body.split("|")
        out.append(
            f"ggml-hex: HTP0 profile-op {op}|{names}|{dims}|{types}|0|{params}|usec {us} cycles {int(us) * 2000} "
            f"start {k * 10**6} mhz 2000.0"
        )
    return "\n".join(out) + "\n"


def graph_of(text: str, tmp_path: Path) -> Graph:
    path = tmp_path / "a.log"
    path.write_text(text, encoding="utf-8")
    return graph_of_log(read_trace(path), MACHINE, "a.log")


MM = "2048:2048 x 2048:64 -> 2048:64|q4_0 x f32 -> f32|hmx-tiled vtcm 8000000"
ROWS = "2048:64 -> 2048:64|f32 -> f32|hvx"


def test_dependencies_of_a_log_come_from_its_names(tmp_path: Path) -> None:
    graph = graph_of(
        log(
            f"RMS_NORM+MUL|x x w.weight -> n|{ROWS} 10",
            f"MUL_MAT|q.weight x n -> q|{MM} 100",
            f"MUL_MAT|k.weight x n -> k|{MM} 90",
            f"ROPE|q x inp_pos -> qr|{ROWS} 20",
            f"SET_ROWS|k x idx -> cache_k (view)|{ROWS} 5",
            f"FLASH_ATTN_EXT|qr x cache_k (view) -> o|{ROWS} 50",
            f"ADD|o x x -> n|{ROWS} 5",  # n is written again: after those that read it
        ),
        tmp_path,
    )
    assert [node.after for node in graph.nodes] == [(), (0,), (0,), (1,), (2,), (3, 4), (0, 1, 2, 5)]
    assert [node.ns for node in graph.nodes] == [1000 * us for us in (10, 100, 90, 20, 5, 50, 5)]
    assert graph.nodes[1].resource == "hmx" and graph.nodes[3].resource == "hvx"
    found = find(graph, MACHINE, time_limit_s=0)
    assert "address-range check" in found.hazards
    assert found.one is not None and found.one.saves_us > 2  # rope of q under the matmul of k
    assert any("more than half of the VTCM" in note for note in found.notes)


def test_runs_hidden_results_and_ops_without_names_are_not_moved(tmp_path: Path) -> None:
    graph = graph_of(
        log(
            f"MUL_MAT+MUL_MAT|gate.weight x n -> gate|{MM} 100",
            f"SWIGLU|gate x up -> mid|{ROWS} 10",
            f"ADD|----|{ROWS} 10",
            f"MUL|free x inp_a -> out|{ROWS} 10",
            f"MUL_MAT+MUL_MAT|gate.weight x n -> gate|{MM} 100",
        ),
        tmp_path,
    )
    assert [node.after for node in graph.nodes] == [(), (0,), (0, 1), (2,), ()]
    assert graph.runs == (4, 5)
    assert any("further results" in note for note in graph.notes)
    assert any("do not name" in note for note in graph.notes)


def test_a_table_of_sums_bounds_what_hiding_saves(tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text(TABLE, encoding="utf-8")
    found = of_totals("table", MACHINE, *totals_of(read_trace(path)))
    assert [(kind.op, round(kind.share, 4)) for kind in found.kinds] == [("MUL_MAT+ADD", 0.8333), ("ADD", 0.1667)]
    assert "at most 16.7%" in found.verdict
    with pytest.raises(InvalidInputError, match="one by one"):
        graph_of_log(read_trace(path), MACHINE, "table")


@pytest.mark.shared
def test_the_public_profile_of_lfm2_has_little_to_hide(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "ggml_hexagon_perop_table_lfm2_v79.txt")
    found = of_totals("lfm2", MACHINE, *totals_of(trace))
    norms = next(kind for kind in found.kinds if kind.op == "RMS_NORM+MUL")
    assert (norms.us, found.total_us) == (6707, 500307)
    assert f"{norms.share:.1%}" == "1.3%"
    assert "the norms at most 1.3%" in found.verdict


@pytest.mark.shared
@pytest.mark.parametrize("name", ["v0_profile_8elite", "v2_lines", "v3_trace_evt_SYNTHETIC"])
def test_public_logs_are_read(shared_traces: Path, name: str) -> None:
    graph = graph_of_log(read_trace(shared_traces / f"ggml_hexagon_{name}.log"), MACHINE, name)
    found = find(graph, MACHINE, time_limit_s=0)
    assert found.one is not None and found.pairs is not None
    assert found.one.saves_us == 0
    assert found.pairs.independent == 0


def test_the_log_of_the_fixtures() -> None:
    trace = read_trace_text(GGML)
    graph = graph_of_log(trace, MACHINE, "fixture")
    assert [node.op for node in graph.nodes] == ["MUL_MAT+ADD", "ADD"]


def read_trace_text(text: str) -> Any:
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile("w", suffix=".log", delete=False) as file:
        file.write(text)
    try:
        return read_trace(file.name)
    finally:
        os.unlink(file.name)


# --- models


def light(name: str) -> Path:
    onnx = pytest.importorskip("onnx")
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"


@pytest.mark.parametrize(
    ("name", "operators", "parallel"),
    [("inception_v1", 143, True), ("squeezenet", 66, True), ("resnet50", 176, True), ("densenet121", 668, False)],
)
def test_models_that_ship_with_onnx(name: str, operators: int, parallel: bool) -> None:
    """The number of operators that depend on inputs is that of the file less constants; checked by networkx."""
    graph = graph_of_onnx(light(name), MACHINE)
    assert len(graph.nodes) == operators
    found = Finder(graph, Reach(graph)).pairs()
    above = closure(graph)
    work = sum(1 for node in graph.nodes if node.ns)
    dead = {i for i, node in enumerate(graph.nodes) if not node.ns}
    ordered = above.number_of_edges() - sum(1 for a, b in above.edges if a in dead or b in dead)
    assert found.independent == work * (work - 1) // 2 - ordered
    assert (found.independent > 0) is parallel


def test_inception_hides_its_pools() -> None:
    found = find(graph_of_onnx(light("inception_v1"), MACHINE), MACHINE, time_limit_s=0)
    assert found.one is not None
    assert 0.05 < found.one.saves <= found.one.saves_at_most < 0.1
    assert any("MaxPool" in pair.first + pair.second for pair in found.one.pairs)


def block(tmp_path: Path, **dims: int) -> Path:
    """Write one block of a transformer whose q, k and v come from one norm, with an open batch."""
    onnx = pytest.importorskip("onnx")
    h, ten = onnx.helper, onnx.TensorProto
    weights = {
        "wq": (256, 256),
        "wk": (256, 256),
        "wv": (256, 256),
        "wo": (256, 256),
        "w1": (256, 1024),
        "w2": (1024, 256),
    }
    node = h.make_node
    nodes = [
        node("LayerNormalization", ["x", "g"], ["n"], axis=-1),
        node("MatMul", ["n", "wq"], ["q"]),
        node("MatMul", ["n", "wk"], ["k"]),
        node("MatMul", ["n", "wv"], ["v"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["a"]),
        node("MatMul", ["a", "wo"], ["o"]),
        node("Add", ["o", "x"], ["r"]),
        node("MatMul", ["r", "w1"], ["f"]),
        node("Gelu", ["f"], ["fg"]),
        node("MatMul", ["fg", "w2"], ["y"]),
    ]
    inputs = [h.make_tensor_value_info("x", ten.FLOAT, ["batch", 128, 256])]
    given = [
        onnx.numpy_helper.from_array(__import__("numpy").zeros(s, "float32"), n)
        for n, s in {**weights, "g": (256,)}.items()
    ]
    graph = h.make_graph(nodes, "block", inputs, [h.make_tensor_value_info("y", ten.FLOAT, None)], given)
    path = tmp_path / "block.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 20)]), path)
    return path


def test_a_block_of_a_transformer(tmp_path: Path) -> None:
    path = block(tmp_path)
    one, four = (graph_of_onnx(path, MACHINE, {"batch": batch}) for batch in (1, 4))
    assert [node.after for node in one.nodes] == [
        (), (0,), (0,), (0,), (2,), (1, 4), (5,), (3, 6), (7,), (8,), (9,), (10,), (11,),
    ]  # fmt: skip
    assert four.nodes[1].needs[0] == 4 * one.nodes[1].needs[0] > 0
    found = find(one, MACHINE, time_limit_s=0.5)
    assert found.pairs is not None
    assert (
        found.pairs.independent == 3 + 4 + 1 - 1
    )  # q, k, v; q and v beside the transpose; v beside scores and softmax
    with pytest.raises(InvalidInputError, match="no input leaves it open"):
        graph_of_onnx(path, MACHINE, {"rows": 3})
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    with pytest.raises(InvalidInputError, match="no ONNX model"):
        graph_of_onnx(bad, MACHINE)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([("Add", ["x", "b"], "a"), ("Relu", ["a"], "b")], "reads 'b', which no operator before it writes"),
        ([("Relu", ["a"], "b"), ("Neg", ["x"], "a")], "cycle or is not sorted"),
        ([("Relu", ["free"], "b")], "no operator has an output of known shape"),
    ],
)
def test_what_is_no_sorted_graph_with_shapes_is_refused(
    tmp_path: Path, nodes: list[tuple[str, list[str], str]], said: str
) -> None:
    onnx = pytest.importorskip("onnx")
    h, ten = onnx.helper, onnx.TensorProto
    inputs = [h.make_tensor_value_info("x", ten.FLOAT, [1, 64]), h.make_tensor_value_info("free", ten.FLOAT, None)]
    made = [h.make_node(op, reads, [writes]) for op, reads, writes in nodes]
    graph = h.make_graph(made, "odd", inputs, [h.make_tensor_value_info("b", ten.FLOAT, None)])
    path = tmp_path / "odd.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 20)]), path)
    with pytest.raises(InvalidInputError, match=said):
        graph_of_onnx(path, MACHINE)


def model(path: Path, layers: int) -> Path:
    gguf = pytest.importorskip("gguf")
    import numpy as np

    out = gguf.GGUFWriter(path, "llama")
    out.add_embedding_length(2048)
    out.add_head_count(32)
    out.add_head_count_kv(8)
    out.add_token_list([f"t{i}" for i in range(100)])

    def tensor(name: str, *dims: int) -> None:
        shape = tuple(reversed(dims))
        out.add_tensor_info(name, shape, np.dtype(np.float16), 2 * int(np.prod(shape)))

    tensor("token_embd.weight", 2048, 4096)
    for k in range(layers):
        for name, dims in (
            ("attn_norm", (2048,)), ("attn_q", (2048, 2048)), ("attn_k", (2048, 512)), ("attn_v", (2048, 512)),
            ("attn_output", (2048, 2048)), ("ffn_norm", (2048,)), ("ffn_gate", (2048, 8192)),
            ("ffn_up", (2048, 8192)), ("ffn_down", (8192, 2048)),
        ):  # fmt: skip
            tensor(f"blk.{k}.{name}.weight", *dims)
    tensor("blk.0.odd.weight", 8)
    tensor("output_norm.weight", 2048)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    out.close()
    return path


def test_headers_of_gguf_files_without_weights(tmp_path: Path) -> None:
    path = model(tmp_path / "m.gguf", 2)
    prefill, decode = (graph_of_gguf(path, MACHINE, tokens) for tokens in (256, 1))
    assert len(prefill.nodes) == len(decode.nodes) == 3 + 2 * 17
    ops = [node.op for node in prefill.nodes[1:18]]
    assert ops.count("MUL_MAT") == 7 and ops.count("ROPE") == 2 and ops.count("FLASH_ATTN_EXT") == 1
    up = next(node for node in decode.nodes if "ffn_up" in node.name)
    # 2048 x 8192 weights in f16, and what goes in and out, at the bandwidth of DDR: nothing else limits decode.
    gb_s = MACHINE.ddr.total_gb_s.value
    assert up.needs[2] == pytest.approx((2 * 2048 * 8192 + 4 * (2048 + 8192)) / gb_s, rel=1e-3)
    assert up.resource == "ddr"
    assert "odd" in " ".join(prefill.notes)
    data = path.read_bytes()
    for cut in (2, 30, len(data) - 40):
        (tmp_path / "cut.gguf").write_bytes(data[:cut])
        with pytest.raises(InvalidInputError, match=r"no GGUF file|ends inside"):
            graph_of_gguf(tmp_path / "cut.gguf", MACHINE, 1)


@pytest.mark.slow
def test_five_thousand_operators_in_125_kinds_of_parts_take_less_than_a_minute() -> None:
    """Each kind would be solved by itself: only as many as there is time for are, the others are listed."""
    import random
    import resource

    draw = random.Random(3)
    nodes: list[Node] = []
    for part in range(125):
        first = len(nodes)
        for k in range(40):
            ns = draw.randrange(2_000, 200_000)
            needs = [0, 0, draw.randrange(ns // 3)]
            needs[draw.randrange(3)] = ns * draw.randrange(50, 100) // 100
            after = (first - 1,) if part and not k else () if not k else (first + draw.randrange(k),)
            after = after if k < 39 else tuple(range(first, first + 39))
            nodes.append(Node(f"n{len(nodes)}", "x", ns, (needs[0], needs[1], needs[2]), after))

    def used() -> float:
        of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in of)

    began = used()
    found = find(Graph("kinds", "onnx", tuple(nodes), vtcm_bytes=ROOM), MACHINE, time_limit_s=2)
    assert used() - began < 40
    assert found.one is not None and found.one.saves > 0.3


@pytest.mark.slow
def test_five_thousand_operators_take_less_than_a_minute(tmp_path: Path) -> None:
    import time

    graph = graph_of_gguf(model(tmp_path / "m.gguf", 300), MACHINE, 512)
    assert len(graph.nodes) > 5000
    began = time.process_time()
    found = find(graph, MACHINE, time_limit_s=10)
    assert time.process_time() - began < 30
    assert found.pairs is not None and found.pairs.independent == 300 * 17
    assert io.StringIO(found.to_json()).read()
