"""Tokens of machines, many of which never come for their config."""

from talos.provision.pxe.tokens import MAX_TOKENS, Tokens


def test_only_the_newest_tokens_are_kept() -> None:
    tokens = Tokens()
    issued = [tokens.issue(f"{number:012x}") for number in range(MAX_TOKENS + 1)]
    assert not tokens.take(f"{0:012x}", issued[0])
    assert tokens.take(f"{1:012x}", issued[1])
    assert tokens.issue(f"{0:012x}")
