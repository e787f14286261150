"""The store on Postgres: authority in the database, the same answer as everywhere, and, when asked for, a server of its own."""

from remit.pipeline.storage.postgres.making import Made, made
from remit.pipeline.storage.postgres.store import PostgresStore, open_postgres

__all__ = ["Made", "PostgresStore", "made", "open_postgres"]
