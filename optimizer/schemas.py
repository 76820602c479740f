"""The JSON schemas of the files: committed under ``optimizer/schemas/``, for editors and other programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hexloom.formulations.problem import Problem
from hexloom.optimizer.infeasibility import Infeasibility
from hexloom.optimizer.measured import Measured
from hexloom.optimizer.opportunities.report import Opportunities
from hexloom.optimizer.periodic.schedule import PeriodicSchedule
from hexloom.optimizer.pipeline.model import Pipeline
from hexloom.optimizer.qos.model import Qos
from hexloom.optimizer.qos.report import QosReport
from hexloom.optimizer.robust.durations import Durations
from hexloom.optimizer.robust.report import Robustness
from hexloom.optimizer.schedule import Schedule
from hexloom.optimizer.study.report import Study
from hexloom.optimizer.traces.comparison import Comparison
from hexloom.optimizer.traces.summary import TraceSummary
from hexloom.optimizer.what_if import WhatIf
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from pydantic import BaseModel

FILES: dict[str, type[BaseModel]] = {
    "workload": Workload,
    "problem": Problem,
    "schedule": Schedule,
    "periodic_schedule": PeriodicSchedule,
    "infeasibility": Infeasibility,
    "what_if": WhatIf,
    "durations": Durations,
    "robustness": Robustness,
    "pipeline": Pipeline,
    "trace": Measured,
    "comparison": Comparison,
    "trace_summary": TraceSummary,
    "study": Study,
    "opportunities": Opportunities,
    "qos": Qos,
    "qos_report": QosReport,
}


def schema_texts() -> dict[str, str]:
    """Return the text of every schema file by its name; nothing is written."""
    texts = {}
    for name, model in FILES.items():
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
        texts[f"{name}.schema.json"] = json.dumps(schema, indent=1) + "\n"
    return texts
