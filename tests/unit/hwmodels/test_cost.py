from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexloom.hwmodels import MachineFileError, cost, load_hw

V81, V79, V75, V68 = (load_hw(f"hexagon-v{arch}") for arch in (81, 79, 75, 68))


def near(value, expected, within):
    assert isinstance(value, Fraction)
    assert abs(float(value) - expected) <= within, float(value)


# The published matmul: q4_0, 742 x 2048 x 6144, chunks of 768 x 352, on 2,114 MHz and eight contexts.


def test_dequantize_one_chunk():
    near(cost.hvx_us(V81, "hvx_dequantize_q4_0", 2048 * 352, 8), 6.51, 0.02)


def test_matrix_product_of_one_chunk():
    near(cost.hmx_matmul_us(V81, 742, 2048, 352), 42.7, 0.001)
    assert cost.hmx_matmul_us(V81, 742, 2048, 352) == cost.hmx_matmul_us(V81, 768, 2048, 352)
    high = V81.with_values({"rates.hmx_fp16_cycles_per_mac": "high"})
    near(cost.hmx_matmul_us(high, 742, 2048, 352), 47.5, 0.001)


def test_output_store_of_one_chunk_and_of_all():
    near(cost.l2_write_us(V81, 742 * 352 * 4), 22.8, 0.05)
    near(cost.l2_write_us(V81, 742 * 6144 * 4), 398, 0.5)
    # The compute of the output never hides the store that was measured.
    assert cost.hvx_us(V81, "hvx_output", 742 * 352, 8) < cost.l2_write_us(V81, 742 * 352 * 4)


def test_activation_preparation():
    near(cost.hvx_us(V81, "hvx_activation_prepare", 742 * 2048, 8), 24.66, 0.01)


def test_activation_load_takes_at_least_what_the_pipe_allows():
    us = cost.dma_pipe_us(V81, 742 * 2048 * 4, "read")
    assert 105 <= us <= 111
    assert cost.dma_pipe_us(V81, 742 * 2048 * 4, "write") > us


def test_weight_rows_on_one_queue_take_what_the_matmul_took():
    """Of the 338 to 340 us the queue is busy for all but entry, activations and the last chunk."""
    assert 295 <= cost.dma_queue_us(V79, 576, 16384) <= 335


def test_six_queues_are_held_by_the_pipe_as_measured():
    # q4_0 GEMV 2048 x 6144 in 145.0 us: 12,288 rows over six queues need less than the pipe does.
    queue, pipe = cost.dma_queue_us(V79, 576, 12288 // 6), cost.dma_pipe_us(V79, 12288 * 576, "read")
    assert queue < pipe
    at_low = V79.with_values({"dma.pipe_read_gb_s": "low"})
    near(cost.dma_pipe_us(at_low, 12288 * 576, "read"), 145.0, 0.1)


def test_queue_rate_fits_the_published_row_sizes():
    for row_bytes, gb_s in ((2048, 42), (65536, 55)):
        low, high = (
            row_bytes / (cost.dma_queue_us(V79.with_values({"dma.row_ns": end}), row_bytes, 1) * 1000)
            for end in ("high", "low")
        )
        assert low - 1 <= gb_s <= high + 1


def test_published_matrix_rates_of_older_parts():
    near(cost.hmx_matmul_us(V75, 1024, 1024, 1024), 178.5, 0.001)
    near(2 * 1024**3 / cost.hmx_matmul_us(V79, 1024, 1024, 1024) / 10**6, 17, 0.001)


def test_int8_stages_of_the_fully_connected_layer():
    # K 1024, N 2048 on v79: published 40 and 26 us with 64 rows, 619 and 380 us with 1024 rows.
    near(cost.hmx_int8_matmul_us(V79, 64, 1024, 2048), 38.9, 0.1)
    near(cost.hmx_int8_matmul_us(V79, 1024, 1024, 2048), 622.6, 0.1)
    near(cost.hmx_int8_readout_us(V79, 1024, 2048), 380, 1)
    near(cost.hvx_us(V79, "hvx_quantize_u8", 64 * 1024, 6), 22, 0.01)
    near(cost.hvx_us(V79, "hvx_dequantize_i32", 64 * 2048, 6), 33, 0.01)
    assert cost.hmx_int8_matmul_us(V79, 1, 1024, 2048) == cost.hmx_int8_matmul_us(V79, 64, 1024, 2048)


def test_cached_reads_without_prefetch_scale_until_the_path_is_full():
    assert cost.l2_read_us(V75, 5000, 1, prefetched=False) == 1
    assert cost.l2_read_us(V75, 20000, 4, prefetched=False) == 1
    assert cost.l2_read_us(V75, 32000, 1) == 1
    near(cost.l2_read_us(V81, 32000, 8, prefetched=False), 1, 0)


def test_hand_over_follows_the_behaviour():
    assert cost.hmx_handover_us(V81) == 0
    assert cost.hmx_handover_us(V79) == 8
    assert cost.hmx_handover_us(V81.with_values({"behaviour.hmx_handover": "futex"})) == 8


def test_operator_overhead_runs_from_init_alone_to_init_and_flush():
    near(cost.overhead_us(V81, "op"), 9391 / 2114, 0.01)
    near(cost.overhead_us(V81.with_values({"overheads.op": "high"}), "op"), (9391 + 12090) / 2114, 0.01)
    assert cost.overhead_us(V81, "fork_join") == 0


def test_no_fp16_matrix_unit_before_v73():
    for arch in (68, 69):
        with pytest.raises(MachineFileError, match=r"hexagon-v6\d.*hmx_fp16_cycles_per_mac"):
            cost.hmx_matmul_us(load_hw(f"hexagon-v{arch}"), 32, 32, 32)


def test_nanosecond_costs_do_not_scale_with_a_clock():
    data = V81.model_dump(by_alias=True)
    data["rates"]["hvx_copy"] |= {"value": 2, "unit": "ns/element", "clock": "ns", "range": None}
    machine = type(V81).model_validate(data)
    for mhz in (1000, 2114):
        assert cost.hvx_us(machine.with_values({"clocks.core_mhz": mhz}), "hvx_copy", 1000, 2) == 1


def test_each_clock_scales_its_own_domain_only():
    slow = V81.with_values({"clocks.core_mhz": 1057})
    assert cost.hvx_us(slow, "hvx_copy", 4096, 8) == 2 * cost.hvx_us(V81, "hvx_copy", 4096, 8)
    assert cost.hmx_matmul_us(slow, 32, 32, 32) == cost.hmx_matmul_us(V81, 32, 32, 32)
    assert cost.dma_queue_us(slow, 576, 7) == cost.dma_queue_us(V81, 576, 7)
    slow = V81.with_values({"clocks.hmx_mhz": 1057})
    assert cost.hmx_matmul_us(slow, 32, 32, 32) == 2 * cost.hmx_matmul_us(V81, 32, 32, 32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cost.hvx_us(V81, "hvx_dequantise_q4_0", 1, 1), "did you mean 'hvx_dequantize_q4_0'"),
        (lambda: cost.hvx_us(V81, "hmx_fp16_cycles_per_mac", 1, 1), "unknown HVX rate"),
        (lambda: cost.hvx_us(V81, "hvx_quantize_u8", 1, 1), "no value for rates.hvx_quantize_u8"),
        (lambda: cost.hvx_us(V81, "hvx_copy", 1, 9), "contexts is 9, but machine 'hexagon-v81' has 8"),
        (lambda: cost.hvx_us(V81, "hvx_copy", 1, 0), "contexts is 0"),
        (lambda: cost.hvx_us(V81, "hvx_copy", -1, 1), "elements is -1"),
        (lambda: cost.hmx_matmul_us(V81, 0, 32, 32), "m is 0"),
        (lambda: cost.dma_pipe_us(V81, 1, "up"), "direction is 'up'"),
        (lambda: cost.dma_pipe_us(V81, 1.5, "read"), "n_bytes is 1.5"),
        (lambda: cost.dma_queue_us(V81, 0, 1), "row_bytes is 0"),
        (lambda: cost.overhead_us(V81, "forkjoin"), "did you mean 'fork_join'"),
        (lambda: cost.dma_descriptors(V81, 64, 2, 63), "overlap"),
        (lambda: cost.dma_descriptors(V81, 0, 2, 64), "row_bytes is 0"),
    ],
)
def test_bad_requests_are_one_clear_line(call, message):
    with pytest.raises(ValueError, match=r"\S") as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_descriptors_split_at_their_fields():
    one = cost.Descriptor
    assert cost.dma_descriptors(V79, 576, 12288, 640) == [one(12288, 576)]
    assert cost.dma_descriptors(V79, 576, 1000, 576) == [one(1, 576000)]
    assert cost.dma_descriptors(V68, 576, 70000, 640) == [one(65535, 576), one(4465, 576)]
    assert cost.dma_descriptors(V68, 576, 3, 65536) == [one(1, 576)] * 3
    assert cost.dma_descriptors(V79, 576, 3, 65536) == [one(3, 576)]
    assert cost.dma_descriptors(V79, 1 << 24, 1, 1 << 24) == [one(1, (1 << 24) - 1), one(1, 1)]


@given(
    st.sampled_from([V68, V79]),
    st.integers(1, 1 << 18),
    st.integers(1, 1 << 10),
    st.integers(0, 1 << 18),
)
def test_descriptors_move_every_byte_within_their_fields(machine, row_bytes, rows, gap):
    descriptors = cost.dma_descriptors(machine, row_bytes, rows, row_bytes + gap)
    assert sum(part.rows * part.row_bytes for part in descriptors) == rows * row_bytes
    field = 1 << machine.dma.row_field_bits.whole
    for part in descriptors:
        assert part.row_bytes < (1 << 24 if part.rows == 1 else field)
        assert part.rows < field
        assert part.rows == 1 or row_bytes + gap < field


sizes = st.integers(1, 1 << 14)


@given(sizes, sizes, sizes, st.integers(0, 64))
def test_matrix_time_is_positive_padded_and_monotone(m, k, n, more):
    assert 0 < cost.hmx_matmul_us(V81, m, k, n) <= cost.hmx_matmul_us(V81, m + more, k, n)
    assert cost.hmx_matmul_us(V81, m, k, n) == cost.hmx_matmul_us(V81, -(-m // 32) * 32, k, n)


@given(st.integers(0, 1 << 30), st.integers(1, 8))
def test_vector_time_is_linear_in_elements_and_contexts(elements, contexts):
    one = cost.hvx_us(V81, "hvx_copy", elements, 1)
    assert cost.hvx_us(V81, "hvx_copy", elements, contexts) * contexts == one
    assert cost.hvx_us(V81, "hvx_copy", 3 * elements, 1) == 3 * one


@given(sizes, st.integers(0, 1 << 14), st.integers(0, 1 << 14))
def test_queue_time_adds_up_over_splits(row_bytes, first, second):
    whole = cost.dma_queue_us(V81, row_bytes, first + second)
    assert whole == cost.dma_queue_us(V81, row_bytes, first) + cost.dma_queue_us(V81, row_bytes, second)


def test_channels_have_whole_mb_s():
    assert cost.channel_mb_s(V75) == {"dma": 59_000, "ddr": 61_900, "l2_read": 32_000, "l2_write": 32_000}
    assert cost.ddr_us(V75, 61_900) == 1
