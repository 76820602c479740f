"""The numbers behind the pictures of the report: plain data in the time unit of the schedule, by position of op."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from hexloom.emit.critical_path import WORDS, Causes
from hexloom.emit.gantt import SHOW_ALL_UNITS
from hexloom.emit.palette import Palette

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.emit.critical_path import Step
    from hexloom.emit.lanes import Lane, View
    from hexloom.formulations.problem import Scratchpad
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.comparison import Comparison

DECIMALS = 6
"""Of a microsecond, or of a tick."""

KINDS = ("run", "transfer", "dma_start", "dma_wait")


class ReportData:
    """One schedule as the page needs it."""

    def __init__(self, view: View, causes: Causes, chain: Sequence[Step], measured: Comparison | None) -> None:
        self.view, self.schedule, self.problem = view, view.schedule, view.schedule.problem
        self.causes, self.chain, self.measured = causes, chain, measured
        palette = Palette(self.problem)
        groups = list(palette.colours)
        self.group_of = {group: k for k, group in enumerate(groups)}
        self.groups = [[task, stage, palette.colours[task, stage]] for task, stage in groups]

    def at(self, ticks: Moment) -> int | float:
        """Return a time in the unit of the schedule, rounded for a picture."""
        return plain(self.schedule, ticks)

    def everything(self) -> dict[str, Any]:
        """Return all of it."""
        schedule, measured = self.schedule, self.measured
        return {
            "unit": unit_of(schedule),
            "makespan": self.at(schedule.makespan),
            "bound": self.at(schedule.lower_bound),
            "entry": self.at(self.problem.entry_ticks),
            "measuredMakespan": None if measured is None else self.at(measured.makespan.measured),
            "groups": self.groups,
            "why": WORDS,
            "ops": self._ops(),
            "edges": [x for after, before in enumerate(self.problem.predecessors) for p in before for x in (p, after)],
            "bands": self._bands(),
            "memory": self._memory(),
            "channels": self._channels(),
            "critical": sorted({step.op for step in self.chain}),
            "measured": None if measured is None else self._measured(measured),
        }

    def _ops(self) -> dict[str, list[Any]]:
        """Return one list per field, which is half as long as one object per op."""
        rows, modes, causes = self.view.rows, self.view.modes, self.causes
        because = [causes.of(i) for i in range(len(rows))]
        ready = [
            max((rows[p].observed for p in before), default=self.problem.entry_ticks)
            for before in self.problem.predecessors
        ]
        begun = [self.view.progress.begun[op.name] for op in self.problem.ops]
        done = [
            mode.latency_ticks if work is None else work
            for mode, work in zip(modes, (self.view.progress.done(op.name) for op in self.problem.ops), strict=True)
        ]
        return {
            "name": [op.name for op in self.problem.ops],
            "group": [self.group_of[op.task, op.stage] for op in self.problem.ops],
            "tile": [op.tile for op in self.problem.ops],
            "start": [self.at(row.start) for row in rows],
            "end": [self.at(row.observed) for row in rows],
            "ready": [self.at(tick) for tick in ready],
            "over": [self.at(mode.overhead_ticks) for mode in modes],
            "slowed": [
                self.at(max(0, row.done - begin - work)) for row, begin, work in zip(rows, begun, done, strict=True)
            ],
            "move": [
                None
                if mode.dma is None
                else [self.at(t) for t in (row.end, row.transfer_start, row.done, row.wait_start)]
                for mode, row in zip(modes, rows, strict=True)
            ],
            "because": [cause.why for cause in because],
            "cause": [cause.op for cause in because],
            "units": [self._places(i) for i in range(len(rows))],
        }

    def _places(self, i: int) -> str:
        """Return in words where an op runs: its units, or for a transfer its pipes and who issues it."""
        mode, units = self.view.modes[i], self.view.units[i]
        shares = self.problem.shares
        engines = dict.fromkeys(use.engine for use in mode.uses if use.ticks and use.engine not in shares)
        words = [f"{e}[{','.join(map(str, units[e]))}]" if units.get(e) else e for e in engines]
        if mode.dma is not None:
            words.append(f"issued by {mode.dma.owner_engine}[{mode.dma.owner_unit}]")
        return ", ".join(words)

    def _bands(self) -> list[dict[str, Any]]:
        """Return the engines with their units; unused units of pipes and of very wide engines are left out."""
        kinds = [engine.kind for engine in self.problem.engines]
        bands = []
        for position, group in groupby(self.view.lanes(), key=lambda lane: lane.position):
            lanes = list(group)
            if kinds[position] == "pipe" or len(lanes) > SHOW_ALL_UNITS:
                lanes = [lane for lane in lanes if lane.slices]
            if lanes:
                engine = self.problem.engines[position]
                bands.append(
                    {
                        "engine": engine.name,
                        "units": engine.units,
                        "kind": engine.kind,
                        "lanes": [self._lane(lane) for lane in lanes],
                    }
                )
        return bands

    def _lane(self, lane: Lane) -> dict[str, Any]:
        flat: list[int | float] = []
        for piece in lane.slices:
            flat += [
                piece.op,
                KINDS.index(piece.kind),
                self.at(piece.start),
                self.at(piece.work_start),
                self.at(piece.end),
            ]
        return {"label": lane.label, "unit": lane.unit, "slices": flat}

    def _memory(self) -> list[dict[str, Any]]:
        """Return one map for the scratchpad and one for every pool that holds anything."""
        lives = self.view.lives()
        buffers = self.problem.buffers
        pads: list[tuple[str | None, Scratchpad]] = [(None, self.problem.scratchpad)]
        pads += [(pool.name, pool) for pool in self.problem.pools]
        found = []
        for pool, pad in pads:
            mine = [life for life in lives if buffers[life.buffer].pool == pool and buffers[life.buffer].occupied_bytes]
            if not mine:
                continue
            found.append(
                {
                    "name": "Scratchpad (VTCM)" if pool is None else f"Pool {pool}",
                    "total": pad.total_bytes,
                    "available": pad.available_bytes,
                    "peak": max(level for _, level in self.view.live_bytes(pool)),
                    "lives": [
                        [
                            buffers[life.buffer].name,
                            life.address,
                            buffers[life.buffer].occupied_bytes,
                            self.at(life.birth),
                            self.at(life.death),
                            -1 if life.op is None else self.group_of[self._group(life.op)],
                            [self.problem.op_index[name] for name in buffers[life.buffer].ops],
                        ]
                        for life in sorted(mine, key=lambda life: (life.address, life.birth, life.buffer))
                    ],
                }
            )
        return found

    def _group(self, op: int) -> tuple[str, str]:
        return self.problem.ops[op].task, self.problem.ops[op].stage

    def _channels(self) -> list[dict[str, Any]]:
        """Return what every channel serves over time; of a lowered problem in bytes per microsecond."""
        of = {channel.name: channel for channel in self.problem.channels}
        found = []
        for name, steps in self.view.served().items():
            scale = float(of[name].unit or 1)
            if any(level for _, level in steps):
                flat = [x for tick, level in steps for x in (self.at(tick), round(level * scale, 3))]
                found.append({"name": name, "capacity": round(float(of[name].capacity * scale), 3), "steps": flat})
        return found

    def _measured(self, measured: Comparison) -> list[Any]:
        """Return for every op [start, end] as it was measured, None where the trace does not have it."""
        rows = {row.op: row for row in measured.rows}
        return [
            None
            if op.name not in rows
            else [self.at(rows[op.name].start.measured), self.at(rows[op.name].end.measured)]
            for op in self.problem.ops
        ]


def plain(schedule: Schedule, ticks: Moment) -> int | float:
    """Return a time in the unit of ``schedule`` as a short JSON number."""
    value = round(float(schedule.us(ticks)), DECIMALS)
    return int(value) if value == int(value) else value


def unit_of(schedule: Schedule) -> str:
    """Return the unit of times for people."""
    return "ticks" if schedule.problem.tick is None else "\N{MICRO SIGN}s"
