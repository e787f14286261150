"""Words: whatever is written, its words are found again by whoever writes them some other usual way."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.analysis import Analyser
from remit.pipeline.errors import ConfigError
from remit.pipeline.storage.entry import ALIAS
from remit.stages.terms import Terms

ENGLISH = Analyser("english")
PLAIN = Analyser("none")
ANYTHING = st.text(st.characters())  # lone surrogates, NULs and unassigned code points included


def asked(query: str, analyser: Analyser = ENGLISH, *, alias_longest: int = 6, most_words: int = 256) -> Terms:
    return analyser.asked(query, alias_longest=alias_longest, most_words=most_words, part_weight=0.5)


def finds(query: str, row: str, analyser: Analyser = ENGLISH) -> bool:
    words, _ = analyser.indexed(row)
    return any(word.text in words for word in asked(query, analyser).words if not word.stop)


def weights(query: str) -> dict[str, float]:
    return {word.text: word.weight for word in asked(query).words}


@pytest.mark.parametrize(
    "query", ["DEC-0054", '"DEC-0054"', "dec 0054", "0054", "getUserById", "apply_secrets", "user by id", "GETUSERBYID"]
)
def test_an_identifier_is_found_whole_and_by_its_parts(query: str) -> None:
    assert finds(query, "DEC-0054 approved getUserById for apply_secrets")


@pytest.mark.parametrize(
    "row, query",
    [
        ("today's note: POL-358 is in force", "POL-358"),
        ("see grammar::fa there", "grammar::fa"),
        ("see grammar::fa there", "fa"),
        ("clause 38.101 of it", "38.101"),
        ("upgraded to v1.2.3.", "v1.2.3"),
        ("write to a.b@c.org, please", "a.b@c.org"),
        ("write to ada@mail.example.org", "mail.example.org"),
        ("run with --error-on-warnings set", '"--error-on-warnings"'),
        ("run with --error-on-warnings set", "warnings"),
        ("https://example.org/docs/getting-started?page=2#top", "getting started"),
        (r"C:\Users\ada\notes.txt", "notes.txt"),
        ("an e-mail came", "email"),
        ("an email came", "e-mail"),
        ("a well-known problem", "known problems"),
        ("O'Brien signed", "obrien"),
        ("O’Brien signed", "O'Brien"),
        ("l'homme est là", "homme"),
        ("Caroline's desk", "caroline"),
        ("CAROLINE’S desk", "Caroline"),
        ("HTTPServer2 is down", "http server"),
        ("written for python3", "python"),
        ("two PDFs", "pdfs"),
        ("def __init__(self)", "init"),
        ("run lint AND commit", "AND"),
        ("he said it", "IT"),
        ("party 🎉", "🎉"),
        ("İstanbul", "istanbul"),
        ("STRASSE", "straße"),
        ("ΣΑΣ", "σας"),
        ("ﬁle", "file"),
        ("１２３", "123"),
        ("soft\u00adware", "software"),
        ("a\u202eb\ufeffc", "abc"),
        ("impôt", "impo\u0302t"),
        ("impo\u0302t", "impôt"),
        ("NUL\x00separates", "separates"),
        ("ok \ud83d", "ok"),
        ("x" * 3000, "x" * 3000),
    ],
)
def test_a_row_is_found_by_a_query(row: str, query: str) -> None:
    assert finds(query, row)


@pytest.mark.parametrize(
    "row, query",
    [
        ("今月の売上レポート", "売上"),
        ("今月の売上レポート", "レポート"),
        ("今月の売上レポート", "月"),
        ("번역을 부탁해", "번역"),
        ("ｶﾀｶﾅ", "カタカナ"),
        ("ภาษาไทยง่ายมาก", "ภาษา"),
        ("version2日本語版", "日本語"),
    ],
)
def test_scripts_without_spaces_are_found_by_a_part_of_a_run(row: str, query: str) -> None:
    assert finds(query, row)
    assert finds(query, row, PLAIN)


def test_a_run_is_asked_for_by_its_pairs_and_a_single_character_by_itself() -> None:
    assert [word.text for word in asked("売上高").words] == ["売上", "上高"]
    assert [word.text for word in asked("売").words] == ["売"]


def test_a_run_counts_its_pairs() -> None:
    words, length = ENGLISH.indexed("売上高 木")

    assert words == {"売上": 1, "売": 1, "上": 1, "上高": 1, "高": 1, "木": 1}
    assert length == 3


def test_languages_with_a_plus_or_a_sharp_are_not_c() -> None:
    assert "c++" in ENGLISH.indexed("C++.")[0]
    assert "c#" in ENGLISH.indexed("(C#)")[0]
    assert ENGLISH.plain("C, C++ and C#") == ["c", "c++", "and", "c#"]
    assert weights("C++") == {"c++": 1.0, "c": 0.5}


def test_parts_share_their_weight_and_a_word_that_stands_alone_as_well_is_whole() -> None:
    assert weights("getUserById user") == {"getuserbyid": 1.0, "get": 0.125, "user": 1.0, "by": 0.125, "id": 0.125}


def test_the_length_counts_whole_words() -> None:
    words, length = ENGLISH.indexed("getUserById, getUserById and e-mail")

    assert length == 4
    assert (words["getuserbyid"], words["user"], words["e-mail"], words["mail"]) == (2, 2, 1, 1)


def test_words_are_stemmed_and_identifiers_are_not() -> None:
    words, _ = ENGLISH.indexed("secrets apply_secrets secrets2 users' crashes")

    assert {"secret", "apply_secrets", "secrets2", "user", "crash"} <= words.keys()
    assert PLAIN.indexed("secrets")[0] == {"secrets": 1}
    assert Analyser("german").indexed("Häuser")[0] == {"haus": 1}


def test_a_phrase_is_the_plain_words_in_order() -> None:
    assert ENGLISH.plain("The “Boundary  Layers” of Ada’s\nBig-Apple v1.2") == [
        "the", "boundary", "layers", "of", "ada", "big-apple", "v1.2",
    ]  # fmt: skip


def test_rows_with_either_word_are_found_by_both_words() -> None:
    assert finds("science ACB", "science fair")
    assert finds("science ACB", "ACB report")


def test_a_cue_word_marks_nothing_else() -> None:
    bare, asked_for = asked("crash workers"), asked("please tell me: do you remember anything about the crash of workers?")

    assert [word.text for word in asked_for.words if not word.stop] == [word.text for word in bare.words]


@pytest.mark.parametrize("query", ["AND", "NOT", "or", "i", "the", "IT", "who", "to be or not to be", "the of and", "what's going on?"])
def test_a_query_is_never_only_stop_words(query: str) -> None:
    assert any(not word.stop for word in asked(query).words)


def test_other_languages_have_no_stop_words() -> None:
    assert not any(word.stop for word in asked("the cat", PLAIN).words)


@pytest.mark.parametrize(
    "query",
    [
        "",
        " ",
        "!!!",
        '"',
        "*",
        "a:*",
        "(((",
        "foo & | ! <->",
        "NEAR(a b)",
        "^x",
        "x'); DROP TABLE y; --",
        "-bar",
        "col:358",
        "\x00",
        "\ud800",
    ],
)
def test_syntax_of_any_engine_is_words_or_nothing(query: str) -> None:
    assert all(word.text and not set(word.text) & set("*()<>^;\"'&|!") for word in asked(query).words)


def test_aliases_are_every_run_of_words() -> None:
    assert asked("The Big Apple", alias_longest=2).aliases == ("=the", "=the big", "=big", "=big apple", "=apple")
    assert asked("Big Apple", alias_longest=0).aliases == ()


def test_a_character_of_a_script_without_spaces_is_half_a_word_of_a_name() -> None:
    assert ENGLISH.alias("東京タワー") in asked("東京タワーの高さ", alias_longest=3).aliases


def test_an_alias_is_unstemmed_words_or_nothing() -> None:
    assert ENGLISH.alias("  Big\tAPPLES ") == "=big apples"
    assert ENGLISH.alias("--") is None


def test_more_words_than_are_looked_up_are_cut_and_said_so() -> None:
    some = asked("one two three four", most_words=3)

    assert [word.plain for word in some.words] == ["one", "two", "three"]
    assert some.cut
    assert not asked("one two three three", most_words=3).cut


def test_content_leaves_stop_words_out_unless_nothing_else_is_there() -> None:
    assert ENGLISH.content("the crash of the workers") == {"crash", "worker"}
    assert ENGLISH.content("to be or not") == {"to", "be", "or", "not"}


def test_a_long_word_is_shortened_and_still_told_apart() -> None:
    one, other = ENGLISH.plain("x" * 3000 + "a"), ENGLISH.plain("x" * 3000 + "b")

    assert one != other
    assert len(one[0]) == len(other[0]) == 64
    assert one == PLAIN.plain("X" * 3000 + "A")


@pytest.mark.parametrize(
    "storm", ["e" + "\u0301" * 10_000, "e" + "\u0301\u0323" * 200_000, "👩\u200d" * 5_000, "ก" + "\u0e31" * 10_000, "a/" * 50_000]
)
def test_a_storm_is_taken_in(storm: str) -> None:
    words, length = ENGLISH.indexed(storm)

    assert length > 0
    assert all(len(word) <= 64 for word in words)


def test_a_text_of_many_blocks_has_the_words_of_its_parts() -> None:
    part = "Größe getUserById 売上 " * 5_000
    once, length = ENGLISH.indexed(part)

    assert ENGLISH.indexed(part * 4) == ({word: 4 * count for word, count in once.items()}, 4 * length)


def test_a_text_of_many_distinct_words_keeps_them_all() -> None:
    words, length = ENGLISH.indexed(" ".join(f"w{number}" for number in range(100_000)))

    assert length == len(words) == 100_000


@given(ANYTHING)
def test_any_text_has_words_that_every_store_can_hold(text: str) -> None:
    for analyser in (ENGLISH, PLAIN):
        words, length = analyser.indexed(text)
        plain = analyser.plain(text)
        for word in [*words, *plain]:
            assert word
            assert not word.startswith(ALIAS)
            assert not any(character.isspace() or character == "\0" for character in word)
            assert len(word.encode()) <= 256
        assert all(count > 0 for count in words.values())
        assert bool(length) == bool(words) == bool(plain)


@given(ANYTHING)
def test_any_text_finds_itself(text: str) -> None:
    terms = asked(text, most_words=10_000)

    assert {word.text for word in terms.words} <= ENGLISH.indexed(text)[0].keys()
    assert not terms.words or any(not word.stop for word in terms.words)
    assert list(terms.plain) == ENGLISH.plain(text)
    assert all(0 < word.weight <= 1 for word in terms.words)


@given(ANYTHING, ANYTHING)
def test_the_words_of_two_texts_are_the_words_of_both(one: str, other: str) -> None:
    assert ENGLISH.plain(f"{one}\n{other}") == ENGLISH.plain(one) + ENGLISH.plain(other)


@given(st.text())
def test_composed_and_decomposed_text_have_the_same_words(text: str) -> None:
    assert ENGLISH.indexed(unicodedata.normalize("NFD", text)) == ENGLISH.indexed(unicodedata.normalize("NFC", text))


def test_the_signature_names_what_decides_the_words() -> None:
    assert ENGLISH.signature == Analyser("english").signature
    assert len({ENGLISH.signature, PLAIN.signature, Analyser("german").signature}) == 3
    assert "english" in ENGLISH.signature
    assert "unicode-" in ENGLISH.signature


@pytest.mark.parametrize("language", ["klingon", "", "en", "english; DROP TABLE memory"])
def test_an_unknown_language_is_refused_by_name(language: str) -> None:
    with pytest.raises(ConfigError, match=r"analysis\.language: .*none, .*english.*swedish"):
        Analyser(language)
