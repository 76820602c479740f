"""What lowering makes of channels, classes and factors, and what it refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from hexloom import InvalidInputError, Workload, load_hw, solve
from hexloom.formulations.problem import MAX_RATE, Channel, Engine, Mode, Op, Problem, Pull, Use
from hexloom.optimizer.contention import contention_of
from hexloom.optimizer.lower import Lowered, lower

if TYPE_CHECKING:
    from hexloom.formulations.problem import Rule

V81 = load_hw("hexagon-v81")
V75 = load_hw("hexagon-v75")


def lowered(*tasks: dict[str, Any], hw: Any = V81, **keys: Any) -> Lowered:
    return lower(Workload.from_data({"name": "w", "tasks": list(tasks), **keys}), hw)


def op(name: str = "a", engine: str = "hvx", us: Any = 10, **keys: Any) -> dict[str, Any]:
    return {"name": name, "engine": engine, "duration_us": us, **keys}


def explicit(*ops: dict[str, Any], name: str = "t") -> dict[str, Any]:
    return {"name": name, "ops": list(ops)}


def pulls(of: Lowered) -> dict[str, dict[str, int]]:
    return {o.name: {p.channel: p.rate for p in o.modes[0].pulls} for o in of.problem.ops}


def fault(*tasks: dict[str, Any], **keys: Any) -> str:
    with pytest.raises(InvalidInputError) as raised:
        lowered(*tasks, **keys)
    assert "\n" not in str(raised.value)
    return str(raised.value)


# --- the library ----------------------------------------------------------------------------------------


def test_the_matmul_loads_ddr_by_dma_and_stores_through_l2() -> None:
    """A chunk of 742 x 352 f32 leaves through L2 at its 45.8 GB/s; 8 rows of 8 KiB need 155.3 ns each on a queue."""
    found = lowered({"name": "m", "kernel": "matmul_w4a16", "m": 742, "k": 2048, "n": 6144, "n_chunk": 352})
    rates = pulls(found)
    assert rates["store.0"] == {"ddr": 45_799, "l2_write": 45_799}  # of whole ns, rounded up, so a little less
    # 704 tiles of 576 B at 55.6 GB/s + 8 ns: 31.4 GB/s
    assert rates["weights_load.0"] == {"ddr": pytest.approx(31_373, abs=10)}
    assert rates["activation_load.0.0.0"] == {"ddr": 65_536_000 // 1_243}  # 8 x 155.3 ns are 1,243
    for silent in ("dequantize.0", "matmul.0", "activation_convert.0.0.0", "activation_ready.0"):
        assert rates[silent] == {}
    assert [(c.name, c.capacity) for c in found.problem.channels] == [("ddr", 70_000), ("l2_write", 45_800)]


def test_no_op_alone_demands_more_than_its_channel_has() -> None:
    tasks = [
        {"name": "m", "kernel": "matmul_w4a16", "m": 64, "k": 256, "n": 256},
        {"name": "r", "kernel": "rmsnorm", "rows": 33, "cols": 512, "mode": "direct"},
        {"name": "c", "kernel": "copy", "rows": 16, "cols": 512, "mode": "direct"},
        {"name": "s", "kernel": "copy", "rows": 16, "cols": 512},
        {"name": "f", "kernel": "copy", "rows": 16, "cols": 512, "mode": "direct", "duration_us": "0.01"},
        {"name": "g", "kernel": "gemv", "k": 512, "n": 512},
    ]
    for hw in ("hexagon-v73", "hexagon-v75", "hexagon-v79", "hexagon-v81"):
        problem = lowered(*tasks, hw=load_hw(hw)).problem
        capacity = {channel.name: channel.capacity for channel in problem.channels}
        assert set(capacity) == {"ddr", "l2_read", "l2_write"}
        for o in problem.ops:
            for mode in o.modes:
                assert all(0 < pull.rate <= capacity[pull.channel] for pull in mode.pulls)


def test_direct_rows_pass_l2_both_ways_and_ddr() -> None:
    """On v75 L2 would read and write 32 GB/s each at once, but DDR has 61.9: 2 x 30.95."""
    found = lowered({"name": "c", "kernel": "copy", "rows": 1024, "cols": 1024, "mode": "direct"}, hw=V75)
    rates = pulls(found)["compute.0"]
    assert rates["l2_read"] == rates["l2_write"] == pytest.approx(30_950, abs=1)
    assert rates["ddr"] == pytest.approx(61_900, abs=1)


def test_channels_that_nobody_pulls_are_left_out() -> None:
    assert lowered(explicit(op())).problem.channels == ()
    assert [c.name for c in lowered(explicit(op(channels={"l2_read": "1GB/s"}))).problem.channels] == ["l2_read"]


# --- ops of one's own -----------------------------------------------------------------------------------


def test_rates_and_bytes_of_an_op() -> None:
    found = lowered(
        explicit(
            op("rate", channels={"ddr": "20GB/s", "l2_read": "27.5 GB/s", "l2_write": "800MB/s"}),
            op("bytes", us=100, bytes={"ddr": "4MiB", "l2_read": 100_000}),
            op("none", bytes={"ddr": 0}),
            op("late", latency_us=20, bytes={"ddr": 200_000}),
            {"name": "load", "engine": "dma", "transfer_bytes": 5560, "rows": 1},
            op("timed", "dma", bytes={"ddr": 100_000}),
        )
    )
    rates = pulls(found)
    assert rates["rate"] == {"ddr": 20_000, "l2_read": 27_500, "l2_write": 800}
    assert rates["bytes"] == {"ddr": (4 << 20) // 100, "l2_read": 1_000}
    assert rates["none"] == {}
    assert rates["late"] == rates["timed"] == {"ddr": 10_000}
    assert rates["load"] == {"ddr": 5_560_000 // 108}  # 5,560 B in 108 ns


def test_alternatives_move_the_same_bytes() -> None:
    found = lowered(explicit(op(bytes={"ddr": 100_000}, alternatives=[{"engine": "hmx", "duration_us": 4}])))
    assert [[p.rate for p in mode.pulls] for mode in found.problem.ops[0].modes] == [[10_000], [25_000]]


def test_channels_and_factors_of_ones_own() -> None:
    found = lowered(
        explicit(op("a", channels={"gather": "9GB/s"}, **{"class": "gathers"}), op("b", "hmx", **{"class": "streams"})),
        channels=[{"name": "gather", "rate_gb_s": 12.5}, {"name": "unused", "rate_gb_s": 1}],
        interference=[{"victim": "gathers", "cause": "streams", "factor": 0.85}],
    )
    assert [(c.name, c.capacity) for c in found.problem.channels] == [("gather", 12_500)]
    (known,) = found.problem.interference
    assert (known.victim, known.cause, known.factor) == ("gathers", "streams", "17/20")
    assert [o.modes[0].op_class for o in found.problem.ops] == ["gathers", "streams"]


def test_a_kernel_in_a_class() -> None:
    norm = {"name": "n", "kernel": "rmsnorm", "rows": 16, "cols": 64, "class": "rows"}
    gemv = {"name": "g", "kernel": "gemv", "k": 64, "n": 64, "class": "decode"}
    found = lowered(norm, gemv, interference=[{"victim": "rows", "cause": "decode", "factor": "1/2"}])
    classes = {(o.task, mode.op_class) for o in found.problem.ops for mode in o.modes}
    assert classes == {("n", "rows"), ("g", "decode")}


def test_a_workload_is_read_back_as_it_was_written() -> None:
    data = {
        "name": "w",
        "channels": [{"name": "bus", "rate_gb_s": "1/3"}],
        "interference": [{"victim": "x", "cause": "x", "factor": "1/3"}],
        "tasks": [explicit(op(channels={"bus": "0.25GB/s"}, bytes={"ddr": "1KiB"}, **{"class": "x"}))],
    }
    workload = Workload.from_data(data)
    assert Workload.from_json(workload.to_json()) == workload


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"channels": {"ddr": 20}}, "rate 20 has no unit: write '20GB/s' or '20MB/s'"),
        ({"channels": {"ddr": "20"}}, "rate '20' has no unit: write '20GB/s' or '20MB/s'"),
        ({"channels": {"ddr": "20GiB/s"}}, "unknown unit 'GiB/s': write GB/s"),
        ({"channels": {"ddr": "-1GB/s"}}, "'-1GB/s' is negative"),
        ({"channels": {"ddr": "fast"}}, "'fast' is not a rate: write one with its unit, such as '20GB/s'"),
        ({"channels": {"ddr": None}}, "None is not a rate"),
        ({"bytes": {"ddr": "4MB"}}, "ambiguous"),
        (
            {"channels": {"ddr": "1e10GB/s"}},
            "op 'a': 'channels' says 1e+10 GB/s of channel 'ddr', above the limit of 1e+09 GB/s; write a lower rate",
        ),
        (
            {"bytes": {"ddr": 10**18}},
            "'bytes' says 1,000,000,000,000,000,000 bytes in 10 us, which is 1e+14 GB/s of channel 'ddr', above "
            "the limit of 1e+09 GB/s; write less, or a longer duration",
        ),
        ({"channels": {"": "1GB/s"}}, "ops[0].channels: a name in it should have at least 1 character, got ''"),
        ({"channels": {None: "1GB/s"}}, "ops[0].channels: a name in it should be a valid string, got None"),
        ({"channels": {1: "1GB/s"}}, "ops[0].channels: a name in it should be a valid string, got 1"),
        ({"channels": {"": 3}}, "ops[0].channels['']: rate 3 has no unit"),
        ({"also": {1: 1}}, "ops[0].also: a name in it should be a valid string, got 1"),
    ],
)
def test_rates_that_are_none(keys: dict[str, Any], says: str) -> None:
    assert says in fault(explicit(op(**keys)))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            {"bytes": {"dd": 1}},
            "task 't', op 'a': there is no channel 'dd' (did you mean 'ddr'?); known: ddr, l2_read, l2_write",
        ),
        ({"channels": {"l2": "1GB/s"}}, "there is no channel 'l2' (did you mean 'l2_read'?)"),
        (
            {"bytes": {"ddr": 1}, "channels": {"ddr": "1GB/s"}},
            "'channels' and 'bytes' both say what it moves of 'ddr'; drop one",
        ),
        ({"duration_us": 0, "bytes": {"ddr": 1}}, "it takes no time, so it moves nothing of 'ddr'; drop 'bytes'"),
        ({"chanels": {}}, "unknown key 'chanels' (did you mean 'channels'?)"),
    ],
)
def test_channels_that_are_none(keys: dict[str, Any], says: str) -> None:
    assert says in fault(explicit({**op(), **keys}))


@pytest.mark.parametrize("key", ["channels", "bytes"])
@pytest.mark.parametrize("rule", ["none", "rigid", "fluid"])
def test_only_transfers_use_the_pipe(key: str, rule: Rule) -> None:
    """Where nobody is slowed the pipe is an engine: a demand on it as a channel would come on top of a full pipe."""
    load = {"name": "a", "engine": "dma", "transfer_bytes": "1MiB"}
    timed = {"name": "a", "engine": "dma", "duration_us": 20}
    demand = {key: {"dma": "5GB/s" if key == "channels" else "5KiB"}}
    for asks in (op(**demand), {**load, **demand}, {**timed, **demand}):
        with pytest.raises(InvalidInputError) as raised:
            lower(Workload.from_data({"name": "w", "tasks": [explicit(asks)]}), V81, rule)
        assert str(raised.value) == (
            f"task 't', op 'a': 'dma' in {key!r} is the pipe of transfers, which only ops of engine 'dma' use, all by "
            "themselves; drop it, or name another channel: ddr, l2_read, l2_write"
        )


def test_the_bytes_of_a_transfer_are_said_once() -> None:
    load = {"name": "a", "engine": "dma", "transfer_bytes": 64, "bytes": {"ddr": 64}}
    assert "'transfer_bytes' and 'bytes' both say what it moves of 'ddr'; drop one" in fault(explicit(load))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"channels": [{"name": "ddr", "rate_gb_s": 1}]}, "channel 'ddr' is the machine's; give your own another name"),
        ({"channels": [{"name": "x", "rate_gb_s": 0}]}, "channels[0].rate_gb_s"),
        ({"channels": [{"name": "x", "rate_gb_s": 1}] * 2}, "two channels are named 'x'; names must differ"),
        ({"channels": [{"name": "x", "rate_gb": 1}]}, "unknown key 'rate_gb' (did you mean 'rate_gb_s'?)"),
        (
            {"interference": [{"victim": "raws", "cause": "rows", "factor": 0.5}]},
            "interference: no op is of class 'raws' (did you mean 'rows'?); known: rows",
        ),
        ({"interference": [{"victim": "rows", "cause": "rows", "factor": 1.5}]}, "must be above 0 and at most 1"),
        ({"interference": [{"victim": "rows", "cause": "rows", "factor": 0}]}, "must be above 0 and at most 1"),
        ({"interference": [{"victim": "rows", "cause": "rows", "factor": 0.123456789}]}, "write at most 8 decimals"),
        (
            {"interference": [{"victim": "rows", "cause": "rows", "factor": 1e-9}]},
            "denominator is above 999,999,999",
        ),
        ({"interference": [{"victim": "rows", "factor": 0.5}]}, "interference[0].cause"),
    ],
)
def test_what_is_shared_must_make_sense(keys: dict[str, Any], says: str) -> None:
    assert says in fault(explicit(op(**{"class": "rows"})), **keys)


# --- what contention costs ------------------------------------------------------------------------------


def test_two_streams_share_ddr() -> None:
    """52.5 + 52.5 of 70 GB/s: both of 10 us take 15, and each loses 5 to the other; under ``none`` they take 10."""
    tasks = [explicit(op(engine=e, channels={"ddr": "52.5GB/s"}), name=n) for n, e in (("one", "hvx"), ("two", "hmx"))]
    workload = Workload.from_data({"name": "w", "hw": "hexagon-v81", "tasks": tasks})
    entry = Fraction("4.44")
    result = solve(workload, seed=1, time_limit_s=1)
    assert result.schedule is not None
    assert (result.makespan_us, result.status) == (entry + 15, "OPTIMAL")
    cost = contention_of(result.schedule)
    assert cost is not None
    tick = result.schedule.us(1)
    assert float(Fraction(cost.channels["ddr"]) * tick) == pytest.approx(5)
    (rivals,) = cost.rivals
    assert {group[0] for group in rivals.groups} == {"one", "two"}
    assert float(Fraction(rivals.ticks) * tick) == pytest.approx(10)
    assert solve(workload, contention="none", seed=1).makespan_us == entry + 10
    assert solve(workload, contention="rigid", seed=1).makespan_us == entry + 20


def test_a_factor_slows_without_a_channel() -> None:
    """Beside b, a works at half its speed: 10 us of b are 5 of a, and 5 are left."""
    tasks = [
        explicit(op("a", **{"class": "v"}), name="one"),
        explicit(op("b", "hmx", **{"class": "c"}), name="two"),
    ]
    data = {"name": "w", "hw": "hexagon-v81", "tasks": tasks}
    data["interference"] = [{"victim": "v", "cause": "c", "factor": 0.5}]
    result = solve(Workload.from_data(data), seed=1, time_limit_s=1)
    assert result.schedule is not None
    assert result.makespan_us == Fraction("4.44") + 15
    cost = contention_of(result.schedule)
    assert cost is not None
    tick = result.schedule.us(1)
    assert cost.channels == {}
    assert float(Fraction(cost.interference) * tick) == pytest.approx(5)
    assert float(Fraction(cost.rivals[0].ticks) * tick) == pytest.approx(5)


def test_where_nothing_is_shared_no_rule_changes_anything() -> None:
    workload = Workload.from_data({"name": "w", "hw": "hexagon-v81", "tasks": [explicit(op(), op("b", "hmx"))]})
    for rule in ("fluid", "proportional", "priority", "rigid", "none"):
        result = solve(workload, contention=rule, seed=1, time_limit_s=1)
        assert (result.status, result.makespan_us) == ("OPTIMAL", Fraction("14.44"))
        assert result.schedule is not None
        assert result.schedule.contention == rule
        assert contention_of(result.schedule) is None


def test_rigid_never_asks_for_more_than_there_is_however_demands_are_rounded() -> None:
    """Twice 10,000.9 MB/s, from bytes, are more than 20,000: one after the other."""
    ops = [op(name, us=100, bytes={"gather": 1_000_090}) for name in "ab"]
    data = {"name": "w", "hw": "hexagon-v81", "channels": [{"name": "gather", "rate_gb_s": 20}]}
    work = Workload.from_data({**data, "tasks": [explicit(*ops)]})
    assert solve(work, contention="rigid", seed=1, time_limit_s=1).makespan_us == Fraction("204.44")


def two_on_one_channel(capacity: int, *ops: tuple[int, int]) -> Problem:
    """Ops of (ticks, rate) on engines of their own, which pull channel d."""
    engines = tuple(Engine(name=f"e{k}") for k in range(len(ops)))
    modes = (
        Mode(uses=(Use(engine=f"e{k}", ticks=t),), latency_ticks=t, pulls=(Pull(channel="d", rate=r),))
        for k, (t, r) in enumerate(ops)
    )
    found = tuple(Op(name=f"o{k}", modes=(mode,)) for k, mode in enumerate(modes))
    return Problem(engines=engines, channels=(Channel(name="d", capacity=capacity),), ops=found)


def test_the_largest_capacity_of_a_file_can_be_full_too() -> None:
    schedule = solve(two_on_one_channel(MAX_RATE, (3, MAX_RATE), (2, MAX_RATE)), seed=1, time_limit_s=1).schedule
    assert schedule is not None and schedule.makespan == 5
    cost = contention_of(schedule)
    assert cost is not None and cost.channels == {"d": 2.0}


def test_what_is_slowed_beyond_all_ticks_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="take 1801439850948198400 ticks, above the limit"):
        solve(two_on_one_channel(1, (2**52, 300), (2**51, 200)), seed=1, time_limit_s=1)
