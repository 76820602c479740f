"""How a schedule looks in a notebook: its picture, and above it the sentence that matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.emit.gantt import gantt_svg
from hexloom.emit.report_sections import Times, headline, proof

if TYPE_CHECKING:
    from hexloom.optimizer.schedule import Schedule


def schedule_html(schedule: Schedule) -> str:
    """Return what a notebook shows for ``schedule``."""
    at = Times(schedule)
    told = headline(schedule.makespan, schedule.baselines.get("existing"), at)
    bound = proof(schedule.makespan, schedule.lower_bound, schedule.certificate, at)
    return f'{told}{bound}<div style="max-width:1400px">{gantt_svg(schedule)}</div>'
