"""A page as a parser of HTML sees it: its elements, each closed where it belongs, and the places where numbers of the result stand."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

EMPTY = {"meta", "link", "img", "br", "hr", "input"}


@dataclass(slots=True)
class Element:
    tag: str
    attributes: dict[str, str]
    inside: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str) -> list[Element]:
        return [each for child in self.inside for each in ([child] if child.tag == tag else []) + child.all(tag)]

    @property
    def whole_text(self) -> str:
        return self.text + "".join(child.whole_text for child in self.inside)


class Page(HTMLParser):
    """Raises `AssertionError` for an element that is closed where another is open, or never."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]
        self.ids: Counter[str] = Counter()
        self.feed(text)
        self.close()
        assert [each.tag for each in self._open] == [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        assert len(element.attributes) == len(attrs)
        self.ids.update([element.attributes["id"]] if "id" in element.attributes else [])
        self._open[-1].inside.append(element)
        if tag not in EMPTY:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self._open[-1].text += data

    @property
    def numbers(self) -> dict[str, float]:
        """Where in the result → the number that the page has of it."""
        return {each.attributes["id"]: float(each.attributes["value"]) for each in self.root.all("data")}
