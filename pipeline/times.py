"""Times: what a person or a program writes for a moment, read as an aware time in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from remit.pipeline.errors import InvalidRequest

BEGINNING = datetime.min.replace(tzinfo=UTC)
END = datetime.max.replace(tzinfo=UTC)

_ENDLESS = {"infinity": END, "-infinity": BEGINNING}


def moment_at(field: str, value: object) -> datetime:
    """The moment of a `datetime` or an ISO 8601 text, in UTC. Without an offset it is UTC already.

    `infinity` and `-infinity` are `END` and `BEGINNING`, and so is a moment that an offset carries past year 9999 or before year 1.
    Raises `InvalidRequest` naming `field` for anything else.
    """
    if isinstance(value, datetime):
        return _in_utc(value)
    if isinstance(value, str):
        if value in _ENDLESS:
            return _ENDLESS[value]
        try:
            return _in_utc(datetime.fromisoformat(value))
        except ValueError:
            pass
    raise InvalidRequest(field, "must be a time in ISO 8601")


def _in_utc(when: datetime) -> datetime:
    if when.utcoffset() is None:
        return when.replace(tzinfo=UTC)
    try:
        return when.astimezone(UTC)
    except OverflowError:
        return BEGINNING if when.year == 1 else END
