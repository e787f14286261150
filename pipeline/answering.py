"""Answering: a request, from what its principal is granted at this moment to its answer, to the receipt of that, and to why."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from remit.pipeline.asking import Plan, asked
from remit.pipeline.authority import AsStated, Authority, Grants, Principal, access_for, checked, default_principal, granted, scope_filter
from remit.pipeline.config import Config
from remit.pipeline.continuing import Bound, Continuations, Stopped
from remit.pipeline.digests import BUDGETS, request_digest
from remit.pipeline.envelope import Answer, answered, moment, with_receipt
from remit.pipeline.errors import ConfigError, InvalidRequest, NotAuthorised
from remit.pipeline.items import memory_id
from remit.pipeline.outcome import Because, Code, fault
from remit.pipeline.recall import Kit, Recalled, recall
from remit.pipeline.receipts import Keeper, Kept, chain_of, mark_of, own_of
from remit.pipeline.replaying import Replayed, Setting, Uncheckable, compared, receipt_of
from remit.pipeline.sealing import Seal
from remit.pipeline.storage.store import Store
from remit.pipeline.times import moment_at
from remit.pipeline.trail import Trail, finish, log, root_span, trace_id
from remit.pipeline.why import Explanation, explained
from remit.stages.access import EVERY, Access
from remit.stages.request import Request, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """The part of an engine that recalls, and all that it needs for it."""

    config: Config
    store: Store
    kit: Kit
    authority: Authority
    continuations: Continuations
    seal: Seal
    identity: str
    configured: str
    receipts: Keeper | None

    async def recall(self, request: Request, principal: Principal | None = None) -> Answer:
        """Evidence for a question that this principal may use, why, and what finding it cost.

        Raises `InvalidRequest` for a request that must be changed and `NotAuthorised` for a principal that nobody vouches for;
        everything else, faults and ceilings included, is an outcome of the answer.
        """
        plan = self._planned(request, principal)
        answer, access, _ = await self._answered(plan, request, principal)
        if self.receipts is not None:
            kept = await self.receipts.keep(self._receipt(answer, access, request, principal))
            answer = with_receipt(answer, kept)
        return answer

    async def why(self, request: Request, memory: str, principal: Principal | None = None) -> Explanation:
        """Which stage lost `source:id` for this request, and why, from running it again.

        What the principal may not read and what does not exist are `not_in_scope` alike.
        """
        plan = self._planned(request, principal)
        if request.continuation is not None:
            raise InvalidRequest("continuation", "why is asked of a request as a whole: leave it out")
        wanted = memory_id("memory", memory, self.config.limits)
        with _span_of(plan):
            access, recalled = await self._recalled(plan, principal, Trail(plan.ceilings))
        return await explained(wanted, plan, access, recalled, self.store)

    async def replay(
        self, receipts: str | Path, requests: Sequence[Request] = (), principal: Principal | None = None, *, only: str | None = None
    ) -> list[Replayed]:
        """What became of the receipts of a file: `identical`, `drifted` or `not_checkable`, each asked again as of then.

        A receipt does not hold its request: that must be among `requests`. `only` names one receipt, by its number or hash. A principal
        replays its own; a host states the principal whose they are. Raises `InvalidRequest`, with the same words whatever is wrong, for a
        chain that is not whole and unchanged, and where nothing in it is this principal's and this store's.
        """
        stated = self._stated(principal)
        chain = await anyio.to_thread.run_sync(chain_of, receipts, self.seal, self.config.limits.line_bytes)
        own = own_of(chain, store=self.identity, org=stated.org, actor=stated.actor, only=only)
        for request in requests:
            asked(request, self.config, self.kit.clock())
        asked_then = {mark_of(request_digest(request), self.seal): request for request in requests}
        return [await self._replayed(each, asked_then.get(each.line["request"]), principal) for each in own]

    async def _replayed(self, kept: Kept, request: Request | None, principal: Principal | None) -> Replayed:
        then = kept.line
        if request is None:
            return Replayed.uncheckable(kept, Uncheckable.NO_REQUEST)
        try:
            plan = self._planned(request, principal)
        except InvalidRequest as error:
            if error.field != "continuation":
                raise
            return Replayed.uncheckable(kept, Uncheckable.CONTINUATION)
        plan = replace(plan, question=replace(plan.question, as_of=moment_at("asOf", then["asOf"])))
        answer, access, recalled = await self._answered(plan, request, principal)

        async def lost(name: str) -> str:
            wanted = memory_id("memory", name, self.config.limits)
            return (await explained(wanted, plan, access, recalled, self.store)).reason

        return await compared(kept, self._receipt(answer, access, request, principal), lost)

    async def _answered(self, plan: Plan, request: Request, principal: Principal | None) -> tuple[Answer, Access | None, Recalled]:
        with _span_of(plan) as span:
            trail = Trail(plan.ceilings)
            access, recalled = await self._recalled(plan, principal, trail)
            answer = answered(
                plan,
                recalled,
                trail,
                scope_filter=scope_filter(access, plan.narrowing) if access else {},
                token_at=partial(self._token, request, principal, plan, access),
                streams=self.kit.streams,
                org=access.org if access else "",
                trace=trace_id(span),
            )
            finish(span, answer.outcome.value, len(answer.data))
            return answer, access, recalled

    async def _recalled(self, plan: Plan, principal: Principal | None, trail: Trail) -> tuple[Access | None, Recalled]:
        """The recall inside the access that is granted now. Without an answer from the authority, nothing is asked."""
        until = self.kit.time() + plan.deadline_seconds
        grants = await self._granted(principal, within=plan.deadline_seconds)
        if grants is None:
            return None, Recalled.stopped(fault(None, Code.AUTHORITY))
        grants = plan.onward.left_of(grants)
        access = access_for(grants, plan.narrowing, plan.question.as_of)
        if (refused := _ungranted(access)) is not None:
            return access, Recalled.stopped(refused)
        return access, await recall(plan, access, self.kit, trail, until)

    async def _granted(self, principal: Principal | None, *, within: float) -> Grants | None:
        """What is granted now; nothing when the authority fails, or says nothing in so many seconds."""
        if type(self.authority) is AsStated:
            return self._stated(principal)  # nobody is waited for, and a scope that ends a wait costs more than all of this
        with anyio.move_on_after(within):
            try:
                return await self._grants(principal)
            except (InvalidRequest, NotAuthorised, ConfigError):
                raise
            except Exception as error:  # noqa: BLE001 - an authority is a host's code: when it fails nothing may be read, and that is an outcome
                log.error("authority", **{"error.type": type(error.__cause__ or error).__name__})
        return None

    def _planned(self, request: Request, principal: Principal | None) -> Plan:
        """The request's plan: its phrases in the words they are looked up by, from where an earlier answer stopped, when it says so.

        Raises `InvalidRequest` naming the field that is wrong.
        """
        plan = asked(request, self.config, self.kit.clock())
        question = plan.question
        if question.filters.phrases:
            phrases = tuple(" ".join(self.kit.analyser.plain(phrase)) for phrase in question.filters.phrases)
            if "" in phrases:
                raise InvalidRequest(f"phrases[{phrases.index('')}]", "has no word in it")
            question = replace(question, filters=replace(question.filters, phrases=phrases))
            plan = replace(plan, question=question)
        if request.continuation is None:
            return plan
        onward = self.continuations.opened(request.continuation, self._bound(request, principal), plan.continuations)
        return replace(plan, question=replace(question, as_of=onward.as_of or question.as_of), onward=onward)

    def _bound(self, request: Request, principal: Principal | None) -> Bound:
        """What a continuation of this request is good for."""
        stated = self._stated(principal)
        return Bound(actor=stated.actor, org=stated.org, request=request_digest(request, without=BUDGETS))

    def _token(self, request: Request, principal: Principal | None, plan: Plan, access: Access | None, stopped: Stopped) -> str | None:
        bound = self._bound(request, principal)
        scopes = access.granted if access else frozenset()
        return self.continuations.token(stopped, plan.onward, plan.question.as_of, scopes, bound)

    def _receipt(self, answer: Answer, access: Access | None, request: Request, principal: Principal | None) -> dict[str, Any]:
        stated = self._stated(principal)
        setting = Setting(
            store=self.identity,
            org=stated.org,
            actor=stated.actor,
            scopes=None if access is None else EVERY if access.granted is None else tuple(sorted(access.granted)),
            request=mark_of(request_digest(request), self.seal),
            config=self.configured,
            analyser=self.kit.analyser.signature,
            spaces={str(lane): space for lane, space in self.kit.streams.spaces().items()},
        )
        return receipt_of(answer, setting, moment(self.kit.clock()))

    async def _grants(self, principal: Principal | None) -> Grants:
        return await granted(principal or default_principal(self.config), self.authority, self.config.limits)

    def _stated(self, principal: Principal | None) -> Grants:
        return checked(principal or default_principal(self.config), self.config.limits)


def _span_of(plan: Plan) -> AbstractContextManager[Any]:
    return root_span([source.value for source in plan.question.sources], plan.question.limit, plan.profile)


def _ungranted(access: Access) -> Because | None:
    """A request that asks only for scopes which are not granted is told so, whether or not they hold anything."""
    stated = [access.scopes]
    if access.sources == {Source.FACT}:
        stated.append(access.fact_scopes)
    if not any(scopes and not any(map(access.grants, scopes)) for scopes in stated):
        return None
    return fault(None, Code.UNAUTHORISED, "none of the scopes asked for is granted")
