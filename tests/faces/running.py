"""The command line as a test sees it: arguments and stdin in, status and text out."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def each(self) -> list[Any]:
        """The objects of an answer of one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


Remit = Callable[..., Ran]
