"""Kernel tokens: who can make them, what they say, and what forged ones are worth."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpupool.protocol.tokens import (
    KERNEL_PREFIX,
    KernelClaim,
    mint_kernel_token,
    read_claim,
    same_token,
    verify_kernel_token,
)

ANN = KernelClaim(owner="ann", kernel_id="6f1d", generation=3)


def forged(claim: object, mac: str) -> str:
    """Return a token of the right form that nobody signed."""
    body = base64.urlsafe_b64encode(json.dumps(claim).encode()).decode().rstrip("=")
    return f"{KERNEL_PREFIX}{body}.{mac}"


@given(
    owner=st.text(max_size=30),
    kernel_id=st.text(max_size=40),
    generation=st.integers(0, 2**53),
    secret=st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
)
def test_a_minted_token_reads_back_and_verifies(
    owner: str, kernel_id: str, generation: int, secret: str
) -> None:
    claim = KernelClaim(owner=owner, kernel_id=kernel_id, generation=generation)
    token = mint_kernel_token(secret, claim)
    assert read_claim(token) == claim
    assert verify_kernel_token(secret, token)


def test_another_owners_secret_does_not_verify_it() -> None:
    token = mint_kernel_token("secret of ann", ANN)
    assert not verify_kernel_token("secret of bob", token)


def test_a_changed_claim_does_not_verify() -> None:
    mac = mint_kernel_token("secret", ANN).rpartition(".")[2]
    token = forged(["bob", "6f1d", 3], mac)
    assert read_claim(token) == KernelClaim(owner="bob", kernel_id="6f1d", generation=3)
    assert not verify_kernel_token("secret", token)


def test_the_owners_token_cannot_be_seen_in_it() -> None:
    token = mint_kernel_token("a-long-owner-token", ANN)
    payload = token.split(".")[1]
    assert b"a-long-owner-token" not in base64.urlsafe_b64decode(payload + "==")
    assert "a-long-owner-token" not in token


def test_the_owners_token_itself_is_no_signature() -> None:
    assert not verify_kernel_token("secret", forged(["ann", "6f1d", 3], "secret"))


@pytest.mark.parametrize(
    "token",
    [
        "",
        "gpk.",
        "gpk..",
        "gpk.a.b.c",
        "an owner's token",
        "gpk.%%%.mac",
        forged({"owner": "ann"}, "mac"),
        forged(["ann", "6f1d"], "mac"),
        forged(["ann", "6f1d", "3"], "mac"),
        forged(["ann", "6f1d", True], "mac"),
        forged([None, "6f1d", 3], "mac"),
        forged(7, "mac"),
        forged(None, "mac"),
    ],
)
def test_what_is_not_of_the_form_claims_nothing(token: str) -> None:
    assert read_claim(token) is None


@given(st.text(max_size=200))
def test_any_text_is_answered_without_an_error(token: str) -> None:
    read_claim(token)
    verify_kernel_token("secret", token)
    read_claim(KERNEL_PREFIX + token)
    verify_kernel_token("secret", KERNEL_PREFIX + token)


def test_tokens_are_compared_as_bytes() -> None:
    assert same_token("ünï", "ünï")
    assert not same_token("token", "Token")
