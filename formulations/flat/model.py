"""The flat model as a whole: built from its families, hinted from an incumbent, read back as a solution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from hexloom.formulations.flat.engines import UnitChoice, add_engines, add_exclusive
from hexloom.formulations.flat.memory import Ends, Life, add_addresses, add_bytes, add_lifetimes, ends_by_precedence
from hexloom.formulations.flat.precedence import add_deadlines, add_precedences
from hexloom.formulations.flat.solution import FlatSolution
from hexloom.formulations.flat.variables import FlatVars, add_variables, hint_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.flat.solution import FlatOptions
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem


class FlatModel:
    """All constraints of ``problem`` with ``lower <= makespan <= upper``."""

    def __init__(self, problem: Problem, ht: HeadsTails, options: FlatOptions) -> None:
        self.problem = problem
        self.options = options
        self.model = cp_model.CpModel()
        self.variables: FlatVars = self.add_variables(ht)
        self.choices: list[UnitChoice] = add_engines(self.model, problem, self.variables)
        if options.exclusive:
            add_exclusive(self.model, problem, self.variables)
        add_precedences(self.model, problem, self.variables)
        add_deadlines(self.model, problem, self.variables)
        self.lives: list[Life] = add_lifetimes(self.model, problem, self.variables, options.upper, self.ends)
        add_bytes(self.model, problem, self.lives)
        self.addresses = self.add_addresses(self.lives) if options.addresses else None
        self.model.minimize(self.variables.makespan)
        self.spent = 0.0
        self._solver = cp_model.CpSolver()
        self._stopped = False

    def add_variables(self, ht: HeadsTails) -> FlatVars:
        """Create the variables of all ops."""
        return add_variables(self.model, self.problem, ht, self.options.upper, self.options.lower)

    def ends(self, problem: Problem, users: Sequence[int]) -> Ends:
        """Say who of the ``users`` of a buffer must be first and last."""
        return ends_by_precedence(problem, users)

    def add_addresses(self, lives: list[Life]) -> dict[int, cp_model.IntVar]:
        """Give every buffer an address."""
        return add_addresses(self.model, self.problem, lives, self.options.upper)

    def hint(self, decision: Decision, simulated: Simulated) -> None:
        """Start the search from an incumbent, every variable included."""
        for i, of in enumerate(self.variables.ops):
            times = int(simulated.start[i]), int(simulated.transfer_start[i]), int(simulated.ended[i])
            hint_times(self.model, of, *times)
            for m, mode in enumerate(of.modes):
                if not isinstance(mode.chosen, bool):
                    self.model.add_hint(mode.chosen, m == decision.modes[i])
        self.hint_units(decision)
        self.hint_lives([int(t) for t in simulated.start], [int(t) for t in simulated.ended], decision.offsets)
        for b, unit in (self.addresses or {}).items():
            self.model.add_hint(unit, decision.offsets[b] // self.problem.buffers[b].align_bytes)
        self.model.add_hint(self.variables.makespan, int(simulated.makespan))

    def hint_units(self, decision: Decision) -> None:
        """Start from the units of ``decision``."""
        for choice in self.choices:
            taken = decision.units[choice.op][choice.use] if decision.modes[choice.op] == choice.mode else ()
            for u, literal in choice.literals.items():
                self.model.add_hint(literal, u in taken)

    def hint_lives(self, start: Sequence[int], known: Sequence[int], offsets: Sequence[int] = ()) -> None:
        """Start from the lives that buffers have when ops start, and their ends are known, at these times."""
        over = {one.new: one.op for one in self.problem.takeovers if offsets and offsets[one.new] == offsets[one.old]}
        for life in self.lives:
            buffer = self.problem.buffers[life.buffer]
            users = [self.problem.op_index[name] for name in buffer.ops]
            born = -1 if buffer.from_start else min(start[u] for u in users)
            if life.buffer in over:
                born = known[over[life.buffer]]
            died = self.options.upper + 1 if buffer.to_end else max(known[u] for u in users)
            for name, variable in life.own.items():
                values = {"born": born, "died": died, "size": died - born, "over": life.buffer in over}
                self.model.add_hint(variable, values[name])

    def solve(self, on_solution: Callable[[FlatSolution], None]) -> tuple[str, int]:
        """Search; return the status name and the best proven bound on the makespan."""
        options, solver = self.options, self._solver
        parameters = solver.parameters
        parameters.random_seed = options.seed
        parameters.num_workers = 1 if options.deterministic else options.workers
        parameters.cp_model_presolve = options.presolve
        parameters.stop_after_first_solution = options.first
        if not options.linear:
            parameters.linearization_level = 0
        if options.strong:
            parameters.use_strong_propagation_in_disjunctive = True
            parameters.use_dynamic_precedence_in_disjunctive = True
        # A subsolver with known wrong answers on rectangles (or-tools #4582).
        parameters.ignore_subsolvers.append("packing_square_lns")
        if options.deterministic:
            parameters.max_deterministic_time = options.seconds
        else:
            parameters.max_time_in_seconds = options.seconds
        self.tune(parameters)
        if self._stopped:
            return "UNKNOWN", 0
        status = solver.solve(self.model, _Report(self, on_solution))
        self.spent = solver.response_proto.deterministic_time
        bound = solver.best_objective_bound if status != cp_model.INFEASIBLE else float(options.upper + 1)
        return solver.status_name(status), int(-(-bound // 1)) if bound > 0 else 0

    def stop(self) -> None:
        """End the search from another thread, or before it has begun."""
        self._stopped = True
        self._solver.stop_search()

    def tune(self, parameters: cp_model.SatParameters) -> None:
        """Set what the solver should do otherwise for this kind of model: nothing."""

    def read(
        self, value: Callable[[cp_model.LinearExprT], int], true: Callable[[cp_model.LiteralT], bool]
    ) -> FlatSolution:
        """Return the solution that ``value`` and ``true`` read."""
        ops = self.variables.ops
        mode = tuple(next(m for m, of in enumerate(op.modes) if of.chosen is True or true(of.chosen)) for op in ops)
        units = {
            (c.op, c.use): tuple(u for u, literal in c.literals.items() if true(literal))
            for c in self.choices
            if c.mode == mode[c.op]
        }
        start = tuple(value(op.start) for op in ops)
        offsets = None
        if self.addresses is not None:
            offsets = {b: value(unit) * self.problem.buffers[b].align_bytes for b, unit in self.addresses.items()}
        return FlatSolution(
            start=start,
            moved=tuple(value(op.moved) if op.moved is not None else start[i] for i, op in enumerate(ops)),
            known=tuple(value(op.known) for op in ops),
            mode=mode,
            units=units,
            offsets=offsets,
            makespan=value(self.variables.makespan),
        )


class _Report(cp_model.CpSolverSolutionCallback):
    def __init__(self, flat: FlatModel, on_solution: Callable[[FlatSolution], None]) -> None:
        super().__init__()
        self._flat = flat
        self._on_solution = on_solution

    def on_solution_callback(self) -> None:
        self._on_solution(self._flat.read(self.value, self.boolean_value))
