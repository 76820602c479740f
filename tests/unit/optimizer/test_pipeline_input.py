"""What a pipeline file may say, and how it is refused: one line that names the object and what to change."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from pipelines import DMA, HMX, matmul, pipeline

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.pipeline.index import Index, Place, Trips, Undecided, parse_guard, parse_index, parse_place
from hexloom.optimizer.pipeline.model import Pipeline
from hexloom.optimizer.pipeline.program import program_of

Data = dict[str, Any]
PARTS: Data = {
    "buffers": [{"name": "A", "slots": 2}, {"name": "B", "slots": 2}],
    "queues": [DMA, HMX],
    "events": [{"name": "go"}, {"name": "gone"}],
}


def refusal(data: Data) -> str:
    with pytest.raises(InvalidInputError) as caught:
        program_of(Pipeline.from_data(data, "f.yaml"), "f.yaml")
    text = str(caught.value)
    assert text.startswith("f.yaml: ") and "\n" not in text
    return text.removeprefix("f.yaml: ")


def body(*actions: Data, **parts: Any) -> Data:
    return pipeline({"name": "main", "body": list(actions)}, **{**PARTS, **parts})


# --- places and guards


@pytest.mark.parametrize(
    ("text", "index"),
    [("0", ("", 0)), ("-1", ("", -1)), ("i", ("i", 0)), ("i+1", ("i", 1)), ("i - 2", ("i", -2)), ("n-1", ("n", -1))],
)
def test_indices(text: str, index: Index) -> None:
    assert parse_index(text) == index


@pytest.mark.parametrize("text", ["", "j", "i1", "i+", "2i", "i+1+1", "i*2", "n n"])
def test_no_indices(text: str) -> None:
    with pytest.raises(ValueError, match="is none; write a number"):
        parse_index(text)


def test_places() -> None:
    assert parse_place(" S[ i+1 ] ") == Place("S", Index("i", 1))
    assert parse_place("Q") == Place("Q", Index("", 0))
    for text in ("[i]", "S[i", "S[i][i]", "S i"):
        with pytest.raises(ValueError, match="is no place"):
            parse_place(text)


@pytest.mark.parametrize(
    "text",
    [
        *(f"{left} {sign} {right}" for sign in ("<", "<=", ">", ">=", "==", "!=") for left in ("i", "i+1", "i-2", "3")
          for right in ("n", "n-1", "n+2")),
        *(f"n {sign} {right}" for sign in ("<", "<=", ">", ">=", "==", "!=") for right in ("i+1", "2")),
        *("i >= 2", "2 > i", "i == 1", "i % 2 == 1", "i % 3 != 0", "i >= 1 and i+1 < n", "n > 2 and i != 1", "1 < i"),
    ],
)  # fmt: skip
def test_guards_hold_where_python_says_so(text: str) -> None:
    guard = parse_guard(text)
    for n in range(6):
        for i in range(7):
            wanted = eval(text, {"i": i, "n": n})
            assert guard.holds(i, Trips(n, True)) == wanted
            for least in range(n + 1):
                with suppress(Undecided):
                    assert guard.holds(i, Trips(least, False)) == wanted


@pytest.mark.parametrize(
    "text", ["i", "i < ", "i < j", "i % 0 == 0", "i % 2 == n", "n < n", "i < n or i > 2", "i <> 2"]
)
def test_no_guards(text: str) -> None:
    with pytest.raises(ValueError, match=r"(guard|index) "):
        parse_guard(text)


# --- what is refused


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ({"run": "r", "reads": ["C[i]"]}, "there is no buffer 'C' (known: A, B)"),
        ({"run": "r", "reads": ["A[n-1]"]}, "'A[n-1]' uses n, which has no value in a body; write i, such as i+1"),
        ({"run": "r", "reads": ["A[i"]}, "'A[i' is no place; write a name and an index, such as S[i+1]"),
        ({"push": "dmx", "job": "j"}, "there is no queue 'dmx' (did you mean 'hmx'?)"),
        ({"push": "dma", "job": "j[0]"}, "job 'j[0]' is the same for every iteration"),
        ({"push": "dma", "job": "j", "signals": ["dma"]}, "there is no event 'dma' (known: go, gone)"),
        ({"wait": "goo"}, "there is no queue or event 'goo' (did you mean 'go'?)"),
        ({"wait": "go", "for": "j"}, "wait 'go': `for` and `expect` are for queues, and 'go' is an event"),
        ({"wait": "dma", "times": 2}, "wait 'dma': `round` and `times` are for events, and 'dma' is a queue"),
        ({"wait": "dma", "for": "j", "expect": "j"}, "`for` picks a job and `expect` tests the oldest; write one"),
        ({"wait": "go", "round": "i", "times": 2}, "wait 'go': `round` counts whole rounds; drop `times`"),
        ({"wait": "go", "round": "2"}, "wait 'go': round '2' is a number; in a body let it move with i or n"),
        ({"push": "hmx", "job": "j", "descriptors": 2}, "push 'hmx': `descriptors` are for DMA rings; drop them"),
        ({"signal": "dma"}, "there is no event 'dma'"),
        ({"run": "r", "if": "i ~ n"}, "guard 'i ~ n' is none; write i+1 < n, i >= 2, n > 1 or i % 2 == 0"),
    ],
)
def test_actions_that_cannot_be(action: Data, says: str) -> None:
    text = refusal(body(action))
    assert text.startswith("thread 'main', body[0]: ")
    assert says in text


def test_sections_have_their_own_index() -> None:
    thread = {"name": "main", "prologue": [{"run": "r", "reads": ["A[i]"]}], "body": [{"run": "r"}]}
    assert "'A[i]' uses i, which has no value in a prologue; write a number" in refusal(pipeline(thread, **PARTS))
    thread = {"name": "main", "body": [{"run": "r"}], "epilogue": [{"run": "r", "if": "i > 1"}]}
    assert "guard 'i > 1' asks for i, which only a body has" in refusal(pipeline(thread, **PARTS))
    thread = {"name": "main", "epilogue": [{"run": "r"}]}
    assert "thread 'main' has an epilogue and no body" in refusal(pipeline(thread, **PARTS))


@pytest.mark.parametrize("section", ["body", "epilogue"])
def test_a_buffer_moves_or_stays(section: str) -> None:
    thread = {"name": "main", "body": [{"run": "r", "reads": ["A[i]"]}]}
    thread[section] = [*thread.get(section, []), {"run": "s", "reads": ["A[0]"]}]
    assert "'A[0]' is one place and others of buffer 'A' move with the loop; use two buffers" in refusal(
        pipeline(thread, **PARTS)
    )


def test_names_are_given_once() -> None:
    data = matmul()
    for kind, name in (("buffers", "buffer 'W'"), ("queues", "queue or event 'hmx'"), ("threads", "thread 'main'")):
        doubled = {**data, kind: [*data[kind], data[kind][0]]}
        assert refusal(doubled) == f"{name} is there 2 times; give each a name of its own"


def test_shared_buffers_fit() -> None:
    run = {"run": "r", "writes": ["A[i]"]}
    for buffers, says in (
        ([{"name": "B", "shares": "A"}, {"name": "A"}], "buffer 'B' shares 'A'; name a buffer above it"),
        ([{"name": "A", "slots": 2}, {"name": "B", "shares": "A"}], "buffer 'B' has 1 slots, but shares the 2 of 'A'"),
    ):
        assert says in refusal(body(run, buffers=buffers))


def test_an_event_is_taken_or_only_reached() -> None:
    text = refusal(body({"wait": "go"}, {"wait": "go", "round": "i"}))
    assert text == "event 'go' is waited for with `round` and without; use two events"


def test_a_ring_belongs_to_the_thread_that_starts_its_transfers() -> None:
    first = {"name": "x", "body": [{"push": "dma", "job": "j"}]}
    second = {"name": "y", "body": [{"wait": "dma"}]}
    text = refusal(pipeline(first, second, **PARTS))
    assert text.startswith("queue 'dma' is a DMA ring that x and y use, but only the thread that starts a transfer can")


def test_a_loop_that_does_nothing_in_its_middle() -> None:
    text = refusal(body({"run": "r", "if": "i < 2"}))
    assert text.startswith("thread 'main' does nothing in its body from iteration 3 on; write what it does before")


@pytest.mark.parametrize("iterations", ["", "1..", "a", "5..1", "1...3", -1, 1.5, "0..10000000000", True])
def test_no_trip_counts(iterations: Any) -> None:
    assert "iterations" in refusal({**matmul(), "iterations": iterations})


@pytest.mark.parametrize(
    ("iterations", "ends"), [(7, (7, 7)), ("7", (7, 7)), ("0..4096", (0, 4096)), (" 1 .. 2 ", (1, 2))]
)
def test_trip_counts(iterations: Any, ends: tuple[int, int]) -> None:
    assert Pipeline.from_data({**matmul(), "iterations": iterations}).trip_counts == ends


def test_unknown_keys_and_actions_are_named_with_their_place() -> None:
    data = body({"run": "r", "wirtes": ["A[i]"]}, {"jump": "x"})
    text = refusal(data)
    assert "threads[0].body[0]: unknown key 'wirtes' (did you mean 'writes'?)" in text
    assert "threads[0].body[1]: an action has one of the keys run, push, wait, signal, barrier" in text


def test_a_thread_for_many() -> None:
    thread = {"name": "w{k}", "for": "k", "count": 3, "body": [{"run": "r{k}", "writes": ["P{k}[i]"]}]}
    buffers = [{"name": f"P{k}"} for k in range(3)]
    program = program_of(Pipeline.from_data(pipeline(thread, buffers=buffers)))
    assert [lines.name for lines in program.threads] == ["w0", "w1", "w2"]
    assert [lines.body[0].writes[0].buffer for lines in program.threads] == [0, 1, 2]
    long = {**thread, "name": "w{k}" + "{k}" * 66, "count": 12}
    assert "name: String should have at most 200 characters" in refusal(pipeline(long, buffers=buffers))
    assert "stands for 3" in refusal(pipeline({**thread, "name": "w"}, buffers=buffers))


def test_json_and_back() -> None:
    whole = Pipeline.from_data(matmul())
    assert Pipeline.model_validate_json(whole.to_json()) == whole
