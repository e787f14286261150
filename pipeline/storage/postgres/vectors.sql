-- What a store needs for vectors, made when the extension is there; each block may be run again. The setting remit.dimensions says how
-- long semantic vectors are.

-- extension
-- The extension, where the owner may make it.
CREATE EXTENSION IF NOT EXISTS vector;

-- local
-- Vectors of at most 128 dimensions, filled up with zeros, which leaves every cosine as it is.
CREATE TABLE IF NOT EXISTS remit.vector_local (
    org text COLLATE "C" NOT NULL,
    space text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    shelf bigint NOT NULL,
    passage bigint NOT NULL,
    valid_from bigint,
    valid_until bigint,
    superseded boolean NOT NULL,
    dimensions smallint NOT NULL,
    embedding vector(128) NOT NULL,
    PRIMARY KEY (org, space, source, shelf, passage)
);
