-- Memories, their passages and the indexes that follow them. Everything is keyed by org.
-- Times are microseconds since 1970 in UTC; NULL is open. A passage stands when it is approved, not superseded, and :now is
-- inside valid_from … valid_until, the latter being the earlier of the memory's valid_until and expires_at.

CREATE TABLE setting (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Folders and files in which `file:` origins of an org may be read.
CREATE TABLE root (
    org TEXT NOT NULL,
    path TEXT NOT NULL,
    PRIMARY KEY (org, path)
) STRICT, WITHOUT ROWID;

-- Scopes granted to the actors of an org, for a service that keeps them here.
CREATE TABLE granted (
    org TEXT NOT NULL,
    actor TEXT NOT NULL,
    scope TEXT NOT NULL,
    PRIMARY KEY (org, actor, scope)
) STRICT, WITHOUT ROWID;

-- Whoever may read one memory of a shelf may read all of it. Origins are whole scope names, '' for none.
-- passages and words count what stands at every time; what is bound to a time is counted when it is asked for.
CREATE TABLE shelf (
    id INTEGER PRIMARY KEY,
    org TEXT NOT NULL,
    scope TEXT NOT NULL,
    source TEXT NOT NULL,
    project TEXT NOT NULL,
    conversation TEXT NOT NULL,
    passages INTEGER NOT NULL DEFAULT 0,
    words INTEGER NOT NULL DEFAULT 0,
    UNIQUE (org, scope, source, project, conversation)
) STRICT;

-- outline is what ranking needs, as JSON: [source, id, scope, version, aged_from, importance, pinned, status].
-- written_at is when this version came; trust is never above that of any memory in derived_from.
CREATE TABLE memory (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    org TEXT NOT NULL,
    source TEXT NOT NULL,
    id TEXT NOT NULL,
    shelf INTEGER NOT NULL REFERENCES shelf,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    approval TEXT NOT NULL,
    superseded INTEGER NOT NULL,
    valid_from INTEGER,
    valid_until INTEGER,
    expires_at INTEGER,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    aged_from INTEGER NOT NULL,
    importance REAL NOT NULL,
    pinned INTEGER NOT NULL,
    status TEXT NOT NULL,
    trust TEXT NOT NULL,
    outline TEXT NOT NULL,
    actor TEXT NOT NULL,
    written_at INTEGER NOT NULL,
    write_key TEXT,
    title TEXT NOT NULL,
    origin TEXT,
    aliases TEXT NOT NULL,
    tags TEXT NOT NULL,
    claims TEXT NOT NULL,
    supersedes TEXT NOT NULL,
    disputes TEXT NOT NULL,
    derived_from TEXT NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (org, source, id)
) STRICT;

-- What a start-up brief chooses among, without touching the rows.
CREATE INDEX memory_by_shelf ON memory (
    org, shelf, pinned, importance, aged_from, id, approval, superseded, valid_from, valid_until, expires_at
);

-- What happened to a memory before: versions that were replaced, with their text, and who approved, rejected, superseded or restored
-- it. by is the other memory of an event, as JSON: [source, id].
CREATE TABLE past (
    org TEXT NOT NULL,
    memory INTEGER NOT NULL REFERENCES memory,
    number INTEGER NOT NULL,
    what TEXT NOT NULL,
    version INTEGER NOT NULL,
    actor TEXT NOT NULL,
    at INTEGER NOT NULL,
    digest TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    by TEXT,
    PRIMARY KEY (org, memory, number)
) STRICT;

-- Which memories are derived from one, whether or not it is there.
CREATE TABLE derived (
    org TEXT NOT NULL,
    source TEXT NOT NULL,
    id TEXT NOT NULL,
    memory INTEGER NOT NULL REFERENCES memory,
    PRIMARY KEY (org, source, id, memory)
) STRICT, WITHOUT ROWID;

CREATE INDEX derived_by_memory ON derived (org, memory);

CREATE TABLE tag (
    org TEXT NOT NULL,
    memory INTEGER NOT NULL REFERENCES memory,
    tag TEXT NOT NULL,
    PRIMARY KEY (org, memory, tag)
) STRICT, WITHOUT ROWID;

-- What became of an actor's first write with an idempotency key.
CREATE TABLE receipt (
    org TEXT NOT NULL,
    actor TEXT NOT NULL,
    key TEXT NOT NULL,
    source TEXT NOT NULL,
    id TEXT NOT NULL,
    digest TEXT NOT NULL,
    written TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (org, actor, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX receipt_by_memory ON receipt (org, source, id);

-- Idempotency keys of forgotten memories, each as a hash: a late repeat of such a write does not bring them back.
CREATE TABLE tombstone (
    org TEXT NOT NULL,
    mark TEXT NOT NULL,
    PRIMARY KEY (org, mark)
) STRICT, WITHOUT ROWID;

-- text is NULL when it is the memory's own. words and spaces list what the indexes hold for it.
CREATE TABLE passage (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    org TEXT NOT NULL,
    memory INTEGER NOT NULL REFERENCES memory,
    ordinal INTEGER NOT NULL,
    shelf INTEGER NOT NULL REFERENCES shelf,
    approved INTEGER NOT NULL,
    superseded INTEGER NOT NULL,
    valid_from INTEGER,
    valid_until INTEGER,
    length INTEGER NOT NULL,
    starts INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    spaces TEXT NOT NULL,
    text TEXT,
    words TEXT NOT NULL,
    UNIQUE (memory, ordinal)
) STRICT;

CREATE INDEX passage_by_shelf ON passage (org, shelf, approved, superseded, valid_from, valid_until, memory);

CREATE INDEX passage_timed ON passage (org, shelf, valid_from, valid_until, length)
WHERE approved = 1 AND superseded = 0 AND (valid_from IS NOT NULL OR valid_until IS NOT NULL);

-- Where each word stands, of approved memories. entry is what a search takes away, packed little-endian:
-- passage int64, count uint32, length uint32, index of the source uint8.
CREATE TABLE posting (
    org TEXT NOT NULL,
    word TEXT NOT NULL,
    shelf INTEGER NOT NULL,
    passage INTEGER NOT NULL,
    superseded INTEGER NOT NULL,
    valid_from INTEGER,
    valid_until INTEGER,
    entry BLOB NOT NULL,
    PRIMARY KEY (org, word, shelf, passage)
) STRICT, WITHOUT ROWID;

CREATE INDEX posting_dead ON posting (org, word, superseded, shelf, valid_from, valid_until, passage)
WHERE superseded = 1 OR valid_from IS NOT NULL OR valid_until IS NOT NULL;

-- The plain words of a shelf, for near words.
CREATE TABLE vocabulary (
    org TEXT NOT NULL,
    shelf INTEGER NOT NULL,
    letters INTEGER NOT NULL,
    word TEXT NOT NULL,
    uses INTEGER NOT NULL,
    PRIMARY KEY (org, shelf, letters, word)
) STRICT, WITHOUT ROWID;

-- Float32 unit vectors, one space beside the other.
CREATE TABLE vector (
    org TEXT NOT NULL,
    space TEXT NOT NULL,
    shelf INTEGER NOT NULL,
    passage INTEGER NOT NULL,
    superseded INTEGER NOT NULL,
    valid_from INTEGER,
    valid_until INTEGER,
    embedding BLOB NOT NULL,
    PRIMARY KEY (org, space, shelf, passage)
) STRICT, WITHOUT ROWID;

CREATE INDEX vector_timed ON vector (org, space, shelf, valid_from, valid_until)
WHERE superseded = 0 AND (valid_from IS NOT NULL OR valid_until IS NOT NULL);

-- How many vectors of a space stand on a shelf at every time.
CREATE TABLE embedded (
    org TEXT NOT NULL,
    space TEXT NOT NULL,
    shelf INTEGER NOT NULL,
    vectors INTEGER NOT NULL,
    PRIMARY KEY (org, space, shelf)
) STRICT, WITHOUT ROWID;

-- Words in their order, for phrases; both columns are written so that the tokenizer has nothing left to decide.
CREATE VIRTUAL TABLE phrase USING fts5 (
    org, words, content='', contentless_delete=1, tokenize="ascii tokenchars '_'"
);
