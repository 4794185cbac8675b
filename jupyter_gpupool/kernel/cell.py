"""Runs the body of ``%%gpupool``: as IPython would run the cell, but errors reach the outer cell.

Rule of this module: what a cell shows, keeps and raises is the same with and without the magic; only a
top-level ``await`` is not possible.
"""

from __future__ import annotations

import ast
from typing import Any


def run_cell(shell: Any, body: str) -> None:
    """Run code in the user's namespace; its error goes to the caller.

    Parameters
    ----------
    shell : InteractiveShell
        The shell whose cell it is.
    body : str
        The cell without its first line.
    """
    __tracebackhide__ = True
    # One empty line takes the place of the magic's, so that the line numbers are those of the cell.
    source = "\n" + shell.transform_cell(body)
    name = shell.compile.cache(source, shell.displayhook.prompt_count, raw_code="\n" + body)
    nodes = shell.transform_ast(shell.compile.ast_parse(source, filename=name)).body
    shown = _shown(shell, nodes, body)
    for node in nodes:
        if node in shown:
            code = shell.compile(ast.Interactive([node]), name, "single")
        else:
            code = shell.compile(ast.Module([node], []), name, "exec")
        exec(code, shell.user_global_ns, shell.user_ns)  # noqa: S102 - the user's own cell


def _shown(shell: Any, nodes: list[ast.stmt], body: str) -> list[ast.stmt]:
    """Choose the expressions whose values are displayed."""
    expressions: list[ast.stmt] = [node for node in nodes if isinstance(node, ast.Expr)]
    how = shell.ast_node_interactivity
    if how == "none" or shell.displayhook.semicolon_at_end_of_expression(body):
        return []
    return expressions if how == "all" else [node for node in expressions if node is nodes[-1]]
