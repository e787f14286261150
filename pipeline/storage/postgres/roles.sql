-- What must be done once in a database by who may: made by `remit init` where its owner may, and else told to a DBA.

-- role
-- The restricted role: every transaction of the engine runs as it, and row security decides what it sees.
CREATE ROLE {role} NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;

-- role_of_cluster
-- The same for a cluster, whose nodes log in as it.
CREATE ROLE {role} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;

-- member
-- Who logs in may become the restricted role.
GRANT {role} TO {login};

-- extension
-- The extension that searches vectors.
CREATE EXTENSION IF NOT EXISTS vector;
