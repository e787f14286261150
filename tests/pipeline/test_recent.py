"""Of what is kept for a while the longest unused goes first."""

import pytest

from remit.pipeline.recent import Recent


@pytest.mark.parametrize("most, kept", [(0, ""), (1, "c"), (2, "bc"), (3, "abc"), (4, "abc")])
def test_as_many_are_kept_as_have_room_and_the_last_ones(most: int, kept: str) -> None:
    recent = Recent[str, str](most)
    for name in "abc":
        recent.keep(name, name.upper())

    assert ("".join(name for name in "abc" if recent.get(name)), len(recent)) == (kept, len(kept))


def test_what_was_looked_up_or_kept_again_is_not_the_longest_unused() -> None:
    recent = Recent[str, int](2)
    recent.keep("a", 1)
    recent.keep("b", 2)
    assert recent.get("a") == 1
    recent.keep("c", 3)
    recent.keep("a", 4)
    recent.keep("d", 5)

    assert [recent.get(name) for name in "abcd"] == [4, None, None, 5]


def test_what_is_dropped_is_gone_and_the_rest_stays() -> None:
    recent = Recent[str, int](4)
    for place, name in enumerate("abcd"):
        recent.keep(name, place)

    recent.drop("a")
    recent.drop("nothing")
    recent.drop_all(lambda name: name > "b")

    assert [recent.get(name) for name in "abcd"] == [None, 1, None, None]
