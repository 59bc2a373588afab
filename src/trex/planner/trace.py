"""A timeline as Chrome trace events, to be opened in Perfetto (ui.perfetto.dev) or chrome://tracing."""

import json
from pathlib import Path
from typing import Any

from trex.files import write_atomic
from trex.planner.schedules import Overlapped
from trex.planner.simulate import Span, Timeline

MICROSECONDS = 1e6


def chrome_trace(timeline: Timeline, name: str) -> dict[str, Any]:
    """Trace Event Format, JSON object form: one process called `name`, one thread per rank, one complete event
    ("ph": "X") per operation or overlapped pair; ts and dur in microseconds."""
    events: list[dict[str, Any]] = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": name}}]
    for rank, spans in enumerate(timeline.spans):
        events.append({"ph": "M", "pid": 0, "tid": rank, "name": "thread_name", "args": {"name": f"rank {rank}"}})
        events.append({"ph": "M", "pid": 0, "tid": rank, "name": "thread_sort_index", "args": {"sort_index": rank}})
        events += [_event(span, rank) for span in spans]
    return {"displayTimeUnit": "ms", "traceEvents": events}


def write_chrome_trace(timeline: Timeline, name: str, path: Path) -> Path:
    """Write the trace as JSON, creating the folder; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(chrome_trace(timeline, name), separators=(",", ":")).encode())
    return path


def _event(span: Span, rank: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": 0,
        "tid": rank,
        "name": span.step.label,
        "cat": "overlapped" if isinstance(span.step, Overlapped) else span.step.kind,
        "ts": span.start * MICROSECONDS,
        "dur": (span.end - span.start) * MICROSECONDS,
        "args": {part.kind: {"stage": part.stage, "micro_batch": part.micro_batch} for part in span.step.parts},
    }
