"""The JSON Schema of a results file, and the tables of fields in docs/results-file.md that are made from it.

    python -m cudalab.results.schema docs/results-file.md

writes the tables between `<!-- fields -->` and `<!-- /fields -->`; a test fails when they are out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from cudalab.results.record import VERSION, Case, ErrorCurve, Machine, Parity, Place, Prediction, Results

RECORDS = (Results, Machine, Case, Parity, ErrorCurve, Prediction, Place)
BEGIN, END = "<!-- fields -->", "<!-- /fields -->"
WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the JSON that `cudalab bench -o` writes."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"cudalab results, version {VERSION}",
        **msgspec.json.schema(Results),
    }
    for record in schema["$defs"].values():
        record["description"] = " ".join(record["description"].split())
    return schema


def as_text() -> str:
    return json.dumps(json_schema(), indent=2)


def tables() -> str:
    """Return a heading, a sentence and a table of fields for each record, in Markdown."""
    defined = json_schema()["$defs"]
    return "\n\n".join("\n".join(_table(record.__name__, defined[record.__name__])) for record in RECORDS)


def _table(name: str, record: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}\n\n{record['description']}\n"
    yield "| field | holds | if absent | |\n| --- | --- | --- | --- |"
    for field, schema in record["properties"].items():
        absent = "*must be there*" if field in record["required"] else f"`{json.dumps(schema['default'])}`"
        yield f"| `{field}` | {_holds(schema)} | {absent} | {schema['description']} |"


def _holds(schema: dict[str, Any]) -> str:
    """The type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(sorted((_holds(part) for part in schema["anyOf"]), key="null".__eq__))
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_plural(_holds(schema['items']))}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"object: name → {_holds(inner)}" if inner else "object"
    return WORDS[schema["type"]] if "type" in schema else "anything"


def _plural(words: str) -> str:
    first, _, rest = words.partition(" of ")
    if rest:
        return f"{first}s of {rest}"
    return words if words.endswith(("text", ")")) or " or " in words else f"{words}s"


def filled(text: str) -> str:
    """`text` with the tables between BEGIN and END replaced."""
    return re.sub(f"(?<={BEGIN}\n).*?(?={END})", lambda _: tables() + "\n", text, flags=re.DOTALL)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
