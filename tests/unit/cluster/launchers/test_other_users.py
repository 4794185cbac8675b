"""Starting processes as the accounts of owners: with real accounts, as root."""

from __future__ import annotations

import ast
import asyncio
import os
import pwd
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from jupyter_gpupool.cluster.launchers import enter, spawn
from jupyter_gpupool.cluster.launchers.accounts import Accounts, runtime_directory
from jupyter_gpupool.cluster.launchers.base import Exit, Launched, LaunchSpec
from jupyter_gpupool.cluster.launchers.errors import AccountRefused, DirectoryRefused, LauncherUnusable
from jupyter_gpupool.cluster.launchers.other_users import SetuidLauncher, SudoLauncher, SystemdRunLauncher
from jupyter_gpupool.protocol.paths import UnsafeDirectory, public_directory
from tests.support.accounts import SUDO, SYSTEMD_RUN, account, program, see_that_it_can_run, unique
from tests.support.waiting import until

pytestmark = [
    pytest.mark.skipif("os.geteuid() != 0", reason="needs root to make accounts and to become them"),
    pytest.mark.skipif(not shutil.which("useradd"), reason="needs useradd"),
    pytest.mark.xdist_group("accounts"),
]


@pytest.fixture(scope="module")
def ann() -> Iterator[pwd.struct_passwd]:
    with account(unique("a"), "-s", "/bin/sh", "-d", "/nonexistent", "-G", "games") as made:
        yield made


@pytest.fixture(scope="module")
def barred() -> Iterator[pwd.struct_passwd]:
    with account(unique("n"), "-s", "/usr/sbin/nologin") as made:
        yield made


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a directory that everybody may enter, with the little program that becomes the process."""
    directory = Path(tempfile.mkdtemp(prefix="jgp-test-"))
    directory.chmod(0o755)
    shutil.copy(enter.__file__, directory / "enter.py")
    python = os.path.realpath(sys.executable)
    monkeypatch.setattr(spawn, "ENTER", (python, "-I", "-S", "-B", str(directory / "enter.py")))
    yield directory
    shutil.rmtree(directory)


def setuid(directory: Path, mapping: Mapping[str, str] | None = None) -> SetuidLauncher:
    return SetuidLauncher(directory / "launched", accounts=Accounts(mapping or {}, node="n2"), node="n2")


def shell(owner: str, script: str, **fields: object) -> LaunchSpec:
    return LaunchSpec(owner=owner, argv=("/bin/sh", "-c", script), **fields)  # type: ignore[arg-type]


async def ended(started: Launched) -> Exit:
    try:
        async with asyncio.timeout(30):
            return await started.wait()
    finally:
        started.close()


@pytest.mark.asyncio
async def test_a_process_is_its_owners_account_with_all_groups_and_nothing_of_root(
    tmp_path: Path, ann: pwd.struct_passwd
) -> None:
    script = "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm)' /proc/self/status | tr '\\n\\t' ';,'"
    words = (await ended(await setuid(tmp_path).launch(shell(ann.pw_name, script)))).last_words

    uid, gid = [str(ann.pw_uid)] * 4, [str(ann.pw_gid)] * 4
    found = dict(line.split(":,") for line in words.strip(";").split(";"))
    assert (found["Uid"].split(","), found["Gid"].split(",")) == (uid, gid)
    assert set(found["Groups"].split()) == {str(group) for group in os.getgrouplist(ann.pw_name, ann.pw_gid)}
    assert len(found["Groups"].split()) == 2
    assert {int(found["CapEff"], 16), int(found["CapPrm"], 16)} == {0}


@pytest.mark.asyncio
async def test_the_variables_say_who_it_is_and_one_without_a_home_starts_in_the_root_directory(
    tmp_path: Path, ann: pwd.struct_passwd
) -> None:
    wanted = {"LD_PRELOAD": "/tmp/evil.so", "LANG": "C.UTF-8", "USER": "root", "JUPYTER_X": "1"}
    code = "import os; print(sorted(os.environ.items()), os.getcwd())"
    spec = LaunchSpec(owner=ann.pw_name, argv=("/usr/bin/python3", "-I", "-c", code), env=wanted)
    words = (await ended(await setuid(tmp_path).launch(spec))).last_words

    told, _, directory = words.rpartition(" ")
    environment = dict(ast.literal_eval(told))
    environment.pop("LC_CTYPE", None)
    assert directory == "/"
    assert environment == {
        "HOME": "/nonexistent",
        "JUPYTER_X": "1",
        "LANG": "C.UTF-8",
        "LOGNAME": ann.pw_name,
        "PATH": spawn.DEFAULT_PATH,
        "SHELL": "/bin/sh",
        "USER": ann.pw_name,
    }


@pytest.mark.asyncio
async def test_a_library_to_preload_never_reaches_the_process_that_is_still_root(
    tmp_path: Path, ann: pwd.struct_passwd
) -> None:
    launcher = SetuidLauncher(
        tmp_path / "launched", accounts=Accounts({}, node="n2"), node="n2", patterns=("LD_*", "PATH")
    )
    spec = shell(
        ann.pw_name, "echo $LD_PRELOAD", env={"LD_PRELOAD": "/tmp/not-there.so", "PATH": "/tmp/evil"}
    )

    how = await ended(await launcher.launch(spec))

    # the administrator let it through, so that it is the account's own; the loader complains once for each
    # process that got it: the shell, which is the account, and not what started it
    assert how.status == 0
    assert how.last_words == "/tmp/not-there.so"


@pytest.mark.asyncio
async def test_an_owner_named_root_is_refused_and_told_why(tmp_path: Path) -> None:
    with pytest.raises(
        AccountRefused, match=r"for root: root \(uid 0\) is an account of the system"
    ) as refused:
        await setuid(tmp_path).launch(shell("root", "id"))

    assert "administrator" in refused.value.hint
    assert list((tmp_path / "launched").iterdir()) == []


@pytest.mark.parametrize(
    ("owner", "mapping", "why"),
    [
        ("root", {"root": "root"}, "account of the system"),
        ("eve", {"eve": "root"}, "account of the system"),
        ("eve", {"*": "daemon"}, "account of the system"),
        ("nobody", {}, "account of the system"),
        ("#1000", {}, "there is no account"),
        ("1000", {}, "there is no account"),
        ("-u root", {}, "there is no account"),
        ("eve\0", {}, "there is no account"),
        ("eve", {"*": ""}, "admits no processes of theirs"),
        ("no-such-person", {}, "there is no account no-such-person"),
    ],
)
def test_owners_who_have_no_account_of_a_person_are_refused(
    owner: str, mapping: dict[str, str], why: str
) -> None:
    with pytest.raises(AccountRefused, match=why):
        Accounts(mapping, node="n2").find(owner)


def test_an_account_that_nobody_logs_in_to_needs_the_administrators_word(barred: pwd.struct_passwd) -> None:
    with pytest.raises(AccountRefused, match="not an account to log in to"):
        Accounts({}, node="n2").find(barred.pw_name)

    assert Accounts({"eve": barred.pw_name}, node="n2").find("eve").uid == barred.pw_uid


def test_the_mapping_counts_before_the_name(ann: pwd.struct_passwd) -> None:
    accounts = Accounts({"ann@example.org": ann.pw_name, "*": ""}, node="n2")

    assert accounts.find("ann@example.org").name == ann.pw_name
    with pytest.raises(AccountRefused):
        accounts.find(ann.pw_name)


@pytest.mark.asyncio
async def test_a_directory_that_the_account_may_not_enter_is_refused_as_it_is_for_the_account(
    tmp_path: Path, ann: pwd.struct_passwd
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(DirectoryRefused, match=r"closed cannot be entered \(Permission denied\)"):
        await setuid(tmp_path).launch(shell(ann.pw_name, "pwd", cwd=str(closed)))


def test_a_runtime_directory_that_is_a_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "launched").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UnsafeDirectory, match="not a plain directory"):
        setuid(tmp_path)


def test_a_runtime_directory_of_an_account_counts_only_if_it_is_plainly_its_own(
    tmp_path: Path, ann: pwd.struct_passwd
) -> None:
    uid, own = ann.pw_uid, tmp_path / str(ann.pw_uid)
    assert runtime_directory(uid, tmp_path) == ""
    (tmp_path / "target").mkdir(mode=0o700)
    os.chown(tmp_path / "target", uid, -1)
    own.symlink_to(tmp_path / "target")
    assert runtime_directory(uid, tmp_path) == ""
    own.unlink()
    own.mkdir(mode=0o700)
    assert runtime_directory(uid, tmp_path) == ""  # it is root's
    os.chown(own, uid, -1)
    assert runtime_directory(uid, tmp_path) == str(own)
    own.chmod(0o770)
    assert runtime_directory(uid, tmp_path) == ""


def test_a_directory_for_the_socket_is_one_that_nobody_else_can_change(tmp_path: Path) -> None:
    made = public_directory(tmp_path / "public")
    assert made.stat().st_mode & 0o777 == 0o755
    made.chmod(0o777)
    with pytest.raises(UnsafeDirectory, match="only this user can change"):
        public_directory(made)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(UnsafeDirectory):
        public_directory(tmp_path / "link")


@pytest.mark.asyncio
async def test_by_sudo_a_process_runs_as_its_account_and_is_signalled_through_it(
    tmp_path: Path, public: Path, ann: pwd.struct_passwd
) -> None:
    see_that_it_can_run(ann.pw_uid, ann.pw_gid)
    program(public, "sudo", SUDO)
    launcher = SudoLauncher(
        tmp_path / "launched", accounts=Accounts({}, node="n2"), node="n2", programs=str(public)
    )
    launcher.check()
    started = await launcher.launch(
        shell(ann.pw_name, "echo $(id -un) $(cat); exec sleep 300", stdin=b"secret")
    )
    await until(lambda: started.last_words() == f"{ann.pw_name} secret", what="the process runs")
    assert os.stat(f"/proc/{started.pid}").st_uid == ann.pw_uid  # noqa: PTH116
    assert os.getsid(started.pid) == started.pid

    how = await started.end()
    started.close()

    assert how.signal == signal.SIGTERM or how.status == 128 + signal.SIGTERM


@pytest.mark.asyncio
async def test_a_sudo_that_wants_a_password_is_told_with_its_words(
    tmp_path: Path, public: Path, ann: pwd.struct_passwd
) -> None:
    program(public, "sudo", "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    launcher = SudoLauncher(
        tmp_path / "launched", accounts=Accounts({}, node="n2"), node="n2", programs=str(public)
    )

    with pytest.raises(Exception, match="No process was started on node n2: sudo: a password is required"):
        await launcher.launch(shell(ann.pw_name, "id"))


def test_without_sudo_the_launcher_says_so(tmp_path: Path) -> None:
    launcher = SudoLauncher(
        tmp_path / "launched", accounts=Accounts({}, node="n2"), node="n2", programs=str(tmp_path)
    )

    with pytest.raises(LauncherUnusable, match="there is no sudo on it"):
        launcher.check()


def test_without_systemd_the_launcher_says_so(tmp_path: Path) -> None:
    launcher = SystemdRunLauncher(
        tmp_path / "launched", accounts=Accounts({}, node="n2"), node="n2", programs=str(tmp_path)
    )

    with pytest.raises(LauncherUnusable, match="systemd does not run it"):
        launcher.check()


@pytest.mark.asyncio
async def test_systemd_is_told_the_account_and_nothing_that_an_owner_chose(
    tmp_path: Path, public: Path, ann: pwd.struct_passwd
) -> None:
    see_that_it_can_run(ann.pw_uid, ann.pw_gid)
    program(public, "systemd-run", SYSTEMD_RUN)
    launcher = SystemdRunLauncher(
        tmp_path / "launched",
        accounts=Accounts({}, node="n2"),
        node="n2",
        programs=str(public),
        systemd=tmp_path,
    )
    how = await ended(await launcher.launch(shell(ann.pw_name, "id -un; exit 7", env={"LANG": "C"})))

    assert how == Exit(status=7, signal=None, last_words=ann.pw_name)
    told = (public / "told").read_text().splitlines()
    unit = told.pop(5)
    assert unit.startswith(f"--unit=gpupool-{ann.pw_uid}-")
    fixed = ["--quiet", "--collect", "--wait", "--pipe", "--service-type=exec", f"--uid={ann.pw_name}", "--"]
    assert told == [*fixed, *spawn.ENTER]
