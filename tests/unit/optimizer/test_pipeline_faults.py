"""One broken pipeline for every kind of fault, with what is said about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pipelines import DMA, HMX, SAFE, lock, pipeline

from hexloom.optimizer.pipeline.decide import check_pipeline
from hexloom.optimizer.pipeline.model import Pipeline
from hexloom.optimizer.pipeline.report import headline, numbers, report, undecided

if TYPE_CHECKING:
    from hexloom.optimizer.pipeline.decide import Answer

Data = dict[str, Any]


def answer_to(data: Data, **limits: Any) -> Answer:
    return check_pipeline(Pipeline.from_data(data), **limits)


def violation(data: Data) -> Data:
    found = numbers(Pipeline.from_data(data), answer_to(data))
    assert found["status"] == "broken" and not found["ok"]
    (only,) = found["violations"]
    assert only["shortest"]
    return dict(only)


def one(*body: Data, prologue: tuple[Data, ...] = (), epilogue: tuple[Data, ...] = (), **parts: Any) -> Data:
    """Return a pipeline of one thread, main."""
    thread = {"name": "main", "prologue": list(prologue), "body": list(body), "epilogue": list(epilogue)}
    return pipeline(thread, iterations="1..4096", **parts)


def buffers(**slots: int) -> list[Data]:
    return [{"name": name, "slots": number} for name, number in slots.items()]


def says(found: Data, kind: str, trips: int, steps: int, message: str) -> None:
    assert (found["kind"], found["trip_count"], len(found["steps"])) == (kind, trips, steps)
    assert found["message"] == message


# --- memory


def test_read_of_what_nobody_has_written() -> None:
    found = violation(one({"run": "use", "reads": ["A[i]"]}, buffers=buffers(A=2)))
    says(found, "read_before_write", 1, 1, "use[0] reads A[0] in slot 0 of A, where nothing has been written yet")


def test_read_of_what_is_not_waited_for() -> None:
    load = {"push": "dma", "job": "load", "writes": ["A[i]"]}
    found = violation(one(load, {"run": "use", "reads": ["A[i]"]}, {"wait": "dma"}, buffers=buffers(A=2), queues=[DMA]))
    text = "use[0] reads A[0] in slot 0 of A while load[0] (pushed to dma at step 1, not yet waited for) may still be"
    says(found, "read_before_write", 1, 2, f"{text} writing it")
    assert found["parties"] == ["load[0]", "use[0]"]


def test_read_of_the_value_of_two_iterations_ago() -> None:
    body = ({"run": "make", "writes": ["A[i]"], "if": "i < 2"}, {"run": "use", "reads": ["A[i]"]})
    found = violation(one(*body, buffers=buffers(A=2)))
    text = "use[2] reads A[2] in slot 0 of A, which still holds A[0] of make[0] (step 1)"
    says(found, "read_before_write", 3, 5, text)


def test_overwrite_before_the_last_reader() -> None:
    body = ({"run": "make", "writes": ["A[i]"]}, {"run": "use", "reads": ["A[i-1]"], "if": "i >= 1"})
    found = violation(one(*body, buffers=buffers(A=1)))
    text = "use[1] reads A[0] in slot 0 of A, but make[1] (step 2) has written A[1] over it"
    says(found, "overwrite", 2, 3, text)
    assert found["parties"] == ["make[1]", "use[1]"]
    assert found["mend"] == "let make[1] wait for use[1], or give A another slot"
    assert answer_to(one(*body, buffers=buffers(A=2))).status == "safe"


def test_overwrite_while_it_is_read() -> None:
    body = (
        {"run": "make", "writes": ["A[i]"]},
        {"push": "hmx", "job": "mm", "reads": ["A[i]"]},
        {"wait": "hmx", "if": "i >= 1"},
    )
    found = violation(one(*body, epilogue=({"wait": "hmx"},), buffers=buffers(A=1), queues=[HMX]))
    text = "make[1] writes A[1] to slot 0 of A while mm[0] (pushed to hmx at step 2, not yet waited for) may still"
    says(found, "overwrite", 2, 3, f"{text} be reading A[0] there")
    assert found["mend"] == "let make[1] wait for mm[0], or give A another slot"
    assert answer_to(one(*body, epilogue=({"wait": "hmx"},), buffers=buffers(A=2), queues=[HMX])).status == "safe"


def test_read_while_something_else_is_written_there() -> None:
    load = {"push": "dma", "job": "load", "writes": ["A[i+1]"]}
    start = ({"run": "make", "writes": ["A[0]"]},)
    body = (load, {"run": "use", "reads": ["A[i]"]}, {"wait": "dma"})
    found = violation(one(*body, prologue=start, buffers=buffers(A=1), queues=[DMA]))
    text = "use[0] reads A[0] in slot 0 of A while load[0] (pushed to dma at step 2, not yet waited for) may be"
    says(found, "overwrite", 1, 3, f"{text} writing A[1] over it")
    assert found["mend"] == "let load[0] wait for use[0], or give A another slot"
    assert answer_to(one(*body, prologue=start, buffers=buffers(A=2), queues=[DMA])).status == "safe"


def test_two_writers() -> None:
    threads = [{"name": name, "body": [{"run": f"by_{name}", "writes": ["A[i]"]}]} for name in "xy"]
    found = violation(pipeline(*threads, iterations=1, buffers=buffers(A=1)))
    text = "by_y[0] writes A[0] to slot 0 of A while by_x[0] (x, step 1) may still be writing A[0] there"
    says(found, "two_writers", 1, 2, text)


def test_transfers_of_one_ring_overlap_and_jobs_of_the_matrix_unit_do_not() -> None:
    jobs = [{"push": "q", "job": f"{k}", "writes": ["A"]} for k in "ab"]
    ends = [{"wait": "q"}, {"wait": "q"}]
    for kind, status in (("dma", "broken"), ("fifo", "safe")):
        queue = {"name": "q", "kind": kind, "entries": 4}
        assert answer_to(one(*jobs, *ends, buffers=buffers(A=1), queues=[queue])).status == status


def test_a_later_job_of_the_matrix_unit_knows_the_earlier_ones_by_order() -> None:
    body = (
        {"push": "hmx", "job": "a", "writes": ["A[i]"]},
        {"push": "hmx", "job": "b", "reads": ["A[i]"], "writes": ["B[i]"]},
        {"wait": "hmx", "for": "b"},
        {"run": "use", "reads": ["A[i]", "B[i]"]},
        {"wait": "hmx"},
    )
    assert answer_to(one(*body, buffers=buffers(A=1, B=1), queues=[HMX])).status == "safe"


def test_a_result_in_the_place_of_its_source() -> None:
    data = SAFE["in_place"]()
    data["threads"][0]["body"][3]["reads"][0] = "S[i]"
    found = violation(data)
    assert found["message"] == "PV[0] reads S[0] in slot 0 of S, but softmax[0] (step 4) has written P[0] over it"


# --- queues and events


def test_push_on_a_full_queue() -> None:
    found = violation(one({"push": "dma", "job": "load"}, {"wait": "dma", "if": "i >= 3"}, queues=[DMA]))
    assert found["kind"] == "left_over"  # with fewer trips than entries something is left
    holds = "load[0] (step 1), load[1] (step 2), load[2] (step 3)"
    text = f"main pushes load[3] to dma, which has 0 of 3 entries free: it holds {holds}"
    waits = [{"wait": "dma", "if": f"n > {k}"} for k in range(3)]
    found = violation(
        one({"push": "dma", "job": "load"}, {"wait": "dma", "if": "i >= 3"}, epilogue=tuple(waits), queues=[DMA])
    )
    says(found, "queue_full", 4, 4, text)


def test_a_push_may_wait_for_an_entry() -> None:
    queue = {**HMX, "when_full": "wait"}
    main = {"name": "main", "body": [{"push": "hmx", "job": "load"}]}
    other = {"name": "other", "body": [{"wait": "said"}, {"wait": "hmx"}]}
    teller = {"name": "teller", "body": [{"signal": "said"}]}
    broken = pipeline(main, other, teller, iterations=5, queues=[queue], events=[{"name": "said"}])
    assert violation(broken)["kind"] == "queue_empty"  # other may come before main
    main["body"].append({"signal": "said"})
    assert answer_to(pipeline(main, other, iterations="0..4096", queues=[queue], events=[{"name": "said"}])).status == (
        "safe"
    )


def test_a_transfer_of_many_descriptors_takes_as_many_entries() -> None:
    queue = {**DMA, "entries": 255}
    rows = {"push": "dma", "job": "rows", "descriptors": 200}
    assert answer_to(one(rows, {"wait": "dma"}, queues=[queue])).status == "safe"
    found = violation(one(rows, {"wait": "dma", "if": "i >= 1"}, epilogue=({"wait": "dma"},), queues=[queue]))
    text = "main pushes rows[1] (200 descriptors) to dma, which has 55 of 255 entries free: it holds rows[0] (step 1)"
    says(found, "queue_full", 2, 2, text)


def test_wait_on_an_empty_queue() -> None:
    says(
        violation(one({"wait": "hmx"}, queues=[HMX])),
        "queue_empty",
        1,
        1,
        "main waits for a job of hmx, which holds nothing",
    )


def test_wait_for_a_job_that_is_not_there() -> None:
    found = violation(one({"push": "hmx", "job": "a"}, {"wait": "hmx", "for": "b"}, queues=[HMX]))
    says(found, "not_queued", 1, 2, "main waits for b[0] in hmx, which holds a[0] (step 1)")


def test_another_job_than_expected() -> None:
    pushes = ({"push": "hmx", "job": "a"}, {"push": "hmx", "job": "b"})
    found = violation(one(*pushes, {"wait": "hmx", "expect": "b"}, {"wait": "hmx"}, queues=[HMX]))
    text = "main takes the oldest job of hmx for b[0], but it is a[0]: a[0] (step 1), b[0] (step 2)"
    says(found, "unexpected", 1, 3, text)


def test_pushes_left_at_the_end() -> None:
    found = violation(one({"push": "dma", "job": "load"}, {"wait": "dma", "if": "i >= 1"}, queues=[DMA]))
    says(found, "left_over", 1, 1, "all threads have ended and nobody has waited for what dma holds: load[0] (step 1)")


def test_signals_left_at_the_end() -> None:
    found = violation(one({"signal": "e", "times": 2}, {"wait": "e"}, events=[{"name": "e"}]))
    says(found, "left_signals", 1, 2, "all threads have ended and event e is at 1, not 0")


# --- deadlocks


def test_a_deadlock_of_two_is_a_cycle() -> None:
    x = {"name": "x", "body": [{"wait": "b"}, {"run": "work_x"}, {"signal": "a"}]}
    y = {"name": "y", "body": [{"wait": "a"}, {"run": "work_y"}, {"signal": "b"}]}
    data = pipeline(x, y, iterations="1..9", events=[{"name": "a"}, {"name": "b"}])
    found = violation(data)
    assert (found["kind"], found["trip_count"], found["steps"]) == ("deadlock", 1, [])
    assert found["waits"] == [
        "x (i=0) waits before work_x[0] for event b (0 of 1): y would (i=0, after work_y[0])",
        "y (i=0) waits before work_y[0] for event a (0 of 1): x would (i=0, after work_x[0])",
    ]
    assert sorted(found["cycle"]) == ["work_x[0]", "work_y[0]"]
    text = report(Pipeline.from_data(data), answer_to(data))
    assert "a cycle, each only after the one before: work_" in text
    assert "y would (i=0, after work_y[0])" in headline(answer_to(data))


def test_a_wait_that_nobody_ends() -> None:
    found = violation(one({"wait": "e"}, {"run": "use"}, events=[{"name": "e"}]))
    assert found["waits"] == ["main (i=0) waits before use[0] for event e (0 of 1); nobody will"]
    assert found["cycle"] == []


def test_a_barrier_that_not_all_come_to() -> None:
    x = {"name": "x", "body": [{"barrier": "all"}]}
    y = {"name": "y", "body": [{"run": "work"}, {"barrier": "all", "if": "i+1 < n"}]}
    found = violation(pipeline(x, y, iterations="1..9"))
    assert (found["kind"], found["trip_count"]) == ("deadlock", 1)
    assert found["waits"] == ["x (i=0) waits for y at barrier all; nobody will"]


def test_a_push_that_waits_for_an_entry_of_its_own() -> None:
    queue = {**HMX, "entries": 1, "when_full": "wait"}
    data = one(
        {"push": "hmx", "job": "a"}, {"push": "hmx", "job": "b"}, {"wait": "hmx"}, {"wait": "hmx"}, queues=[queue]
    )
    found = violation(data)
    assert found["waits"] == [
        "main (i=0) waits before b[0] for an entry of hmx, which has 1: itself would (i=0, after b[0])"
    ]


# --- trip counts and limits


def test_the_smallest_trip_count_far_out() -> None:
    """Shown by no small number of trips: the consumer never gives back, and there are 20 slots."""
    data = SAFE["ring"]()
    data["buffers"][0]["slots"] = data["events"][0]["initial"] = 20
    data["threads"][1]["body"].pop()
    found = violation(data)
    assert (found["kind"], found["trip_count"]) == ("deadlock", 21)


def test_a_fault_beyond_the_range_is_none() -> None:
    data = SAFE["ring"]()
    data["buffers"][0]["slots"] = data["events"][0]["initial"] = 20
    data["threads"][1]["body"].pop()
    assert answer_to({**data, "iterations": "1..20"}).status == "safe"
    assert answer_to({**data, "iterations": "3..21"}).status == "broken"


@pytest.mark.parametrize("iterations", [4096, "1000..4096", "1000000..1000000000"])
def test_long_loops_take_no_longer(iterations: Any) -> None:
    answer = answer_to({**SAFE["matmul"](), "iterations": iterations})
    assert (answer.status, answer.states < 500) == ("safe", True)


def test_a_fault_at_the_end_of_a_long_loop_is_told_in_short() -> None:
    data = SAFE["matmul"]()
    data["threads"][0]["epilogue"][1]["reads"] = ["C[n-3]"]
    data["iterations"] = "300..400"
    answer = answer_to(data, time_limit_s=20)
    assert answer.broken is not None
    assert (answer.broken.trip_count, answer.broken.fault.kind, answer.broken.shortest) == (300, "overwrite", True)
    assert len(answer.broken.moves) == 4 * 300
    text = report(Pipeline.from_data(data), answer).splitlines()
    assert text[-1].startswith("1200  main  epilogue  store; reads C[297]")
    assert (len(text), text[23]) == (3 + 20 + 1 + 60, " ...  1120 steps (--json tells all)")


def test_guards_of_the_first_iterations_and_of_every_second() -> None:
    data = one(
        {"run": "make", "writes": ["A[i]"], "if": "i % 2 == 0 and i >= 4"},
        {"run": "use", "reads": ["A[i]"], "if": "i % 2 == 0 and i >= 4"},
        {"run": "odd", "reads": ["A[i-1]"], "if": "i % 2 == 1 and i > 4"},
        {"run": "other"},
        buffers=buffers(A=3),
    )
    assert answer_to(data).status == "safe"
    data["threads"][0]["body"][2]["if"] = "i % 2 == 1 and i > 2"
    assert (violation(data)["kind"], violation(data)["trip_count"]) == ("read_before_write", 4)


def test_a_thread_that_only_prepares() -> None:
    """It looks at the trip count before the loop and has no loop of its own."""
    first = {"name": "first", "prologue": [{"run": "make", "writes": ["Q"]}, {"signal": "made", "if": "n > 3"}]}
    then = {
        "name": "then",
        "prologue": [{"wait": "made", "if": "n > 3"}, {"run": "take", "reads": ["Q"], "if": "n > 3"}],
        "body": [{"run": "use", "reads": ["Q"], "if": "n > 3"}],
    }
    data = pipeline(first, then, buffers=buffers(Q=1), events=[{"name": "made"}])
    assert answer_to(data).status == "safe"
    del first["prologue"][1]["if"]
    assert violation(pipeline(first, then, buffers=buffers(Q=1), events=[{"name": "made"}]))["kind"] == "left_signals"


def test_the_limit_is_said_honestly() -> None:
    data = {**lock(), "iterations": "1..1000"}
    answer = answer_to(data, most_states=30, time_limit_s=5)
    assert answer.status == "undecided"
    said = undecided(Pipeline.from_data(data), answer)
    assert said.startswith("not decided up to the end: every trip count from 1 to ")
    assert said.endswith("the limit was 30 states: let the threads wait for each other more")
    none = answer_to(data, time_limit_s=-1, most_states=10)
    assert (none.status, none.proven_to) == ("undecided", None)
    assert undecided(Pipeline.from_data(data), none).startswith("not decided, not even for n = 1; the limit was ")


def test_a_thread_that_runs_away_is_named_as_the_limit() -> None:
    """One may do its whole loop while the other has not begun: there is no end of states."""
    data = lock()
    for thread in data["threads"]:
        thread["body"].pop()
    answer = answer_to({**data, "iterations": "1..1000"}, most_states=400)
    assert answer.status == "undecided"
    assert re.fullmatch(r"400 states, with a thread that gets \d+ iterations ahead of another", answer.limit)
    assert answer_to({**data, "iterations": "1..6"}).status == "safe"


def large(workers: int, depth: int) -> Data:
    """Return DMA, workers that prepare and store, and the matrix unit as a thread, each ``depth`` ahead."""
    each = range(workers)
    load = {"push": "dma", "job": "load[i+1]", "writes": ["raw[i+1]"], "if": "i+1 < n"}
    main = {
        "name": "main",
        "prologue": [{"push": "dma", "job": "load[0]", "writes": ["raw[0]"]}],
        "body": [
            {"wait": "dma"},
            *({"signal": f"go{k}"} for k in each),
            {"wait": "done", "times": workers},
            load,
            {"wait": "out"},
            {"signal": "mm"},
        ],
    }
    worker = {
        "name": "hvx{k}",
        "for": "k",
        "count": workers,
        "body": [
            {"wait": "go{k}"},
            {"wait": "free{k}"},
            {"run": "dequant", "reads": ["raw[i]"], "writes": ["W{k}[i]"]},
            {"run": "scale", "reads": ["W{k}[i]"], "writes": ["T{k}[i]"]},
            {"signal": "done"},
            {"wait": "there{k}"},
            {"run": "convert", "reads": ["C[i]"], "writes": ["X{k}[i]"]},
            {"run": "store", "reads": ["X{k}[i]"]},
            {"signal": "taken"},
        ],
    }
    hmx = {
        "name": "hmx",
        "body": [
            {"wait": "mm"},
            {"run": "mm", "reads": [f"T{k}[i]" for k in each], "writes": ["C[i]"]},
            *({"signal": f"{name}{k}"} for name in ("free", "there") for k in each),
            {"wait": "taken", "times": workers},
            {"signal": "out"},
        ],
    }
    slots = {"raw": depth, "C": 2, **{f"{name}{k}": depth for name in "WTX" for k in each}}
    events = [{"name": name} for name in ("done", "mm", "taken", *(f"{a}{k}" for a in ("go", "there") for k in each))]
    events += [{"name": "out", "initial": 2}, *({"name": f"free{k}", "initial": depth} for k in each)]
    return pipeline(main, worker, hmx, iterations="1..100000", buffers=buffers(**slots), queues=[DMA], events=events)


@pytest.mark.parametrize(
    ("workers", "depth"),
    [(4, 2), pytest.param(8, 8, marks=pytest.mark.slow), pytest.param(8, 1, marks=pytest.mark.slow)],
)
def test_ten_threads_in_seconds(workers: int, depth: int) -> None:
    data = large(workers, depth)
    assert answer_to(data, time_limit_s=20).status == "safe"
    data["threads"][1]["body"].pop(5)
    assert violation(data)["kind"] == "read_before_write"


def test_nothing_is_called_the_shortest_without_a_proof() -> None:
    x = {"name": "x", "body": [{"wait": "go"}, {"run": "a", "writes": ["A[i]"]}]}
    y = {"name": "y", "body": [{"signal": "go"}, {"run": "b", "writes": ["A[i]"]}, {"run": "idle"}]}
    data = pipeline(x, y, iterations="1..9", buffers=buffers(A=1), events=[{"name": "go"}])
    assert violation(data)["kind"] == "two_writers"
    answer = answer_to(data)
    assert answer.broken is not None
    text = report(Pipeline.from_data(data), answer._replace(broken=answer.broken._replace(shortest=False)))
    assert "an interleaving, perhaps not the shortest, that shows it, with n = 1:" in text
