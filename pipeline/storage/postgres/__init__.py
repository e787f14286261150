"""The store on Postgres: authority in the database, the same answer as everywhere, and, when asked for, a server of its own."""
