"""A periodic schedule that leaves no run out: tables without loops, and as many iterations as it has."""

from looped import HW, STREAM, periodic_of

from hexloom.emit.job import looped_job
from hexloom.emit.looped import make_looped_tables
from hexloom.hwmodels import load_hw
from hexloom.optimizer.workload import Workload


def test_tables_have_no_loops_and_a_run_has_all_iterations() -> None:
    buffers = [{"name": f"{b}_{{i}}", "size_bytes": 4096} for b in "ab"]
    loop = {"for": "i", "count": 8, "ops": STREAM, "buffers": buffers}
    data = {"schema": "hexloom.workload/1", "name": "few", "hw": HW, "tasks": [{"name": "t", "ops": [loop]}]}
    work = Workload.from_data(data, "test")
    periodic = periodic_of(work)
    assert [stretch.left_out for stretch in periodic.stretches] == [0]
    tables = make_looped_tables(periodic)
    assert (len(tables.loops), len(tables.parameters), len(tables.tasks)) == (0, 0, 24)
    job = looped_job(periodic, None, work, load_hw(HW))
    assert len(job.problem.ops) == 24
    assert looped_job(periodic, [8]).plain == looped_job(periodic).plain
