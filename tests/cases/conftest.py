"""Cases are about words, numbers and scopes, in which the event loop has no say: each store meets one of the two."""

import pytest


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Trio for the plainest store, asyncio for the others; the stories and faults run everything on both."""
    asked = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    return "trio" if asked.get("new_store") == "memory" else "asyncio"
