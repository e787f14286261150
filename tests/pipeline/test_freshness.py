"""Freshness of origins: bounded looking, no check that spoils another, and files only from where they may be read."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from remit.pipeline.errors import NotAuthorised
from remit.pipeline.freshness import FileChecker, Watch
from remit.pipeline.freshness.files import digest, path_of
from remit.stages.access import Access, Label, Shelf
from remit.stages.evidence import Memory, MemoryId, Origin, PassageId, Verdict
from remit.stages.request import Source

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ACCESS = Access(actor="ada", org="acme", granted=None, as_of=NOW)


def memory(uri: str | None, *, name: str = "d1", sha256: str | None = None) -> Memory:
    return Memory(
        passage=PassageId(MemoryId(Source.DOC, name), 0),
        version=1,
        label=Label(shelf=Shelf(org="acme", source=Source.DOC)),
        title="",
        text="",
        created_at=NOW,
        origin=None if uri is None else Origin(uri=uri, sha256=sha256),
    )


def memories(count: int, scheme: str = "crm") -> list[Memory]:
    return [memory(f"{scheme}:{place}", name=f"{place:03}") for place in range(count)]


class Desk:
    """A host's check: counts who is looked at side by side; some looks never end, some fail, some talk nonsense."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {f"crm:{name}": answer for name, answer in answers.items()}
        self.running = self.most = self.done = 0

    async def __call__(self, memory: Memory, access: Access) -> Any:
        assert memory.origin is not None
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await checkpoint()
            answer = self.answers.get(memory.origin.uri, True)
            if answer is math.inf:
                await anyio.sleep_forever()
            if isinstance(answer, BaseException):
                raise answer
            return answer
        finally:
            self.running -= 1
            self.done += 1


def watch(check: Any, *, workers: int = 8, seconds: float = 60) -> Watch:
    return Watch({"crm": check}, workers=workers, check_seconds=seconds)


async def test_without_an_origin_the_store_is_the_source() -> None:
    assert await watch(Desk()).still_true([memory(None)], ACCESS) == {MemoryId(Source.DOC, "d1"): Verdict.FRESH}


@pytest.mark.parametrize("uri", ["https://example.com/page", "nonsense", "", ":", "crmx:1", "crm"])
async def test_a_scheme_that_nobody_watches_is_unwatched(uri: str) -> None:
    assert list((await watch(Desk()).still_true([memory(uri)], ACCESS)).values()) == [Verdict.UNWATCHED]


@pytest.mark.parametrize("uri", ["crm:1", "CRM:1"])
async def test_the_scheme_chooses_the_check_whatever_its_case(uri: str) -> None:
    assert list((await watch(Desk()).still_true([memory(uri)], ACCESS)).values()) == [Verdict.FRESH]


@pytest.mark.parametrize(
    "answer, verdict",
    [
        (True, Verdict.FRESH),
        (False, Verdict.CHANGED),
        (Verdict.MISSING, Verdict.MISSING),
        ("inaccessible", Verdict.INACCESSIBLE),
        ("fresh", Verdict.FRESH),
        ("Fresh!", Verdict.UNVERIFIED),
        (None, Verdict.UNVERIFIED),
        (1, Verdict.UNVERIFIED),
        ({"fresh": True}, Verdict.UNVERIFIED),
        (PermissionError("not yours"), Verdict.INACCESSIBLE),
        (NotAuthorised(), Verdict.INACCESSIBLE),
        (ExceptionGroup("one of them", [OSError(), ExceptionGroup("inside", [PermissionError()])]), Verdict.INACCESSIBLE),
        (RuntimeError("down"), Verdict.UNVERIFIED),
        (TimeoutError(), Verdict.UNVERIFIED),
        (ExceptionGroup("all down", [OSError()]), Verdict.UNVERIFIED),
    ],
)
async def test_a_check_may_answer_in_few_ways_and_all_else_is_unverified(answer: Any, verdict: Verdict) -> None:
    asked = memories(3)

    verdicts = await watch(Desk(**{"1": answer})).still_true(asked, ACCESS)

    assert [verdicts[each.id] for each in asked] == [Verdict.FRESH, verdict, Verdict.FRESH]


async def test_a_check_that_is_no_coroutine_is_unverified() -> None:
    assert list((await watch(lambda memory, access: True).still_true(memories(1), ACCESS)).values()) == [Verdict.UNVERIFIED]


async def test_five_hundred_memories_are_looked_at_by_few_side_by_side() -> None:
    desk = Desk()

    verdicts = await watch(desk, workers=8).still_true(memories(500), ACCESS)

    assert (len(verdicts), set(verdicts.values()), desk.most) == (500, {Verdict.FRESH}, 8)


async def test_all_recalls_of_an_engine_share_the_workers() -> None:
    desk = Desk()
    shared = watch(desk, workers=3)

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(shared.still_true, memories(20), ACCESS)

    assert (desk.most, desk.done) == (3, 120)


async def test_a_hung_check_costs_its_own_seconds_and_no_other_memory() -> None:
    desk = Desk(**{"000": math.inf, "0": math.inf})
    asked = memories(50)

    verdicts = await watch(desk, workers=2, seconds=0.05).still_true(asked, ACCESS)

    assert [each.id.id for each in asked if verdicts[each.id] is not Verdict.FRESH] == ["000"]
    assert verdicts[asked[0].id] is Verdict.UNVERIFIED


async def test_of_five_hundred_one_that_hangs_is_late_alone_and_never_more_than_eight_are_looked_at_at_once() -> None:
    desk = Desk(**{"100": math.inf})
    asked = memories(500)

    verdicts = await watch(desk, workers=8, seconds=0.5).still_true(asked, ACCESS)

    assert [each.id.id for each in asked if verdicts[each.id] is not Verdict.FRESH] == ["100"]
    assert (desk.most, desk.running, desk.done) == (8, 0, 500)


async def test_a_check_whose_own_work_was_cancelled_is_unverified_and_its_worker_goes_on(anyio_backend: str) -> None:
    """A future of the check's own that somebody cancelled: nobody cancelled the recall. trio knows no such thing."""

    async def abandoned(memory: Memory, access: Access) -> Any:
        if anyio_backend == "asyncio" and memory.id.id in ("001", "002"):
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        return memory.id.id not in ("001", "002") or None

    asked = memories(20)
    verdicts = await watch(abandoned, workers=2).still_true(asked, ACCESS)

    assert [each.id.id for each in asked if verdicts[each.id] is not Verdict.FRESH] == ["001", "002"]
    assert verdicts[asked[1].id] is Verdict.UNVERIFIED


async def test_a_check_that_will_not_be_told_that_it_is_late_is_not_fresh() -> None:
    async def stubborn(memory: Memory, access: Access) -> Any:
        try:
            await anyio.sleep_forever()
        except BaseException:  # noqa: BLE001 - what a host's code may well do
            return memory.id.id == "000" or Verdict.INACCESSIBLE

    asked = memories(2)
    verdicts = await watch(stubborn, seconds=0.02).still_true(asked, ACCESS)

    assert [verdicts[each.id] for each in asked] == [Verdict.UNVERIFIED, Verdict.INACCESSIBLE]


async def test_a_check_gets_the_access_it_is_asked_for() -> None:
    async def of_acme(memory: Memory, access: Access) -> Any:
        return Verdict.FRESH if access.actor == "ada" else Verdict.INACCESSIBLE

    eve = Access(actor="eve", org="acme", granted=None, as_of=NOW)
    assert list((await watch(of_acme).still_true(memories(1), ACCESS)).values()) == [Verdict.FRESH]
    assert list((await watch(of_acme).still_true(memories(1), eve)).values()) == [Verdict.INACCESSIBLE]


async def test_waiting_for_a_turn_is_not_counted() -> None:
    desk = Desk(**{str(place): math.inf for place in range(4)})
    asked = memories(5)

    verdicts = await watch(desk, workers=1, seconds=0.03).still_true(asked, ACCESS)

    assert [verdicts[each.id] for each in asked] == [Verdict.UNVERIFIED] * 4 + [Verdict.FRESH]


async def test_cancelled_during_checks_every_check_has_ended_before_it_returns() -> None:
    desk = Desk(**{str(place): math.inf for place in range(20)})
    shared = watch(desk, workers=4)

    with anyio.move_on_after(0.05) as scope:
        await shared.still_true(memories(20), ACCESS)

    assert scope.cancelled_caught
    assert (desk.running, desk.done) == (0, 4)
    assert list((await shared.still_true(memories(1, scheme="CRM"), ACCESS)).values()) == [Verdict.FRESH]


async def test_cancelled_during_checks_their_cleaning_up_is_not_cut_short() -> None:
    cleaned: list[str] = []

    async def tidy(memory: Memory, access: Access) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await checkpoint()
                cleaned.append(memory.id.id)

    with anyio.move_on_after(0.02):
        await watch(tidy, workers=3).still_true(memories(20), ACCESS)

    assert sorted(cleaned) == ["000", "001", "002"]


# Files


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files(*roots: Path, most_bytes: int = 1 << 20) -> FileChecker:
    return FileChecker([str(root) for root in roots], most_bytes=most_bytes, threads=2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a page in it, and beside it what may not be read."""
    for folder in ("notes", "notes-private", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "page.md").write_text(f"a page of {folder}")
    return tmp_path / "notes"


async def verdict(checker: FileChecker, uri: str, sha256: str | None = "0" * 64) -> Verdict:
    return await checker(memory(uri, sha256=sha256), ACCESS)


async def test_a_file_is_fresh_until_its_bytes_change_and_missing_when_it_is_gone(root: Path) -> None:
    page = root / "page.md"
    uri, before = page.as_uri(), sha(page)
    assert await verdict(files(root), uri, before) is Verdict.FRESH
    assert await verdict(files(root), uri, before.upper()) is Verdict.FRESH

    page.write_text("another page")
    os.utime(page, (0, 0))
    assert await verdict(files(root), uri, before) is Verdict.CHANGED

    page.unlink()
    assert await verdict(files(root), uri, before) is Verdict.MISSING


async def test_through_the_watch_a_file_is_checked_like_any_origin(root: Path) -> None:
    page = root / "page.md"
    shared = Watch({"file": files(root)}, workers=2, check_seconds=60)

    assert list((await shared.still_true([memory(page.as_uri(), sha256=sha(page))], ACCESS)).values()) == [Verdict.FRESH]


@pytest.mark.parametrize(
    "name", ["with space.md", "100%.md", "ümlaut ☂.md", "a%2e%2e.md", "question?.md", "hash#.md", "back\\slash", "new\nline"]
)
async def test_names_of_every_kind_are_found_by_their_uri(root: Path, name: str) -> None:
    (root / name).write_text(name)

    assert await verdict(files(root), (root / name).as_uri(), sha(root / name)) is Verdict.FRESH


@pytest.mark.parametrize("form", ["file://{}", "file:{}", "FILE://localhost{}", "file://LOCALHOST{}"])
async def test_the_forms_of_a_local_file_uri_are_alike(root: Path, form: str) -> None:
    assert await verdict(files(root), form.format(root / "page.md"), sha(root / "page.md")) is Verdict.FRESH


@pytest.mark.parametrize(
    "form",
    [
        "file://fileserver{root}/page.md",
        "file://localhost:80{root}/page.md",
        "file://me@localhost{root}/page.md",
        "file://127.0.0.1{root}/page.md",
        "file:page.md",
        "file:",
        "file://",
        "file://localhost",
        "file://{root}/page.md?x",
        "file://{root}/page.md#x",
        "file://{root}/page.md%00",
        "file://{root}/../notes/page.md",
        "file://{root}/%2e%2e/notes/page.md",
        "file://{root}/%252e%252e/notes-private/page.md",
        "file://{root}/../notes-private/page.md",
        "file://{root}/..%2fnotes-private/page.md",
        "file://{root}-private/page.md",
        "file://{outside}/page.md",
        "file://{outside}/not-there.md",
        "file:///etc/passwd",
        "file:///etc/not-there",
        "file:///dev/zero",
        "file:///proc/self/environ",
        "file://{root}/\ud800",
    ],
)
async def test_what_is_not_plainly_inside_a_root_is_inaccessible_or_not_there(root: Path, form: str) -> None:
    uri = form.format(root=root, outside=root.parent / "elsewhere")

    found = await verdict(files(root), uri, sha(root / "page.md"))

    assert found is (Verdict.MISSING if "%252e" in form else Verdict.INACCESSIBLE)


async def test_outside_the_roots_what_exists_and_what_does_not_look_alike(root: Path) -> None:
    outside = root.parent / "elsewhere"
    (root / "out").symlink_to(outside)
    (root / "nowhere").symlink_to(root.parent / "not-there")

    for uri in (outside.as_uri(), (root / "out").as_uri(), (root / "nowhere").as_uri()):
        for name in ("page.md", "not-there.md", "not-there/page.md"):
            assert await verdict(files(root), f"{uri}/{name}", sha(outside / "page.md")) is Verdict.INACCESSIBLE


async def test_a_link_is_followed_inside_the_root_only(root: Path) -> None:
    secret = root.parent / "elsewhere" / "page.md"
    (root / "inside.md").symlink_to(root / "page.md")
    (root / "outside.md").symlink_to(secret)
    (root / "circle.md").symlink_to(root / "circle.md")

    assert await verdict(files(root), (root / "inside.md").as_uri(), sha(root / "page.md")) is Verdict.FRESH
    assert await verdict(files(root), (root / "outside.md").as_uri(), sha(secret)) is Verdict.INACCESSIBLE
    assert await verdict(files(root), f"file://{root}/circle.md") is Verdict.INACCESSIBLE


def test_a_link_put_in_the_way_after_the_path_was_resolved_leads_nowhere(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment between resolving and opening, held still: the system answers what was true before the links were laid."""
    secret = root.parent / "elsewhere"
    (root / "folder").symlink_to(secret)
    (root / "file.md").symlink_to(secret / "page.md")
    monkeypatch.setattr(os.path, "realpath", lambda path: os.fspath(path))

    for name in ("folder/page.md", "file.md"):
        try:
            found: str | Verdict = digest(f"{root}/{name}", [str(root)], most_bytes=1000, unwanted=threading.Event())
        except OSError:
            found = Verdict.INACCESSIBLE
        assert found is Verdict.INACCESSIBLE


@pytest.mark.parametrize("what", ["a link", "a pipe"])
def test_what_is_put_in_the_place_of_a_file_after_it_was_looked_at_is_never_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    page, opening = root / "page.md", os.open

    def opened(name: Any, flags: int, **how: Any) -> int:
        if name == "page.md":
            page.unlink()
            page.symlink_to(root.parent / "elsewhere" / "page.md") if what == "a link" else os.mkfifo(page)
        return opening(name, flags, **how)

    monkeypatch.setattr(os, "open", opened)
    with suppress(OSError):
        assert digest(str(page), [str(root)], most_bytes=1000, unwanted=threading.Event()) is Verdict.INACCESSIBLE


async def test_what_is_no_file_is_not_even_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    opening, seen = os.open, list[object]()
    monkeypatch.setattr(os, "open", lambda name, *flags, **how: (seen.append(name), opening(name, *flags, **how))[1])

    assert await verdict(files(root), (root / "pipe").as_uri()) is Verdict.INACCESSIBLE
    assert await verdict(files(root), (root / "page.md").as_uri(), sha(root / "page.md")) is Verdict.FRESH
    assert ("pipe" in seen, "page.md" in seen) == (False, True)


async def test_a_file_that_holds_more_than_it_says_is_read_no_further_than_allowed() -> None:
    # The system says 0 bytes of what it makes up while it is read.
    assert await verdict(files(Path("/proc/self"), most_bytes=10), "file:///proc/self/status") is Verdict.UNVERIFIED
    assert await verdict(files(Path("/proc/self")), "file:///proc/self/status") is Verdict.CHANGED


async def test_a_root_is_never_taken_for_the_beginning_of_another_name(root: Path) -> None:
    private = root.parent / "notes-private" / "page.md"

    assert await verdict(files(root), private.as_uri(), sha(private)) is Verdict.INACCESSIBLE
    assert await verdict(files(root.parent / "notes-private"), private.as_uri(), sha(private)) is Verdict.FRESH


async def test_a_root_may_be_a_single_file_and_a_link(root: Path) -> None:
    page = root / "page.md"
    (root / "other.md").write_text("other")
    (root.parent / "link").symlink_to(root)

    assert await verdict(files(page), page.as_uri(), sha(page)) is Verdict.FRESH
    assert await verdict(files(page), (root / "other.md").as_uri(), sha(root / "other.md")) is Verdict.INACCESSIBLE
    assert await verdict(files(root.parent / "link"), page.as_uri(), sha(page)) is Verdict.FRESH
    assert await verdict(files(root), (root.parent / "link" / "page.md").as_uri(), sha(page)) is Verdict.FRESH


@pytest.mark.parametrize("roots", [[], [""]])
async def test_without_a_root_nothing_is_read(root: Path, roots: Sequence[str]) -> None:
    checker = FileChecker(roots, most_bytes=1000, threads=1)
    here = Path.cwd() / "pyproject.toml"

    assert await verdict(checker, (root / "page.md").as_uri()) is Verdict.INACCESSIBLE
    assert await verdict(checker, here.as_uri()) is Verdict.INACCESSIBLE


async def test_roots_may_be_asked_for_anew_each_time(root: Path) -> None:
    allowed: list[str] = []

    async def roots(org: str) -> Sequence[str]:
        assert org == "acme"
        return allowed

    checker, page = FileChecker(roots, most_bytes=1000, threads=1), root / "page.md"
    assert await verdict(checker, page.as_uri(), sha(page)) is Verdict.INACCESSIBLE

    allowed.append(str(root))
    assert await verdict(checker, page.as_uri(), sha(page)) is Verdict.FRESH


async def test_pipes_folders_and_devices_are_never_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()

    with anyio.fail_after(10):
        for path in (root / "pipe", root / "folder", root):
            assert await verdict(files(root), path.as_uri()) is Verdict.INACCESSIBLE
        assert await verdict(files(Path("/dev")), "file:///dev/zero") is Verdict.INACCESSIBLE


@pytest.mark.parametrize("most_bytes, expected", [(15, Verdict.FRESH), (14, Verdict.UNVERIFIED)])
async def test_a_file_larger_than_allowed_is_unverified(root: Path, most_bytes: int, expected: Verdict) -> None:
    page = root / "page.md"
    assert page.stat().st_size == 15

    assert await verdict(files(root, most_bytes=most_bytes), page.as_uri(), sha(page)) is expected


async def test_a_file_of_several_chunks_is_hashed_whole(root: Path) -> None:
    (root / "big").write_bytes(os.urandom(3_500_000))

    assert await verdict(files(root, most_bytes=4_000_000), (root / "big").as_uri(), sha(root / "big")) is Verdict.FRESH


def test_hashing_ends_when_nobody_waits_for_it_any_more(root: Path) -> None:
    unwanted = threading.Event()
    unwanted.set()

    assert digest(str(root / "page.md"), [str(root)], most_bytes=1000, unwanted=unwanted) is Verdict.UNVERIFIED


async def test_an_origin_without_a_hash_is_unverified(root: Path) -> None:
    assert await verdict(files(root), (root / "page.md").as_uri(), None) is Verdict.UNVERIFIED
    assert await verdict(files(root), (root / "not-there.md").as_uri(), None) is Verdict.MISSING


async def test_no_file_is_left_open(root: Path) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    os.mkfifo(root / "pipe")
    checker = files(root)
    await verdict(checker, (root / "page.md").as_uri())
    before = opened()
    for name in ("page.md", "not-there.md", "pipe", "no/such/folder"):
        await verdict(checker, (root / name).as_uri())

    assert opened() == before


async def test_a_hung_disk_holds_its_threads_and_no_recall(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads hang until released: three checks, two threads; all are unverified in their own time, and afterwards all is as before."""
    released, read = threading.Event(), os.read
    page = root / "page.md"
    checker = files(root)
    shared = Watch({"file": checker}, workers=3, check_seconds=0.05)
    asked = [memory(page.as_uri(), name=f"{place}", sha256=sha(page)) for place in range(3)]
    monkeypatch.setattr("remit.pipeline.freshness.files.os.read", lambda file, size: (released.wait(30), read(file, size))[1])

    with anyio.fail_after(10):
        assert set((await shared.still_true(asked, ACCESS)).values()) == {Verdict.UNVERIFIED}
        released.set()
        assert await checker(asked[0], ACCESS) is Verdict.FRESH


async def test_at_write_time_a_file_inside_the_roots_gets_its_hash(root: Path) -> None:
    page = Origin(uri=(root / "page.md").as_uri(), project="alpha")

    assert await files(root).resolved(page, "acme") == Origin(uri=page.uri, project="alpha", sha256=sha(root / "page.md"))


@pytest.mark.parametrize(
    "uri", ["https://example.com/", "file:///etc/passwd", "file://{root}/not-there.md", "file://{root}/../elsewhere/page.md"]
)
async def test_every_other_origin_is_taken_as_it_was_stated(root: Path, uri: str) -> None:
    origin = Origin(uri=uri.format(root=root))

    assert await files(root).resolved(origin, "acme") == origin


async def test_a_hash_that_was_stated_is_never_replaced(root: Path) -> None:
    origin = Origin(uri=(root / "page.md").as_uri(), sha256="0" * 64)

    assert await files(root).resolved(origin, "acme") == origin


def test_escapes_are_decoded_once() -> None:
    assert path_of("file:///a/%252e%252e/b") == "/a/%2e%2e/b"
    assert path_of("file:///a/%2e%2e/b") is None
