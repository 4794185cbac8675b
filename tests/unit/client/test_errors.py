"""The service's refusals come back as the errors that a caller would catch."""

from __future__ import annotations

import pytest

from jupyter_gpupool.client.errors import NotAuthorised, PoolRefused, from_answer, from_doc
from jupyter_gpupool.core import errors as core
from jupyter_gpupool.protocol.codec import encode
from jupyter_gpupool.protocol.documents import ErrorDoc


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("never_fits", core.NeverFits),
        ("does_not_fit_now", core.DoesNotFitNow),
        ("already_holds", core.AlreadyHolds),
        ("journal_unavailable", core.GrantsPaused),
        ("unknown_lease", core.UnknownLease),
        ("unauthenticated", NotAuthorised),
        ("forbidden", NotAuthorised),
        ("agent_away", PoolRefused),
        ("a_code_of_a_later_version", PoolRefused),
    ],
)
def test_the_code_of_the_envelope_decides_the_class(code, kind):
    error = from_doc(ErrorDoc(code=code, message="No.", hint="Ask later."))
    assert type(error) is kind
    assert error.code == code
    assert str(error) == "No. Ask later."


def test_a_refusal_says_when_to_try_again():
    error = from_doc(ErrorDoc(code="agent_away", message="Away.", retry_after=2.5))
    assert isinstance(error, PoolRefused)
    assert error.retry_after == 2.5


def test_an_answer_that_is_no_envelope_names_its_status():
    error = from_answer(502, b"<html>Bad gateway</html>")
    assert isinstance(error, PoolRefused)
    assert error.code == "http_502"
    assert "502" in str(error)
    assert isinstance(
        from_answer(404, encode(ErrorDoc(code="unknown_lease", message="?"))), core.UnknownLease
    )
