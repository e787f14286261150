"""What all tests share: both event loops, a clean environment, and no test that CI leaves out without a word."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from conformance.worlds import SIGNATURE
from databases import Stock
from hypothesis import settings
from peers import serving_e5
from servers import Postgres, running, with_vectors

from remit.pipeline.analysis import Analyser
from remit.pipeline.config import load

for name in [name for name in os.environ if name.startswith(("REMIT_", "OTEL_"))]:
    del os.environ[name]  # a developer's own store or collector must not be what is tested

settings.register_profile("untimed", deadline=None)  # a slow machine is no fault of what is tested
settings.load_profile("untimed")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both. A module that cannot (psycopg is asyncio only) overrides this and says why."""
    return str(request.param)


STORES = ("memory", "sqlite", "postgres")


def new_urls(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Gives the URL of a new, empty store of the kind that is asked for each time it is called."""
    if request.param == "memory":
        yield lambda: "memory:"
    elif request.param == "sqlite":
        folder, numbers = request.getfixturevalue("tmp_path_factory").mktemp("stores"), count()
        yield lambda: f"sqlite:{folder}/{next(numbers)}.db"
    else:
        stock: Stock = request.getfixturevalue("stock_of_english")
        yield from stock.lending()


@pytest.fixture(params=STORES)
def new_store(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """What is promised through the front door is promised of every store."""
    yield from new_urls(request)


@pytest.fixture(params=STORES[1:])
def new_other_store(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Every store but the plainest, for comparing it with that one."""
    yield from new_urls(request)


@pytest.fixture(scope="session")
def e5() -> Iterator[str]:
    """The address of a provider of others."""
    with serving_e5() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """The run's Postgres server: one of our own, or that of $REMIT_TEST_POSTGRES."""
    with running(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def template(postgres_server: Postgres) -> str:
    """The database that `database` and `module_database` clone. A folder that wants more in it overrides this."""
    return postgres_server.template("vectors", with_vectors)


@pytest.fixture
def database(postgres_server: Postgres, template: str) -> Iterator[str]:
    """The superuser's DSN of a database that only this test uses."""
    with postgres_server.clone(template) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def module_database(postgres_server: Postgres, template: str) -> Iterator[str]:
    """The superuser's DSN of a database that the tests of a module share."""
    with postgres_server.clone(template) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def stock(postgres_server: Postgres) -> Iterator[Stock]:
    """Postgres databases with empty stores, whose words are what stands between spaces."""
    stock = Stock(postgres_server, SIGNATURE)
    yield stock
    stock.close()


@pytest.fixture(scope="session")
def stock_of_english(postgres_server: Postgres) -> Iterator[Stock]:
    """The same of the analyser that recalls use."""
    stock = Stock(postgres_server, Analyser(load().analysis.language).signature)
    yield stock
    stock.close()


@pytest.fixture
def store_database(stock: Stock) -> Iterator[str]:
    """The superuser's DSN of a database with an empty store that only this test uses; `databases.login` gives its owner's."""
    with stock.database() as dsn:
        yield dsn


class NoSkips:
    """Turns a run with skipped tests into a failed one: on CI everything a test needs is there, or should be."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for nodeid in self.skipped:
            terminalreporter.write_line(f"FAILED {nodeid}: skipped, which CI does not allow", red=True)


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI"):
        config.pluginmanager.register(NoSkips(), "no-skips")
