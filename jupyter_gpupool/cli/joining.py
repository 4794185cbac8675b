"""The commands about who may join a pool: ``token`` and ``certs``.

Rules of this module: they work on the authority's files on the pool's own machine, also while the service is
down; a secret is printed once, when it is made, and never shown again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from traitlets import Bool, Int, Unicode

from jupyter_gpupool.cli.base import COMMON_ALIASES, COMMON_FLAGS, Command
from jupyter_gpupool.core.errors import InvalidValue
from jupyter_gpupool.core.shares import parse_duration
from jupyter_gpupool.protocol.paths import data_dir

if TYPE_CHECKING:
    from jupyter_gpupool.cluster.authority.authority import Authority


def _authority(*, make: bool = False) -> Authority:
    """Open the authority of this user's pool.

    Raises
    ------
    AuthorityFault
        If there is none, and none is to be made.
    """
    from jupyter_gpupool.cluster.authority.authority import FOLDER, Authority
    from jupyter_gpupool.cluster.errors import AuthorityFault

    folder = data_dir() / FOLDER
    if not make and not folder.exists():
        raise AuthorityFault(
            f"This pool has no certificate authority yet ({folder}).",
            hint="It is made by `jupyter gpupool certs create`, or by the first `serve --listen HOST`.",
        )
    return Authority(folder)


def _when(wall_ms: int) -> str:
    """Show a time as people read it."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(markup=False).print(table)


class _OneCommand(Command):
    """Base of the commands that are about one thing, which is named."""

    def one_argument(self, what: str) -> str:
        """Return the one thing that was named.

        Raises
        ------
        InvalidValue
            If it is not one.
        """
        if len(self.extra_args) != 1:
            raise InvalidValue(f"Name one {what}.", hint="See --help.")
        return str(self.extra_args[0])


class TokenCreateApp(Command):
    """Make a token that lets a machine join this pool as a node, and print it: it is shown only now."""

    name = "jupyter-gpupool-token-create"
    description = __doc__
    examples = """
    jupyter gpupool token create --join                     # one node, within an hour
    jupyter gpupool token create --join --for 1d --uses 20  # twenty nodes, within a day
    """
    aliases: ClassVar[Any] = {
        **COMMON_ALIASES,
        "for": "TokenCreateApp.good_for",
        "uses": "TokenCreateApp.uses",
        "note": "TokenCreateApp.note",
    }
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "join": ({"TokenCreateApp": {"join": True}}, "A token to join with; the only kind there is."),
    }
    join = Bool(False, help="A token to join with; the only kind there is.").tag(config=True)
    good_for = Unicode("1h", help="For how long it can be used: 30m, 1h, 2d.").tag(config=True)
    uses = Int(1, min=1, max=10_000, help="How many machines may join with it.").tag(config=True)
    note = Unicode("", help="What it is for; shown in the list.").tag(config=True)

    def run(self) -> int:
        """Print it."""
        if not self.join:
            raise InvalidValue("Which kind of token?", hint="Add --join, for a machine that is to join.")
        seconds = parse_duration(self.good_for)
        token = _authority().create_token(seconds=seconds, uses=self.uses, note=self.note)
        print(token)  # noqa: T201 - this is a command
        return 0


class TokenListApp(Command):
    """List the join tokens, without their secrets."""

    name = "jupyter-gpupool-token-list"
    description = __doc__

    def run(self) -> int:
        """Print a table."""
        rows = [
            (it.id, it.state.value, str(it.uses_left), _when(it.created_ms), _when(it.expires_ms), it.note)
            for it in _authority().book.tokens()
        ]
        _table(("token", "state", "uses left", "made", "ends", "note"), rows)
        return 0


class TokenRevokeApp(_OneCommand):
    """Let a join token be used no more; nodes that joined with it stay."""

    name = "jupyter-gpupool-token-revoke"
    description = __doc__
    examples = "jupyter gpupool token revoke 1a2b3c4d"

    def run(self) -> int:
        """Revoke it."""
        token = self.one_argument("token, by the id that `jupyter gpupool token list` shows")
        _authority().book.revoke_token(token)
        print(f"Token {token} can be used no more.")  # noqa: T201 - this is a command
        return 0


class TokenApp(Command):
    """Make, list and revoke the tokens with which machines join this pool."""

    name = "jupyter-gpupool-token"
    description = __doc__
    subcommands: ClassVar[Any] = {
        "create": (TokenCreateApp, "Make a token, and print it."),
        "list": (TokenListApp, "List the tokens, without their secrets."),
        "revoke": (TokenRevokeApp, "Let a token be used no more."),
    }


class CertsCreateApp(Command):
    """Make the pool's certificate authority, if there is none yet, and print its fingerprint."""

    name = "jupyter-gpupool-certs-create"
    description = __doc__

    def run(self) -> int:
        """Make it."""
        authority = _authority(make=True)
        print(f"{authority.directory}: SHA-256 {authority.signer.fingerprint}")  # noqa: T201 - a command
        return 0


class CertsShowApp(Command):
    """Show the authority, and the certificate of each node: fingerprints, and when they end."""

    name = "jupyter-gpupool-certs-show"
    description = __doc__

    def run(self) -> int:
        """Print tables."""
        authority = _authority()
        signers = [("authority", authority.signer)]
        if authority.rotating:
            signers = [("new authority", authority.signer), ("old authority", authority.anchor)]
        _table(
            ("what", "SHA-256", "ends"),
            [
                (name, it.fingerprint, _when(round(it.certificate.not_valid_after_utc.timestamp() * 1000)))
                for name, it in signers
            ],
        )
        by = {it.fingerprint: name for name, it in signers}
        rows = [
            (
                *(it.node_name, it.node_id, f"{it.serial:x}", by.get(it.signer_sha256, "unknown")),
                _when(it.expires_ms) if it.revoked_ms is None else f"revoked {_when(it.revoked_ms)}",
            )
            for it in authority.book.newest()
        ]
        _table(("node", "id", "certificate", "made by", "ends"), rows)
        return 0


class CertsRotateApp(Command):
    """Make a new authority beside the old one; with --finish, trust the old one no more."""

    name = "jupyter-gpupool-certs-rotate"
    description = __doc__
    examples = """
    jupyter gpupool certs rotate           # then restart the service: nodes renew as they connect
    jupyter gpupool certs rotate --finish  # when all have; then restart the service once more
    """
    flags: ClassVar[Any] = {
        **COMMON_FLAGS,
        "finish": ({"CertsRotateApp": {"finish": True}}, "Trust the old authority no more."),
        "force": ({"CertsRotateApp": {"force": True}}, "Even if nodes have to join anew then."),
    }
    finish = Bool(False, help="Trust the old authority no more.").tag(config=True)
    force = Bool(False, help="Even if nodes have to join anew then.").tag(config=True)

    def run(self) -> int:
        """Take the next step."""
        authority = _authority()
        if self.finish:
            authority.end_rotation(force=self.force)
            said = "The old authority is trusted no more. Restart the service."
        else:
            authority.begin_rotation()
            said = (
                "There is a new authority beside the old one. Restart the service; when `jupyter gpupool"
                " certs show` lists all nodes under the new one, run this again with --finish."
            )
        print(said)  # noqa: T201 - this is a command
        return 0


class CertsRevokeApp(_OneCommand):
    """Declare the certificates of a node void: it is hung up on at once, and has to join anew."""

    name = "jupyter-gpupool-certs-revoke"
    description = __doc__
    examples = "jupyter gpupool certs revoke n2"

    def run(self) -> int:
        """Revoke them."""
        node = self.one_argument("node, by its name or id")
        _authority().book.revoke_node(node)
        print(f"The certificates of {node} are void.")  # noqa: T201 - this is a command
        return 0


class CertsAuditApp(Command):
    """Show what happened to tokens and certificates, oldest first."""

    name = "jupyter-gpupool-certs-audit"
    description = __doc__

    def run(self) -> int:
        """Print a table."""
        rows = [
            (_when(it.wall_ms), it.what.value, ", ".join(f"{key} {text}" for key, text in it.detail.items()))
            for it in _authority().book.audit()
        ]
        _table(("when", "what", "detail"), rows)
        return 0


class CertsApp(Command):
    """Make, show and rotate the pool's certificates, and revoke those of nodes."""

    name = "jupyter-gpupool-certs"
    description = __doc__
    subcommands: ClassVar[Any] = {
        "create": (CertsCreateApp, "Make the authority, if there is none yet."),
        "show": (CertsShowApp, "Show fingerprints, and when certificates end."),
        "rotate": (CertsRotateApp, "Replace the authority, in two steps."),
        "revoke": (CertsRevokeApp, "Declare the certificates of a node void."),
        "audit": (CertsAuditApp, "Show what happened to tokens and certificates."),
    }
