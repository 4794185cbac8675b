"""What can be typed to the simulator is what it reads, and what a scenario may say."""

from __future__ import annotations

from jupyter_gpupool.app import GPUPoolApp
from jupyter_gpupool.sim.options import NAMES


def test_every_option_of_the_simulator_can_be_typed_and_no_other() -> None:
    command, _ = GPUPoolApp.subcommands["simulate"]
    of_command = f"{command.__name__}."
    typed = {
        target.removeprefix(of_command): typed
        for typed, target in command.aliases.items()
        if isinstance(target, str) and target.startswith(of_command)
    }
    assert set(typed) == {*NAMES, "quotas", "reservations", "scenario"}
    assert all(word == option.replace("_", "-") for option, word in typed.items())
    assert all(command.class_traits()[option].help for option in typed)
