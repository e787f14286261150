-- What a store needs for vectors, made when the extension is there; every block may be run again.
-- The setting remit.dimensions says how long semantic vectors are.

-- local
-- Vectors of at most 128 dimensions, filled up with zeros, which leaves every cosine as it is. exact is the vector as it was given, as
-- little-endian float32: handing bytes out is twelve times as fast as turning a vector into them.
CREATE TABLE IF NOT EXISTS remit.vector_local (
    org text COLLATE "C" NOT NULL,
    space text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    shelf bigint NOT NULL,
    passage bigint NOT NULL,
    valid_from bigint,
    valid_until bigint,
    superseded boolean NOT NULL,
    dimensions bigint NOT NULL,
    embedding vector(128) NOT NULL,
    exact bytea NOT NULL,
    PRIMARY KEY (org, space, source, shelf, passage)
);

-- semantic
-- Longer vectors, in half precision and inside the row, which makes comparing four times as fast as in a place of their own.
DO $$
BEGIN
    EXECUTE pg_catalog.format($table$
        CREATE TABLE IF NOT EXISTS remit.vector_semantic (
            org text COLLATE "C" NOT NULL,
            space text COLLATE "C" NOT NULL,
            source text COLLATE "C" NOT NULL,
            shelf bigint NOT NULL,
            passage bigint NOT NULL,
            valid_from bigint,
            valid_until bigint,
            superseded boolean NOT NULL,
            dimensions bigint NOT NULL,
            embedding halfvec(%s) NOT NULL,
            PRIMARY KEY (org, space, source, shelf, passage)
        )
    $table$, pg_catalog.current_setting('remit.dimensions')::integer);
    -- Said apart, since Postgres before 16 does not know it there.
    ALTER TABLE remit.vector_semantic ALTER COLUMN embedding SET STORAGE PLAIN;
END
$$;

-- local_index
-- The approximate way to the nearest. What is superseded leaves it, so that marking a row costs no place in the graph.
CREATE INDEX IF NOT EXISTS vector_local_nearest ON remit.vector_local USING hnsw (embedding vector_cosine_ops) WHERE NOT superseded;

-- semantic_index
-- The same for the longer ones.
CREATE INDEX IF NOT EXISTS vector_semantic_nearest ON remit.vector_semantic USING hnsw (embedding halfvec_cosine_ops)
WHERE NOT superseded;
