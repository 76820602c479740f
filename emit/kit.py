"""All that a device build needs of a schedule: tables, runtime, ports, a file of kernels to fill in, and how to build.

What is generated for the schedule says so in its first line; the rest is the same for every schedule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.emit.c_tables import tables_of
from hexloom.emit.ctext import INTERNAL, CText, Names, comment
from hexloom.emit.files import write_emission
from hexloom.emit.host import RUNTIME, write_runtime
from hexloom.emit.records import (
    DMA,
    HMX,
    LAPS,
    OPERAND_RING,
    START,
    STRIDE,
    TAIL_COLUMNS,
    TAIL_ROWS,
    TASK_ASYNC,
    TRIPS,
    WAIT,
)
from hexloom.optimizer.periodic.schedule import PeriodicSchedule
from hexloom.optimizer.schedule import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.emit.rows import Parameter, Tables
    from hexloom.optimizer.schedule import Schedule


BENCH = """/* Measures on this host what hexloom_bench.h does: one line per number, in nanoseconds. */
#include <stdio.h>
#include <string.h>

#include "hexloom_bench.h"
#include "hexloom_posix.h"

#define BYTES (262144u)
#define ROUNDS (31u)

int main(void) {
  static unsigned char to[BYTES], from[BYTES];
  hexloom_measure measures[HEXLOOM_MEASURES];
  hexloom_posix_options options;
  hexloom_port port;
  uint32_t count, k;
  memset(&options, 0, sizeof options);
  options.workers = 2u;
  if (hexloom_posix_open(&port, &options) != 0) return 2;
  count = hexloom_bench(&port, to, from, sizeof to, ROUNDS, measures);
  for (k = 0; k < count; k++)
    printf("hexloom-bench %s median_ns %.1f low_ns %.1f high_ns %.1f\\n", measures[k].name, measures[k].median_ns,
           measures[k].low_ns, measures[k].high_ns);
  hexloom_posix_close(&port);
  return count == 0u;
}
"""

PARTS = ("bind", "wait", "walk", "run", "runtime", "port", "posix", "qurt", "udma", "ggml", "kernels", "bench")
"""What a kit has of the runtime's folder; the rest is for runs of our own."""


def write_kit(
    schedule: Schedule | PeriodicSchedule, folder: Path, stem: str, source: str = "-", *, descriptors: bool = False
) -> dict[str, str]:
    """Write what `write_emission` writes, and all that makes a build of it; return the paths by file name."""
    written = write_emission(schedule, folder, stem, source, descriptors=descriptors)
    shared = write_runtime(folder, PARTS)
    tables = tables_of(schedule, descriptors=descriptors)
    texts = {
        f"{stem}_kernels.h": _kernels_header(stem),
        f"{stem}_kernels.c": _kernels(schedule, tables, stem),
        f"{stem}_main.c": _main(stem, len(tables.bindings)),
        f"{stem}_bench.c": BENCH,
        "CMakeLists.txt": _cmake(stem),
        "README.md": _readme(schedule, tables, stem),
    }
    for name, text in texts.items():
        write_whole(folder / name, text)
    return written | {name: str(folder / name) for name in (*texts, *shared)}


def _kernels_header(stem: str) -> str:
    out = CText()
    out.open_guard(f"HEXLOOM_{stem.upper()}_KERNELS_H", ("hexloom_runtime.h",))
    out(comment("One for each stage, in the order of the tables."))
    out(f"extern const hexloom_kernel {stem}_kernels[];", f"extern const uint32_t {stem}_kernel_count;", "")
    out.close_guard(f"HEXLOOM_{stem.upper()}_KERNELS_H")
    return str(out)


def _kernels(schedule: Schedule | PeriodicSchedule, tables: Tables, stem: str) -> str:
    """Return a function per stage that says what it is given, and fails until it is filled in.

    A stage has none where the tables say all that its tasks move.
    """
    out = CText()
    out(comment(f"Written by {schedule.tool} once, to be filled in: the kernels of {schedule.name}."))
    out(comment("A kernel that returns other than 0 stops the run, and the status says which task it was."))
    out("", f'#include "{stem}_kernels.h"', "", f'#include "{stem}.h"', "")
    names = Names(INTERNAL)
    left = [any(t.descriptor_count == 0 for t in tables.tasks if t.stage == k) for k in range(len(tables.stages))]
    functions = [names(f"{stem}_{task}_{stage}".lower()) for task, stage in tables.stages]
    for k, (function, (task, stage)) in enumerate(zip(functions, tables.stages, strict=True)):
        mine = [t for t in tables.tasks if t.stage == k and t.descriptor_count == 0]
        if not left[k]:
            continue
        out(comment(f"Stage {stage or '-'} of {task or 'the plan'}: {len(mine)} tasks."))
        out(*(comment(line) for line in _given(schedule, tables, k)))
        out(
            f"static int {function}(const hexloom_call *call) {{", "  (void)call;", "  return -1; /* not written yet */"
        )
        out("}", "")
    out(f"const hexloom_kernel {stem}_kernels[] = {{")
    for function, needed, (task, stage) in zip(functions, left, tables.stages, strict=True):
        why = "" if needed else comment(f"stage {stage or '-'} of {task or 'the plan'}: the tables say it all")
        out(f"    {{{function}, NULL}}," if needed else f"    {{NULL, NULL}}, {why}")
    out("};")
    out(f"const uint32_t {stem}_kernel_count = {len(functions)}u;")
    return str(out)


def _given(schedule: Schedule | PeriodicSchedule, tables: Tables, stage: int) -> list[str]:
    """Return in words what the first task of a stage works on."""
    first = next(task for task in tables.tasks if task.stage == stage and task.descriptor_count == 0)
    lines = []
    if first.kind == DMA:
        lines.append("A transfer: call hexloom_push() for each of its parts, which end in any order.")
    elif first.slice_count > 1:
        lines.append(f"Slice call->slice of {first.slice_count}: all of them are called, each on its own thread.")
    if first.flags & TASK_ASYNC:
        lines.append("Its result exists later than it returns: say hexloom_finish() when it does.")
    used = tables.operands[first.first_operand : first.first_operand + first.operand_count]
    for k, first_place in enumerate(used):
        turns = first_place.flags == OPERAND_RING
        operand = tables.operands[first_place.offset] if turns else first_place
        size = tables.buffers[operand.buffer].bytes
        lines.append(f"hexloom_at(call, {k}): {size} bytes, of its first task {tables.buffer_names[operand.buffer]}.")
    return lines


def _main(stem: str, bindings: int) -> str:
    """Return a program for hosts that runs the kernels with the port of hosts."""
    return f"""/* Runs the kernels of {stem} on this host. Of the memories only sizes are known: they begin as zeros. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hexloom_posix.h"
#include "{stem}.h"
#include "{stem}_kernels.h"

int main(void) {{
  hexloom_posix_options options;
  hexloom_memory memories[{bindings}];
  hexloom_port port;
  hexloom_run *run;
  hexloom_setup setup;
  hexloom_status status;
  size_t bytes;
  uint32_t k;
  void *room;
  memset(&options, 0, sizeof options);
  memset(&setup, 0, sizeof setup);
  {stem}_view(&setup.view);
  setup.memory_count = setup.view.header->binding_count;
  if (setup.memory_count > {bindings}u) return 2;
  for (k = 0; k < setup.memory_count; k++) {{
    memories[k].bytes = setup.view.bindings[k].bytes;
    memories[k].base = aligned_alloc(65536u, ((size_t)memories[k].bytes / 65536u + 1u) * 65536u);
    if (memories[k].base == NULL) return 2;
    memset(memories[k].base, 0, (size_t)memories[k].bytes);
  }}
  options.workers = setup.view.header->queue_count;
  if (hexloom_posix_open(&port, &options) != 0) return 2;
  setup.port = &port;
  setup.memories = memories;
  setup.kernels = {stem}_kernels;
  setup.kernel_count = {stem}_kernel_count;
  setup.spins = 200u;
  setup.flags = HEXLOOM_PROVE;
  bytes = hexloom_run_bytes(&setup);
  room = aligned_alloc(HEXLOOM_LINE, (bytes / HEXLOOM_LINE + 1u) * HEXLOOM_LINE);
  run = room == NULL ? NULL : hexloom_bind(&setup, room, bytes, &status);
  if (run != NULL) {{
    (void)hexloom_execute(run);
    status = *hexloom_status_of(run);
    while (hexloom_join(run) > 0u) {{
    }}
    hexloom_close(run);
  }} else if (room == NULL) {{
    return 2;
  }}
  printf("%s: %s", "{stem}", hexloom_code_name(status.code));
  if (status.task != HEXLOOM_NONE) printf(" at task %lu, detail %ld", (unsigned long)status.task, (long)status.detail);
  printf("%s%s\\n", status.problem == NULL ? "" : ": ", status.problem == NULL ? "" : status.problem);
  hexloom_posix_close(&port);
  for (k = 0; k < setup.memory_count; k++) free(memories[k].base);
  free(room);
  return status.code == HEXLOOM_OK ? 0 : 1;
}}
"""


def _cmake(stem: str) -> str:
    runtime = " ".join(RUNTIME)
    return f"""# The runtime and the tables of {stem} as one library; on a host also a self test and a program.
# For Hexagon give the SDK's toolchain file:
#   cmake -B build -DCMAKE_TOOLCHAIN_FILE=$HEXAGON_SDK_ROOT/build/cmake/hexagon_toolchain.cmake
cmake_minimum_required(VERSION 3.14)
project({stem} C)

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)

add_library({stem} STATIC {stem}.c {stem}_kernels.c {runtime})
target_include_directories({stem} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})

if(CMAKE_SYSTEM_PROCESSOR MATCHES "[Hh]exagon" OR DEFINED HEXAGON_SDK_ROOT)
  target_sources({stem} PRIVATE hexloom_qurt.c hexloom_bench.c)
else()
  find_package(Threads REQUIRED)
  enable_testing()
  add_executable({stem}_selftest {stem}_selftest.c)
  target_link_libraries({stem}_selftest {stem})
  add_test(NAME {stem}_selftest COMMAND {stem}_selftest)
  add_executable({stem}_host {stem}_main.c hexloom_posix.c)
  target_link_libraries({stem}_host {stem} Threads::Threads)
  add_executable({stem}_bench {stem}_bench.c hexloom_bench.c hexloom_posix.c)
  target_link_libraries({stem}_bench {stem} Threads::Threads)
endif()
"""


def _about(tables: Tables, parameter: Parameter) -> str:
    """Return what a parameter says, in words."""
    if parameter.kind == LAPS:
        return f"laps of loop {parameter.where}"
    if parameter.kind == STRIDE:
        return f"bytes from row to row of binding {parameter.where}"
    what = {TRIPS: "iterations", TAIL_ROWS: "rows of the last iteration", TAIL_COLUMNS: "columns of the last iteration"}
    return f"{what[parameter.kind]} of `{tables.groups[parameter.where]}`"


def _laps(tables: Tables, stem: str) -> str:
    """Return which parameters the tables have; nothing where they have none."""
    if not tables.parameters:
        return ""
    rows = "\n".join(
        f"| {k} | {_about(tables, p)} | {p.least} | {p.most} | {p.step} | {p.usual} |"
        for k, p in enumerate(tables.parameters)
    )
    if not tables.loops:
        return f"""Strides may be given when the tables are bound (`parameters` of a `hexloom_setup`), from the least
to the most and so many apart.

| parameter | what | least | most | apart | usual |
|---|---|---|---|---|---|
{rows}

"""
    return f"""The tables have loops. How many laps they make may be given when they are bound (`parameters` of a
`hexloom_setup`), from the least to the most and so many apart; `{stem}.json` says how many iterations of which task a
lap has. Without it they are as usual. A kernel is told its `iteration` and `tile`. Of the iterations that the laps make
only so many do something as a task has iterations; give 0xFFFFFFFF for all of them. `hexloom_fit()` finds laps and
iterations for what a call needs.

| parameter | what | least | most | apart | usual |
|---|---|---|---|---|---|
{rows}

"""


def _moved(tables: Tables) -> str:
    """Return that some stages need no function, where that is so."""
    if not tables.descriptors:
        return ""
    return """   Stages whose transfers and cache maintenance are in the tables (descriptors) have none: these need
   the memories below.
"""


def _ride(tables: Tables, stem: str) -> str:
    """Return how the plan is plugged into ggml-hexagon, or why it cannot be."""
    hmx = [queue for queue in tables.queues if queue.kind == HMX]
    others = len(tables.queues) - len(hmx)
    owned = [
        e
        for q in hmx
        for e in tables.entries[q.first_entry : q.first_entry + q.entry_count]
        if e.action in (START, WAIT)
    ]
    if len(hmx) > 1 or owned:
        why = "more than one queue of HMX" if len(hmx) > 1 else "transfers in the queue of HMX"
        return f"## Inside ggml-hexagon\n\nThis plan cannot ride on its queues: it has {why}."
    return f"""## Inside ggml-hexagon

`hexloom_ggml.c` executes the plan within one op of ggml-hexagon, on its own work queue, HMX queue and DMA queues: no
thread of ours, and its traces and locks stay as they are. Made after ggml-org/ggml d99724f2; not run on a device yet.

1. Copy `{stem}.c`, `{stem}_kernels.c`, {", ".join(f"`{name}`" for name in RUNTIME)}, `hexloom_ggml.c` and the headers
   into `src/ggml-hexagon/htp`, and name the C files in `add_library` of its `CMakeLists.txt`.
2. Fill in the kernels: ggml's job functions take (n, i, data), so a slice is a struct to fill. To see tasks in ggml's
   trace, bind `hexloom_ggml_kernel` with a `hexloom_ggml_stage` that names the kernel and the event.
3. In the op, in place of its loop (`hmx_mm_2d_f32` and its like, or a new `htp_op_code`), with a static `hexloom_ggml`:
   `hexloom_ggml_open(&ggml, &port, octx->ctx, &view)`, the scratchpad `ctx->vtcm_base` and the tensors as memories,
   `setup.main_queue = ggml.main_queue`, `hexloom_bind`, `hexloom_ggml_execute`, and return
   `hexloom_ggml_status(hexloom_status_of(run))`. Tables, setup and port stay, so binding once per shape is enough.
4. The session needs {others} threads in its work queue (`n_threads`){" and HMX" if hmx else ""}, and the machine one
   hardware thread more{", for that of HMX" if hmx else ""}: everybody spins. Return before the batch ends, so that the
   scratchpad can be released; its content does not survive.
5. ggml's later change of descriptors (llama.cpp PR 29197: 64-bit DMA from v81 on) is not in what this was made after.
"""


def _readme(schedule: Schedule | PeriodicSchedule, tables: Tables, stem: str) -> str:
    pools = ["VTCM"] if isinstance(schedule, PeriodicSchedule) else ["VTCM", *(p.name for p in schedule.problem.pools)]
    pools += [f"tensor {name}" for name in tables.tensors]
    bindings = "\n".join(f"| {k} | {pools[k]} | {b.bytes} | {b.align} |" for k, b in enumerate(tables.bindings))
    queues = "\n".join(
        f"| {k} | {tables.engines[q.engine] if q.engine < len(tables.engines) else 'lent by the caller'} | {q.unit} | "
        f"{q.entry_count} |"
        for k, q in enumerate(tables.queues)
    )
    return f"""# {stem}

The plan of `{schedule.name}` for {schedule.machine or "no named machine"}, by {schedule.tool}:
{len(tables.tasks)} tasks of {len(tables.stages)} stages on {len(tables.queues)} threads.

1. Fill in `{stem}_kernels.c`: one function per stage. Until then every kernel fails, and so does the run.
{_moved(tables)}2. On a host: `cmake -B build && cmake --build build && ctest --test-dir build`,
   then `build/{stem}_host`. Without:
   `cc -std=c11 -pthread {stem}.c {stem}_kernels.c {stem}_main.c hexloom_posix.c {" ".join(RUNTIME)}`.
3. On a device: open the port of `hexloom_qurt.h` (acquire VTCM and HMX, give it stacks), fill in a `hexloom_setup` as
   `{stem}_main.c` does, bind once, execute as often as there is work. Votes for clocks, HVX and HMX are yours.

4. Measure the device first: `hexloom_bench()` with the port, VTCM and a buffer in DDR says what issuing a transfer, a
   row of it, a hand-over and a thread cost there; nobody has published these. `{stem}_bench.c` does so on a host.

`hexloom_qurt.c` compiles against declarations of the vendor's calls; it has not run on a device yet.

{_ride(tables, stem)}
| memory | what | bytes | aligned to |
|---|---|---|---|
{bindings}

| queue | engine | unit | entries |
|---|---|---|---|
{queues}

{_laps(tables, stem)}`{stem}.json` names what the tables number: tasks, events, buffers, and the predicted times.
"""
