"""The file that names endpoints with their prices: YAML, a list of them."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from trex.data.endpoint import Endpoint
from trex.data.flywheel.ledger import Priced
from trex.data.problem import DataError

ENDPOINT = {field.name for field in fields(Endpoint)}
PRICES = {"input_price", "output_price"}


def read_endpoints(path: Path) -> list[Priced]:
    """The endpoints of a file. Raises DataError that names the entry that is not accepted."""
    try:
        rows: Any = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{path}: {rows!r:.60}; accepted: a list of endpoints, each with base_url and model")
    found = []
    for number, row in enumerate(rows, start=1):
        where = f"{path}, endpoint {number}"
        accepted = ", ".join(sorted(ENDPOINT | PRICES))
        if not isinstance(row, dict):
            raise DataError(f"{where}: {row!r:.80}; accepted: {accepted}")
        if unknown := [key for key in row if key not in ENDPOINT | PRICES]:  # its value may be a key that is secret
            raise DataError(f"{where} has {unknown[0]!r:.80}; accepted: {accepted}")
        for name in ("base_url", "model", "api_key_variable"):
            if not isinstance(row.get(name, "" if name == "api_key_variable" else None), str):
                raise DataError(f"{where}: {name} {'is no text' if name in row else 'is missing'}; accepted: a text")
        try:
            endpoint = Endpoint(**{key: value for key, value in row.items() if key in ENDPOINT})
            found.append(Priced(endpoint, **{key: value for key, value in row.items() if key in PRICES}))
        except (DataError, TypeError, AttributeError) as error:
            raise DataError(f"{where}: {error}") from None
        if found[-1].name in [other.name for other in found[:-1]]:
            raise DataError(f"{where}: {found[-1].name} is there twice; accepted: each model of an address once")
    return found
