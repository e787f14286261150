"""Chunks: nothing of a document is lost, nothing is too long where it can be helped, and cuts are where its author paused."""

from __future__ import annotations

import apsw.unicode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.chunking import Chunk, chunks, front_matter, stated_in
from remit.pipeline.counting import counter_named

TOKENS = counter_named("o200k").tokens_in


def words(text: str) -> int:
    return len(text.split())


def cut(text: str, most: int = 12, overlap: int = 0) -> list[str]:
    return [chunk.text for chunk in chunks(text, most_tokens=most, count=words, overlap=overlap)]


def whole(text: str, made: list[Chunk]) -> None:
    """Every chunk is the bytes it says it is, they do not overlap, and what is between them is white space."""
    data = text.encode("utf-8", "surrogatepass")
    place = 0
    for chunk in made:
        assert data[chunk.start : chunk.end] == chunk.text.encode("utf-8", "surrogatepass")
        assert chunk.text.strip()
        assert place <= chunk.start < chunk.end
        assert not data[place : chunk.start].decode("utf-8", "surrogatepass").strip()
        place = chunk.end
    assert not data[place:].decode("utf-8", "surrogatepass").strip()


PIECES = st.sampled_from(
    [
        "# One",
        "## Two ##",
        "Title\n===",
        "Sub\n---",
        "---",
        "",
        "  ",
        "```py",
        "```",
        "~~~",
        "| a | b |",
        "|---|---|",
        "- item",
        "  1. item",
        "word",
        "A sentence. And another one! ",
        "売上高は上がる。そう思う。",
        "b64/" * 30,
        "x" * 200,
        "e\u0301\u0323",
        "👩\u200d👧🇩🇪",
        "\r\n",
        "\u2028",
        "\t",
        "a\u00a0b",
    ]
)


@given(st.lists(PIECES | st.text(st.characters()), max_size=30).map("\n".join), st.sampled_from([16, 40, 320]))
def test_nothing_is_lost_and_nothing_is_twice(text: str, most: int) -> None:
    whole(text, chunks(text, most_tokens=most, count=TOKENS))


@given(st.lists(PIECES, max_size=30).map("\n".join), st.sampled_from([16, 40]))
def test_no_chunk_is_longer_than_allowed(text: str, most: int) -> None:
    assert all(TOKENS(chunk.text) <= most for chunk in chunks(text, most_tokens=most, count=TOKENS))


@given(st.lists(st.sampled_from(["🇩🇪", "👩\u200d👧", "e\u0301", "ก\u0e31", "각", "\u1100", "\u1161", "a", "x "])).map("".join))
def test_no_cut_is_inside_a_character_as_a_reader_sees_it(text: str) -> None:
    borders, place = {0}, 0
    while place < len(text):
        place = apsw.unicode.grapheme_next_break(text, place)
        borders.add(len(text[:place].encode()))

    for chunk in chunks(text, most_tokens=16, count=lambda some: len(some.encode())):
        assert {chunk.start, chunk.end} <= borders


@pytest.mark.parametrize("text", ["", " ", "\n\n\t\n", "\u2028"])
def test_an_empty_document_has_no_chunks(text: str) -> None:
    assert chunks(text, most_tokens=16, count=TOKENS) == []


def test_a_document_that_fits_is_one_chunk_without_the_space_around_it() -> None:
    assert chunks("\n\n  größer als\n\n eins \n", most_tokens=320, count=TOKENS) == [Chunk(2, 23, "  größer als\n\n eins")]


def test_headings_begin_chunks_and_are_known_below_them() -> None:
    text = "before\n\n# Guide\n\n## Install\nrun it\n\n## Use ##\nask it\n\nand read\n# Notes\nend"

    assert [(chunk.text, chunk.heading) for chunk in chunks(text, most_tokens=50, count=words)] == [
        ("before", ()),
        ("# Guide\n\n## Install\nrun it", ("Guide", "Install")),
        ("## Use ##\nask it\n\nand read", ("Guide", "Use")),
        ("# Notes\nend", ("Notes",)),
    ]


def test_underlined_headings_are_headings_and_rules_are_not() -> None:
    text = "Guide\n=====\nhello\n\nInstall\n---\nrun\n\n- item\n---\nmore\n\n---\n\nlast"

    assert [chunk.heading for chunk in chunks(text, most_tokens=50, count=words)] == [("Guide",), ("Guide", "Install")]


def test_a_heading_in_a_fence_is_code() -> None:
    text = "# Guide\n```sh\n# not a heading\n\nrun\n```\nafter"

    assert [chunk.heading for chunk in chunks(text, most_tokens=50, count=words)] == [("Guide",)]


def test_a_fence_and_a_table_stay_whole_where_they_fit() -> None:
    code = "```py\none two three\n\nfour five six\n```"
    table = "| a b | c |\n|---|---|\n| d e | f |"

    assert cut(f"some words before it\n\n{code}\n{table}\nsome words behind", most=16) == [
        "some words before it\n\n" + code,
        table + "\nsome words behind",
    ]


def test_a_long_fence_is_cut_at_its_lines_and_keeps_its_indentation() -> None:
    code = "```py\n" + "".join(f"    call({number}, of, a, name)\n" for number in range(4)) + "```"
    made = cut(code, most=9)

    assert len(made) == 2
    assert made[1].startswith("    call(2")


def test_paragraphs_and_items_are_cut_between() -> None:
    assert cut("one two three four\nfive six\n\nseven eight nine ten\n\neleven", most=10) == [
        "one two three four\nfive six\n\nseven eight nine ten",
        "eleven",
    ]
    assert cut("- one two three\n- four five six\n- seven eight", most=8) == ["- one two three\n- four five six", "- seven eight"]


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    assert cut("One two three. Four five six. Seven eight nine ten.", most=6) == ["One two three. Four five six.", "Seven eight nine ten."]


def test_a_long_sentence_is_cut_between_words() -> None:
    assert cut("one two three four five six seven", most=3) == ["one two three", "four five six", "seven"]


def test_text_without_spaces_is_cut_between_characters() -> None:
    made = chunks("売上高" * 200, most_tokens=16, count=TOKENS)

    assert "".join(chunk.text for chunk in made) == "売上高" * 200
    assert len(made) > 5


MATTER = "---\ntitle: Der Fährplan\ntags:\n  - quay\n- harbour\n# by hand\ndraft: false\n---\n"


def test_front_matter_is_no_text_and_offsets_are_those_of_the_whole_file() -> None:
    text = f"{MATTER}\n# Noon\nThe ferry leaves.\n"

    (chunk,) = chunks(text, most_tokens=320, count=TOKENS)

    assert (chunk.text, chunk.heading) == ("# Noon\nThe ferry leaves.", ("Noon",))
    assert text.encode()[chunk.start : chunk.end].decode() == chunk.text
    assert stated_in(text).split() == ["-", "quay", "-", "harbour", "#", "by", "hand", "false"]


@pytest.mark.parametrize(
    "text",
    [
        MATTER,
        f"{MATTER}\n \n",
        "---\nTwo rules around a sentence.\n---\nMore.",
        "---\n\n---\nMore.",
        "---\ntitle: never closed\n\nMore.",
        "--- \ntitle",
        "----\ntitle: x\n---\nMore.",
        " ---\ntitle: x\n---\nMore.",
    ],
)
def test_what_only_looks_like_front_matter_is_text(text: str) -> None:
    assert front_matter(text) == 0
    assert stated_in(text) == ""
    assert chunks(text, most_tokens=320, count=TOKENS)[0].start <= 1


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_front_matter_ends_where_its_line_ends(end: str) -> None:
    text = end.join(["---", "title: x", "...", "More."])

    assert text[front_matter(text) :] == "More."


def test_an_overlap_repeats_whole_pieces_of_the_same_section() -> None:
    text = "one two three.\n\nfour five six.\n\nseven eight nine.\n\n# New\n\nten"

    assert cut(text, most=6, overlap=3) == ["one two three.\n\nfour five six.", "four five six.\n\nseven eight nine.", "# New\n\nten"]


@pytest.mark.parametrize(
    "monster", ["a", "-", "aB9/", "売", " x", "# a\n", "x\n", "🇩🇪", "e\u0301", "\u0301", "```\n", "|", "- a\n", "\r\n.", "ก\u0e31"]
)
def test_a_monster_is_cut_in_a_bounded_number_of_counts(monster: str) -> None:
    text = monster * (100_000 // len(monster))
    counted = 0

    def count(some: str) -> int:
        nonlocal counted
        counted += len(some)
        return len(some)

    made = chunks(text, most_tokens=320, count=count)

    whole(text, made)
    assert all(len(chunk.text) <= 320 for chunk in made)
    assert counted < 12 * len(text)
