"""A model as JSON, to be handed from a process that is not trusted to one that checks every part of it."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trex.solver.model import SOS, Function, Indicator, Model, ModelError

LARGEST = 2**25  # bytes of one model
PLACES = 2**31  # integers of equal hash lie further apart than this: sets and dictionaries stay fast


def dumps(model: Model) -> bytes:
    """The model as JSON; infinite sides are written as Infinity."""
    return json.dumps(
        {
            "sense": model.sense,
            "offset": model.offset,
            "variables": model.variables,
            "kinds": model.kinds,
            "cost": model.cost.tolist(),
            "lower": model.lower.tolist(),
            "upper": model.upper.tolist(),
            "rows": model.rows,
            "row_lower": model.row_lower.tolist(),
            "row_upper": model.row_upper.tolist(),
            "start": model.start.tolist(),
            "index": model.index.tolist(),
            "value": model.value.tolist(),
            "quadratic": _triples(model.quadratic),
            "quadratic_rows": [[row, _triples(terms)] for row, terms in model.quadratic_rows.items()],
            "sos": [[s.name, s.type, s.members, s.weights] for s in model.sos],
            "indicators": [[i.name, i.binary, i.active, i.terms, i.lower, i.upper] for i in model.indicators],
            "functions": [[f.name, f.kind, f.result, f.arguments, f.constant] for f in model.functions],
        },
        separators=(",", ":"),
    ).encode()


def loads(data: bytes) -> Model:
    """The model of `dumps`; every type and length is checked. Raises ModelError for anything else."""
    if len(data) > LARGEST:
        raise ModelError(f"a model of {len(data)} bytes; accepted: up to {LARGEST}")
    try:
        parts = json.loads(data)
        return _model(parts)
    except ModelError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError, MemoryError) as error:
        raise ModelError(f"no model: {type(error).__name__} {str(error)[:200]}") from None


def _model(parts: dict[str, Any]) -> Model:
    return Model(
        sense=_text(parts["sense"]),
        offset=_number(parts["offset"]),
        variables=_texts(parts["variables"]),
        kinds=_texts(parts["kinds"]),
        cost=_numbers(parts["cost"]),
        lower=_numbers(parts["lower"]),
        upper=_numbers(parts["upper"]),
        rows=_texts(parts["rows"]),
        row_lower=_numbers(parts["row_lower"]),
        row_upper=_numbers(parts["row_upper"]),
        start=_places(parts["start"]),
        index=_places(parts["index"]),
        value=_numbers(parts["value"]),
        quadratic=_pairs(parts["quadratic"]),
        quadratic_rows={_whole(row): _pairs(terms) for row, terms in parts["quadratic_rows"]},
        sos=tuple(
            SOS(_text(name), _whole(type_), tuple(map(_whole, members)), tuple(map(_number, weights)))
            for name, type_, members, weights in parts["sos"]
        ),
        indicators=tuple(
            Indicator(
                _text(name), _whole(binary), _whole(active), tuple((_whole(j), _number(c)) for j, c in terms),
                _number(lower), _number(upper),
            )
            for name, binary, active, terms, lower, upper in parts["indicators"]
        ),
        functions=tuple(
            Function(
                _text(name), _text(kind), _whole(result), tuple(map(_whole, arguments)),
                None if constant is None else _number(constant),
            )
            for name, kind, result, arguments, constant in parts["functions"]
        ),
    )  # fmt: skip


def _triples(terms: Mapping[tuple[int, int], float]) -> list[tuple[int, int, float]]:
    return [(i, j, c) for (i, j), c in terms.items()]


def _pairs(triples: Any) -> dict[tuple[int, int], float]:
    return {(_whole(i), _whole(j)): _number(c) for i, j, c in triples}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r:.80} is no list of texts")
    return tuple(map(_text, values))


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= PLACES:
        raise TypeError(f"{value!r:.80} is no whole number within {PLACES}")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{value!r:.80} is no number")
    return float(value)


def _numbers(values: Any) -> NDArray[np.float64]:
    return np.array([_number(value) for value in values], dtype=float)


def _places(values: Any) -> NDArray[np.int64]:
    return np.array([_whole(value) for value in values], dtype=np.int64)
