"""Whether a kernel on a node can be encrypted, by its kernelspec and by this server's jupyter_client."""

from __future__ import annotations

from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from traitlets import Any as AnyTrait
from traitlets import HasTraits

from jupyter_gpupool.server.node_encryption import curve_keys, why_plain


class EarlierManager(HasTraits):
    """As a manager was before jupyter_client knew of CurveZMQ."""

    kernel_spec = AnyTrait()


def spec(**metadata: Any) -> KernelSpec:
    return KernelSpec(argv=["python"], metadata=metadata)


def manager(**metadata: Any) -> KernelManager:
    made = KernelManager()
    made._kernel_spec = spec(**metadata)
    return made


@pytest.mark.parametrize("said", ["curve", ["curve"], [" Curve ", "other"]])
def test_a_kernelspec_that_says_so_has_keys_which_stay(said: object) -> None:
    kernel = manager(supported_encryption=said)
    keys = curve_keys(kernel)
    assert {len(key) for key in keys.values()} == {40}
    assert curve_keys(kernel) == keys
    assert why_plain(kernel) == ""


@pytest.mark.parametrize("metadata", [{}, {"supported_encryption": None}, {"supported_encryption": ["tls"]}])
def test_one_that_does_not_has_none_and_the_reason_is_said(metadata: dict[str, Any]) -> None:
    assert curve_keys(manager(**metadata)) == {}
    assert "supported_encryption" in why_plain(manager(**metadata))


def test_an_earlier_jupyter_client_has_none_and_is_named() -> None:
    earlier = EarlierManager(kernel_spec=spec(supported_encryption=["curve"]))
    assert curve_keys(earlier) == {}
    assert "jupyter_client" in why_plain(earlier)
