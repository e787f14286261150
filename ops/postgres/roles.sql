-- What a DBA runs once in the database of a Remit store, if `remit init` may not do it itself. `remit init` prints the same statements
-- with the names it found. Read it first, and put your own name for `remit_service`: the login of the program that uses Remit.
--
-- Row security decides what a transaction sees, and it binds only a role that has no power over it. So Remit runs every transaction as
-- `remit_app`, which owns nothing, may not log in, and may not bypass row security; it refuses to start, and later to answer, when that
-- is not so. The owner of the tables is another role, whose login `remit init` is given.

-- 1. The extension that searches vectors. Without it Remit finds by words alone, and says so.
CREATE EXTENSION IF NOT EXISTS vector;

-- 2. The restricted role. Its name is `postgres.role` in the configuration.
CREATE ROLE "remit_app" NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;

-- 3. Who logs in may become it, and nothing more: no superuser, no owner of the tables.
--    The owner that runs `remit init` needs the same, so that it can look after the store.
GRANT "remit_app" TO "remit_service";

-- On a cluster (`postgres.profile = "cluster"`) nodes log in to each other as the role of the transaction, which then must be allowed to.
-- In place of 2 and 3, run this, and give Remit the DSN of this role:
CREATE ROLE "remit_app" LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;
