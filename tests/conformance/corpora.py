"""Seeded corpora: from one number a whole small org, what stands beside it, how its memories live on, and what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any, TypeVar

from stories.populations import BROKEN, CHANGED, FRESH
from stories.world import NOW, Item

from remit.pipeline import Claim, ContextWanted, Doc, Fact, Origin, Principal, Request, Session, TagFilter

T = TypeVar("T")

PLAIN = ("deploy", "queue", "worker", "timeout", "deploys", "deplyo", "quene", "gateway", "renewal", "backup", "nightly", "restart")
STOPS = ("the", "of", "and", "to", "be", "or", "not", "why", "is", "alpha", "a")
IDENTIFIERS = ("POL-358", "getUserById", "apply_secrets", "v1.2.3", "nginx.conf", "C++", "https://example.org/a-b?c=d", "0054", "x_y-Z9")
SCRIPTS = ("売上レポート", "売上", "数据库的迁移", "번역을", "猫", "Σίσυφος", "ΣΑΣ", "σας", "straße", "ДОМ", "ไทยแลนด์", "שלום")
FORMS = ("imp\u00f4t", "impo\u0302t", "ﬁle", "file", "４２", "42", "İstanbul", "istanbul", "e\u0301té", "Å", "\u212b", "naïve")
MARKS = ("🦊", "👩🏽‍🚀", "…", "!?", "—", "(", '"', "*", "NEAR", "AND", "%", "\u200b", "\u202e", "'")
IDS = ("one", "two", "three", "Four", "five", "Ω", "a'b\"%_", "é", "e\u0301", "Z", "z", "🦊", "\uffff", "10", "9", "A-1", "a_1", "ß", "ss")
MINE = ("global", "global", "global", "project:alpha", "project:alpha", "person:ada", "conversation:7", "conversation:7")
CLOSED = ("project:alpha2", "project:alph", "project:beta", "project:Alpha", "person:bob", "conversation:42", "machine:laptop", "agent:r")
URIS = (None, None, None, None, FRESH, FRESH, CHANGED, BROKEN, "other:7")
AHEAD = ("mono", "later")


@dataclass(frozen=True)
class Change:
    """What happens to memories after they were taken in: a verb of the engine, and the names it is given."""

    verb: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """A question to the front door: a recall; with `about`, why it lost that memory; without a request, the start-up brief."""

    request: Request | None
    about: str = ""
    brief: tuple[int | None, str | None] = (None, None)


@dataclass(frozen=True)
class Corpus:
    """`layers` are the org's own memories, each naming only those of layers before it; `unseen` stand on shelves of the org that who
    asks does not reach, `foreign` in another org: neither may change anything."""

    seed: int
    org: str
    who: Principal
    layers: tuple[tuple[Item, ...], ...]
    unseen: tuple[Item, ...]
    foreign: tuple[Item, ...]
    changes: tuple[Change, ...]
    asked: tuple[Asked, ...]

    @property
    def regime(self) -> int:
        """Which configuration it is asked under."""
        return self.seed % len(REGIMES)


LEVEL: dict[str, Any] = {"chance": {"local": 0.0}}
REGIMES: tuple[dict[str, Any], ...] = (
    {},
    {"recall": {"selection": LEVEL}, "chunking": {"tokens": 16}},
    {
        "recall": {
            "selection": LEVEL,
            "fusion": {"rankOrigin": 1, "weights": {"local": 1.0}},
            "laneShare": {"fact": 0.5, "session": 1.0, "doc": 0.5},
            "tieBreakOrder": ["session", "fact", "doc"],
            "boosts": {"sessionRecency": 1.0, "docActive": 1.0},
        },
        "chunking": {"tokens": 24},
        "freshness": {"unverified": "mark"},
    },
    {
        "recall": {"selection": {**LEVEL, "semantic": 0.1}, "fusion": {"together": {"spaces": [""]}}},
        "chunking": {"tokens": 32},
    },
)
"""As shipped; with a vector lane that speaks up in so small a memory; with equal votes and levelled boosts; and with a semantic stream."""

SEMANTIC = 3
"""The regime of which the engine has an embedder of the host's beside the hash."""


def corpus(seed: int) -> Corpus:
    """The same seed gives the same corpus, in any process."""
    return _Making(seed).corpus()


class _Making:
    """A corpus in the making; every draw comes from one generator."""

    def __init__(self, seed: int) -> None:
        self._seed, self._random = seed, Random(seed)
        self._org = f"org{seed}"
        self._texts = [self._text(2, 9) for _ in range(self._random.randint(1, 4))]

    def corpus(self) -> Corpus:
        random = self._random
        everything = random.random() < 0.2
        own = self._items(random.randint(2, 9), MINE if not everything else MINE + CLOSED, IDS)
        first, later = self._layers(own)
        unseen = [] if everything else [self._closed(item) for item in self._items(random.randint(0, 4), MINE + CLOSED, AHEAD)]
        rival = self._one_of(f"{self._org}x", self._org.upper(), f"{self._org}\u00e9")
        foreign = [replace(item, org=rival) for item in self._items(random.randint(0, 4), MINE + CLOSED, IDS)]
        names = [f"{item.source}:{item.id}" for item in (*first, *later)]
        return Corpus(
            seed=self._seed,
            org=self._org,
            who=Principal(actor="ada", org=self._org, scopes="*" if everything else ("project:alpha", "person:ada", "conversation:7")),
            layers=(tuple(first), tuple(later)),
            unseen=tuple(unseen),
            foreign=tuple(foreign),
            changes=tuple(self._changes(names, own)),
            asked=tuple(self._asked(names, [f"{item.source}:{item.id}" for item in (*unseen, *foreign)])),
        )

    def _one_of(self, *choices: T) -> T:
        return self._random.choice(choices)

    def _now_and_then(self, part: float, value: Callable[[], T], otherwise: T) -> T:
        return value() if self._random.random() < part else otherwise

    def _text(self, least: int, most: int) -> str:
        random = self._random
        kinds = random.choices((PLAIN, STOPS, IDENTIFIERS, SCRIPTS, FORMS, MARKS), (9, 3, 2, 2, 2, 1), k=random.randint(least, most))
        return self._one_of(" ", " ", " ", ", ", "\n", "。").join(random.choice(kind) for kind in kinds)

    def _phrase(self) -> str:
        """Text that others hold as well, as a rule."""
        return self._now_and_then(0.3, lambda: self._text(1, 9), self._random.choice(self._texts))

    def _long(self) -> str:
        parts = [self._phrase() for _ in range(self._random.randint(1, 6))]
        return "\n\n".join(self._one_of(part, f"# {part}", f"## {part}\n\n{part} {part}.", f"- {part}\n- {part}") for part in parts)

    def _moment(self) -> datetime | str:
        days = self._one_of(0, 0, 0, -1, -30, -30, -400, 400, 2)
        offset = self._one_of(0, 0, 0, 1, -1, 999_999)
        moment = NOW + timedelta(days=days, microseconds=offset)
        zone = timezone(self._one_of(timedelta(), timedelta(hours=3, minutes=30), timedelta(hours=-11), timedelta(hours=14)))
        return self._one_of(moment, moment.astimezone(zone), moment.astimezone(zone).isoformat(), moment.replace(tzinfo=None).isoformat())

    def _border(self) -> datetime | None:
        near = (NOW, NOW + timedelta(microseconds=1), NOW - timedelta(days=1), NOW + timedelta(days=1))
        return self._now_and_then(0.15, lambda: self._one_of(*near), None)

    def _items(self, many: int, scopes: Sequence[str], ids: Sequence[str]) -> list[Item]:
        made: dict[tuple[str, str], Item] = {}
        for _ in range(many):
            item = self._item(self._random.choice(ids), self._random.choice(scopes))
            made.setdefault((item.source, item.id), item)
        return list(made.values())

    def _item(self, name: str, scope: str) -> Item:
        random = self._random
        since, until = self._border(), self._border()
        if since is not None and until is not None and until < since:
            since = None
        uri = random.choice(URIS)
        common: dict[str, Any] = {
            "id": name,
            "scope": scope,
            "title": self._one_of("", "", "gateway", "the queue", self._text(1, 3)),
            "created_at": self._moment(),
            "valid_from": since,
            "valid_until": until,
            "expires_at": self._border(),
            "approval": self._one_of(*["approved"] * 9, "proposed", "rejected"),
            "origin": uri and Origin(uri=uri, version=self._one_of(None, "7"), project=self._one_of(None, None, None, "alpha")),
            "aliases": self._one_of((), (), ("queue worker",), ("Gateway",), ("売上", "POL 358")),
            "tags": self._one_of((), (), ("x",), ("x", "y"), ("x%", "Y"), ("🦊",)),
            "claims": self._one_of((), (), (Claim(about="port", says="80"),), (Claim(about="port", says="81"), "other"), ("plain",)),
            "trust": self._one_of("stated", "stated", "verified", "untrusted"),
        }
        match random.randrange(3):
            case 0:
                fact_only = {"importance": self._one_of(0.0, 0.3, 0.5, 1.0), "pinned": random.random() < 0.2}
                return Fact(text=self._phrase(), **common, **fact_only)
            case 1:
                return Session(text=self._long(), ended_at=self._now_and_then(0.5, self._moment, None), **common)
            case _:
                return Doc(text=self._long(), status=self._one_of("active", "active", "active", "archived", "missing"), **common)

    def _layers(self, items: list[Item]) -> tuple[list[Item], list[Item]]:
        """Some items come later, and name what came before, or have a key that was used."""
        border = self._random.randint(1, len(items))
        first, later = self._keyed(items[:border]), self._keyed(items[border:])
        names = [f"{item.source}:{item.id}" for item in first]
        naming = ("supersedes", "disputes", "derived_from")
        for place, item in enumerate(later):
            if self._random.random() < 0.6:
                named = tuple(self._random.sample(names, self._random.randint(1, min(2, len(names)))))
                later[place] = replace(item, **{self._random.choice(naming): named})
        return first, later

    def _keyed(self, items: list[Item]) -> list[Item]:
        """No two of them with one key, so that their order decides nothing."""
        keys = self._random.sample(range(9), len(items)) if len(items) <= 9 else range(len(items))
        return [replace(item, key=self._one_of(None, None, f"key {key}")) for key, item in zip(keys, items, strict=True)]

    def _closed(self, item: Item) -> Item:
        """The same item, on a shelf that is not open to who asks."""
        if item.scope in CLOSED:
            return item
        origin = item.origin or Origin(uri="other:7")
        closed = replace(origin, project="beta") if self._random.random() < 0.5 else replace(origin, conversation="42")
        return replace(item, origin=closed)

    def _changes(self, names: list[str], own: list[Item]) -> list[Change]:
        verbs = ("approve", "reject", "restore", "supersede", "dispute", "forget", "revise", "again")
        chosen = self._random.choices(verbs, k=self._one_of(0, 0, 1, 2, 3))
        pairs = [(verb, self._random.choice(names), self._random.choice(names)) for verb in chosen]
        return [Change(verb, (one, other) if verb in ("supersede", "dispute") else (one,)) for verb, one, other in pairs if one != other]

    def _asked(self, own: list[str], others: list[str]) -> list[Asked]:
        asked = [Asked(self._request()) for _ in range(2)]
        kind = self._random.random()
        if kind < 0.3:
            asked.append(Asked(None, brief=self._one_of((None, None), (60, None), (200, "alpha"), (None, "beta"))))
        elif kind < 0.6:
            asked.append(Asked(self._request(), about=self._random.choice([*own, *others, "fact:nowhere"])))
        return asked

    def _request(self) -> Request:
        seldom = self._seldom
        return Request(
            query=self._query(),
            limit=self._one_of(None, None, None, 1, 2, 3, 5, 20, 500),
            sources=seldom(("fact",), ("doc",), ("doc", "session"), ()),
            project=seldom("alpha", "alpha", "beta", "alph"),
            fact_scopes=seldom((), ("global",), ("project:alpha", "project:beta")),
            scopes=seldom((), ("project:alpha",), ("global", "project:alpha"), ("global", "project:alpha2"), ("project:beta",)),
            as_of=self._now_and_then(0.2, self._moment, None),
            phrases=seldom(("deploy",), ("queue worker",), ("売上",), ("of the", "queue"), (self._words_of_one(),)) or (),
            tags=seldom(TagFilter(any=("x", "z")), TagFilter(none=("Y",)), TagFilter(all=("x", "y")), TagFilter(none=("x",)))
            or TagFilter(),
            created_from=self._now_and_then(0.07, self._moment, None),
            created_until=self._now_and_then(0.05, self._moment, None),
            profile=self._one_of(None, None, "answer", "memory"),
            questions=self._one_of((), (), (), (self._text(1, 4),), ("which queue", "the timeout of a gateway")),
            selection=self._one_of({}, {}, {"lexical": 0.05}, {"lexical": 0.05}, {"lexical": 1.0}, {"local": 0.9}),
            context=ContextWanted(
                tokens=self._one_of(None, None, None, 0, 40, 150, 1000),
                passages=self._one_of(None, None, None, 0, 1, 2),
                reserve=self._one_of(0, 0, 20),
                format=self._one_of(None, "markdown", "xml", "json"),
            ),
            ceilings=self._now_and_then(0.35, self._ceilings, {}),
        )

    def _seldom(self, *choices: T) -> T | None:
        return self._now_and_then(0.12, lambda: self._one_of(*choices), None)

    def _words_of_one(self) -> str:
        """A few words that stand beside each other in some text, and perhaps one word at least."""
        words = self._random.choice(self._texts).split()
        start = self._random.randrange(len(words))
        return " ".join(words[start : start + self._random.randint(1, 4)])

    def _query(self) -> str:
        """Words of the corpus, some of them mistyped, with others beside them; never blank."""
        text = self._now_and_then(0.2, lambda: self._text(1, 6), self._words_of_one())
        if self._random.random() < 0.3:
            text += " " + self._random.choice(PLAIN)
        return text if text.strip("\u200b\u202e ") else "queue"

    def _ceilings(self) -> dict[str, dict[str, Any]]:
        few = (0, 1, 2, 3, 5)
        lowered: dict[str, dict[str, Any]] = {
            "generate": {"items": self._one_of(1, 1, 2, 3, 0, 50), "postings": self._one_of(0, 1, 4, 12, 20000)},
            "dedupe": {"items": self._random.choice(few)},
            "rank": {"items": self._random.choice(few)},
            "verify": {"items": self._random.choice(few), "rounds": self._one_of(1, 1, 2)},
            "pack": {"items": self._random.choice(few), "tokens": self._one_of(0, 30, 100, 1000)},
        }
        if self._random.random() < 0.5:
            return {"generate": lowered["generate"]}
        return {stage: lowered[stage] for stage in self._random.sample(sorted(lowered), self._random.randint(1, 3))}
