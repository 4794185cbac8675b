"""A whole agent in a process of its own, as the tests start it: ``python -m tests.support.agent_process``.

Arguments: a JSON object with the fields of `AgentSettings`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path

import msgspec

from jupyter_gpupool.backends.rules import NodeRules
from jupyter_gpupool.cluster.agent import AgentSettings, run_agent


def main() -> int:
    """Run the agent that the argument describes."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    fields = json.loads(sys.argv[1])
    fields["runtime"] = Path(fields["runtime"])
    fields["rules"] = msgspec.convert(fields.get("rules", {}), NodeRules)
    return asyncio.run(run_agent(AgentSettings(**fields)))


if __name__ == "__main__":
    raise SystemExit(main())
