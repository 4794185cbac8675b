"""What can be typed after %gpupool, and what is said about what cannot."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

from jupyter_gpupool.kernel.commands import (
    COMMANDS,
    HelpShown,
    cell_parser,
    help_text,
    parse,
    parse_line,
)


def test_nothing_means_the_pool():
    assert parse_line("").command is None


def test_a_request_has_all_its_options():
    arguments = parse_line('request 1/4 --memory "8 GiB" --kind cpu --device cpu --wait 2m --for 2h')
    assert arguments.command == "request"
    assert arguments.share == "1/4"
    assert (arguments.memory, arguments.kind, arguments.device) == ("8 GiB", "cpu", "cpu")
    assert (arguments.wait, getattr(arguments, "for"), arguments.no_wait) == ("2m", "2h", False)


@pytest.mark.parametrize(
    "line", ["0.5 x4 --wait 2m --spread", "0.5 --wait 2m x4 --spread", "--spread --wait 2m 0.5 x4"]
)
def test_several_devices_are_asked_for_wherever_their_number_stands(line):
    for arguments in (parse_line(f"request {line}"), parse(cell_parser(), line)):
        assert (arguments.share, arguments.count, arguments.wait) == ("0.5", "x4", "2m")
        assert arguments.spread


def test_priority_and_at_most_are_optional():
    arguments = parse_line("request 2 --priority low --at-most")
    assert (arguments.share, arguments.count, arguments.priority) == ("2", None, "low")
    assert arguments.at_most
    assert not parse_line("request 2").at_most


def test_a_share_in_percent_is_taken_as_it_is():
    assert parse_line("request 25% --no-wait").share == "25%"
    assert parse(cell_parser(), "25%").share == "25%"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("relase", "Did you mean `%gpupool release`?"),
        ("RESIZE 1", "Did you mean `%gpupool resize`?"),
        ("0.5", "Did you mean `%gpupool request 0.5`?"),
        ("frobnicate", "The commands are request, resize, release, pin,"),
        ("request", "required: SHARE. `%gpupool request --help` shows how."),
        ("request 0.25 --wat 1", "“--wat” is not understood here. `%gpupool request --help` shows how."),
        ("request 0.5 4", "“4” is not understood here"),
        ("request 0.5 x4 x2", "“x2” is not understood here"),
        ("resize 0.5 x4", "“x4” is not understood here"),
        ("request 0.5 --priority", "expected one argument"),
        ("release 0.5", "“0.5” is not understood here. `%gpupool release --help` shows how."),
        ("request 0.5 --wait 2m --no-wait", "not allowed with argument --wait"),
        ("request 0.5 --memory", "expected one argument"),
        ('request "0.5', "no closing quotation"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_next_step(line, said):
    with pytest.raises(UsageError) as caught:
        parse_line(line)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", ["--help", "-h", *(f"{name} --help" for name in COMMANDS)])
def test_help_is_printed_at_every_level_and_ends_nothing(line, capsys):
    with pytest.raises(HelpShown):
        parse_line(line)
    printed = capsys.readouterr().out
    assert "%gpupool" in printed
    assert "%%gpupool" not in printed


def test_the_cell_magic_has_help_of_its_own(capsys):
    with pytest.raises(HelpShown):
        parse(cell_parser(), "-h")
    assert "%%gpupool" in capsys.readouterr().out


def test_the_help_names_every_command_and_option():
    text = help_text()
    for command in COMMANDS.values():
        assert f"%gpupool {command.name}" in text
        assert all(option.flag in text for option in command.options)
