"""Saying the same: what is found quickly is what the rule finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remit.stages.similar import WORD, Heard, Said, words_in

TEXTS = st.lists(st.sampled_from(["The", "queue", "restarts.", "not", "at", "9", "it's", "naïve", "\n", "!", "🎉"]), max_size=8).map(
    " ".join
)


@given(st.text(st.characters()) | st.text(st.characters(max_codepoint=127)))
def test_words_of_ascii_are_found_as_those_of_any_text(text: str) -> None:
    assert words_in(text) == WORD.findall(text)


@given(st.lists(TEXTS, max_size=6), TEXTS, st.sampled_from([0.0, 0.4, 0.5, 0.9, 1.0]))
def test_those_are_repeated_that_the_rule_says_are(texts: list[str], another: str, part: float) -> None:
    heard, those = Heard(part), [Said(text) for text in texts]
    for place, said in enumerate(those):
        heard.add(place, said)

    assert [*heard.repeated_by(Said(another))] == [place for place, said in enumerate(those) if Said(another).repeats(said, part)]
