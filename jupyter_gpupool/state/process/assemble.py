"""All sections of the process, in their order.

Rule of this module: this is the only place that knows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jupyter_gpupool.state.process import (
    cautions,
    chance,
    conversions,
    drawing,
    environment,
    figures,
    history,
    logs,
    modules,
    options,
    patches,
    registered,
    secrets,
    shell,
    signals,
    whereabouts,
)
from jupyter_gpupool.state.process.section import Section


def sections(
    memory: history.History | None = None,
    *,
    namespace: dict[str, Any] | None = None,
    patterns: Iterable[str] = secrets.SECRET_ENVIRONMENT,
) -> list[Section]:
    """Return all sections, those first that the variables may need.

    Parameters
    ----------
    memory : History, optional
        What was typed and what came out, where there is a shell.
    namespace : dict, optional
        The variables that they go with.
    patterns : iterable of str
        Names of environment variables that are secrets.
    """
    found = [environment.section(patterns), whereabouts.DIRECTORY, whereabouts.PATH, whereabouts.UMASK]
    found += [
        chance.SECTION,
        drawing.SECTION,  # it sets options, so that theirs come after it
        options.SECTION,
        cautions.SECTION,
        logs.SECTION,
        figures.SECTION,
        conversions.SECTION,
        signals.SECTION,
        modules.section(namespace or {}),
        registered.section(namespace or {}, memory),
    ]
    if memory is None:
        return found
    return [*found, patches.section(namespace or {}, memory), shell.section(memory), history.section(memory)]
