"""Lists the operations of openapi.yaml, which is the contract of the HTTP API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import jupyter_gpupool

_CONTRACT = Path(jupyter_gpupool.__file__).parent / "service" / "openapi.yaml"
_METHODS = ("get", "post", "patch", "put", "delete")


def _resolved(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference inside the document."""
    while "$ref" in part:
        found: Any = document
        for key in part["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        part = found
    return part


def _text(words: str | None) -> str:
    return " ".join((words or "").split()).replace("|", "\\|")


def _schema_name(document: dict[str, Any], body: dict[str, Any]) -> str:
    """Name what a body holds."""
    for content in _resolved(document, body).get("content", {}).values():
        schema = content.get("schema", {})
        listed = schema.get("items", {}) if schema.get("type") == "array" else {}
        for shape, form in ((schema, "`{}`"), (listed, "list of `{}`")):
            if "$ref" in shape:
                return form.format(shape["$ref"].rpartition("/")[2])
    return ""


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> list[str]:
    lines = [f"### `{method.upper()} {path}`", "", _text(operation.get("summary"))]
    if description := operation.get("description"):
        lines += ["", description.strip()]
    if body := operation.get("requestBody"):
        lines += ["", f"Body: {_schema_name(document, body) or 'JSON'}."]
    if parameters := operation.get("parameters"):
        lines += ["", "| parameter | in | meaning |", "| --- | --- | --- |"]
        for parameter in (_resolved(document, one) for one in parameters):
            lines.append(
                f"| `{parameter['name']}` | {parameter['in']} | {_text(parameter.get('description'))} |"
            )
    lines += ["", "| answer | body | when |", "| --- | --- | --- |"]
    for status, reference in operation["responses"].items():
        answer = _resolved(document, reference)
        lines.append(f"| {status} | {_schema_name(document, answer)} | {_text(answer.get('description'))} |")
    return [*lines, ""]


def _schema(document: dict[str, Any], name: str, schema: dict[str, Any]) -> list[str]:
    lines = [f"### {name}", "", _text(schema.get("description")), ""]
    if "enum" in schema:
        lines += ["One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".", ""]
    if properties := schema.get("properties"):
        lines += ["| field | type | meaning |", "| --- | --- | --- |"]
        for field, part in properties.items():
            described = _text(_resolved(document, part).get("description") or part.get("description"))
            lines.append(f"| `{field}` | {_type(part)} | {described} |")
        lines.append("")
    return lines


def _type(part: dict[str, Any]) -> str:
    if "$ref" in part:
        return f"`{part['$ref'].rpartition('/')[2]}`"
    for union in ("anyOf", "oneOf", "allOf"):
        if union in part:
            return " or ".join(_type(one) for one in part[union])
    kind = part.get("type", "any")
    if kind == "array":
        return f"list of {_type(part.get('items', {}))}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def operations() -> str:
    """Return all operations, then all structures."""
    document = yaml.safe_load(_CONTRACT.read_text())
    lines = ["## Operations", ""]
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                shared = methods.get("parameters", [])
                operation = {**methods[method]}
                operation["parameters"] = [*shared, *operation.get("parameters", [])]
                lines += _operation(document, method, path, operation)
    lines += ["## Structures", ""]
    for name, schema in document["components"]["schemas"].items():
        lines += _schema(document, name, schema)
    return "\n".join(lines) + "\n"
