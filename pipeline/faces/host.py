"""The host of a command: its config, who asks, and the store, from options, environment and config, in that order."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from remit.pipeline.authority import Principal, default_principal, principal_from
from remit.pipeline.brief import Brief
from remit.pipeline.config import Config, load
from remit.pipeline.doctor import Examination, of_unsafe
from remit.pipeline.engine import Engine
from remit.pipeline.envelope import Answer
from remit.pipeline.errors import ConfigError, InvalidRequest, StorageUnavailable, UnsafeStorage
from remit.pipeline.faces.options import Common
from remit.pipeline.life import Event, Forgotten
from remit.pipeline.remember import Receipt
from remit.pipeline.replaying import Replayed
from remit.pipeline.sealing import SECRET
from remit.pipeline.starting import Clock, now_in_utc, open_engine
from remit.pipeline.why import Explanation
from remit.stages.request import Request

STORE = "sqlite:remit.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a command works with, checked, before any store is opened."""

    store: str
    config: Config
    principal: Principal

    @classmethod
    def of(cls, common: Common) -> Host:
        """Raises `ConfigError`, `InvalidRequest` and `NotAuthorised` for what is wrong, naming it."""
        config = load(common.config or os.environ.get("REMIT_CONFIG") or None)
        stated = common.principal or os.environ.get("REMIT_PRINCIPAL")
        return cls(
            store=common.store or os.environ.get("REMIT_STORE") or STORE,
            config=config,
            principal=_principal(stated, config) if stated else default_principal(config),
        )

    @property
    def path(self) -> Path | None:
        """Where the store's file or folder is, when it has one."""
        kind, _, rest = self.store.partition(":")
        return Path(rest) if kind in ("sqlite", "embedded") and rest else None

    @asynccontextmanager
    async def engine(
        self, *, make: bool = False, rebuild: bool = False, clock: Clock = now_in_utc, receipts: str | None = None
    ) -> AsyncIterator[Engine]:
        """The engine over this store; only with `make` is a store made that is not there, so that a mistyped path is never just empty."""
        if not make and self.path is not None and not self.path.exists():
            raise StorageUnavailable(f"There is no {self.path}: make it with `remit init` or `remit add`, or name another with --store.")
        async with AsyncExitStack() as stack:
            try:
                opened = open_engine(self.store, config=self.config, rebuild=rebuild, clock=clock, receipts=receipts)
                engine = await stack.enter_async_context(opened)
            except ConfigError as error:
                if error.fact.startswith(("store:", SECRET)):
                    raise
                raise StorageUnavailable(error.fact) from None
            yield engine

    async def recall(self, request: Request, receipts: str | None = None) -> Answer:
        async with self.engine(receipts=receipts) as engine:
            return await engine.recall(request, self.principal)

    async def replay(self, receipts: str, requests: Sequence[Request], only: str | None) -> list[Replayed]:
        async with self.engine() as engine:
            return await engine.replay(receipts, requests, self.principal, only=only)

    async def why(self, request: Request, memory: str) -> Explanation:
        async with self.engine() as engine:
            return await engine.why(request, memory, self.principal)

    async def brief(self, tokens: int | None, project: str | None) -> Brief:
        async with self.engine() as engine:
            return await engine.brief(self.principal, tokens=tokens, project=project)

    async def granting(self, actor: str, scopes: list[str], take_back: bool) -> list[str]:
        """Grants or takes back; what the actor is granted then."""
        async with self.engine(make=not take_back) as engine:
            change = engine.revoke if take_back else engine.grant
            return list(await change(actor, scopes, self.principal))

    async def changed(self, what: str, memories: list[str]) -> list[Receipt]:
        """Approves, rejects, restores, supersedes or disputes; the latter two take a pair."""
        async with self.engine() as engine:
            if what in ("supersede", "dispute"):
                pairing = engine.supersede if what == "supersede" else engine.dispute
                return [await pairing(memories[0], memories[1], self.principal)]
            change = {"approve": engine.approve, "reject": engine.reject, "restore": engine.restore}[what]
            return await change(memories, self.principal)

    async def forget(self, memories: list[str] | None, conditions: Mapping[str, Any]) -> Forgotten:
        async with self.engine() as engine:
            return await engine.forget(memories, self.principal, **conditions)

    async def history(self, memory: str) -> tuple[Event, ...]:
        async with self.engine() as engine:
            return await engine.history(memory, self.principal)

    async def examination(self) -> Examination:
        try:
            async with self.engine() as engine:
                return await engine.doctor(self.principal)
        except UnsafeStorage as unsafe:
            return of_unsafe(unsafe.fact)

    async def roots(self, drop: str | None) -> tuple[list[str], bool]:
        """The roots of the principal's org, after one was dropped, and whether it was one."""
        async with self.engine() as engine:
            dropped = drop is not None and await engine.drop_root(drop, self.principal)
            return list(await engine.allowed_roots(self.principal)), dropped


def _principal(stated: str, config: Config) -> Principal:
    if stated.lstrip().startswith("{"):
        return principal_from(_json("principal", stated), host=True, limits=config.limits)
    return principal_from(json_file("principal", stated, config.limits.line_bytes), host=True, limits=config.limits)


def json_file(field: str, name: str, most_bytes: int, *, stdin: BinaryIO | None = None) -> Any:
    """What stands in a file as JSON; `-` is `stdin` where there is one. Raises `InvalidRequest` naming `field`."""
    try:
        if name == "-" and stdin is not None:
            content = stdin.read(most_bytes + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        raise InvalidRequest(field, f"{name!r} cannot be read: {getattr(error, 'strerror', None) or 'not a file name'}") from None
    if len(content) > most_bytes:
        raise InvalidRequest(field, f"more than {most_bytes} bytes")
    try:
        return _json(field, content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidRequest(field, f"is not UTF-8: byte {error.start + 1}") from None


def _json(field: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest(field, f"is not JSON: {error.msg}, line {error.lineno} column {error.colno}") from None
    except (ValueError, RecursionError):
        raise InvalidRequest(field, "is not JSON: a number too long or objects nested too deeply") from None
