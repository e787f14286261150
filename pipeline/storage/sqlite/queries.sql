-- The statements of the SQLite store. Every block that touches the data of an org says which one.
-- What reads resolves the shelves in reach first; the other statements of the same transaction take them as :shelves.
-- Lists are JSON, or int64 arrays where they are long. Long answers come back as one row, packed or joined, because every row that
-- crosses into Python costs a hand-over of the interpreter lock.

-- shelves_of_all
-- The shelves in reach of an access to every scope of its org: [id, source, passages, words, whether they are turns of a conversation]
-- of each.
SELECT json_group_array(json_array(
    id, source, passages, words, source = 'session' AND (conversation <> '' OR substr(scope, 1, 13) = 'conversation:')
))
FROM shelf
WHERE org = :org
    AND source IN (SELECT value FROM json_each(:sources))
    AND (:scopes IS NULL OR scope IN (SELECT value FROM json_each(:scopes)))
    AND (source <> 'fact' OR :fact_scopes IS NULL OR scope IN (SELECT value FROM json_each(:fact_scopes)));

-- shelves_of_granted
-- The same for an access to listed scopes, `global` among them. `+` keeps the planner from seeking every pair of scope and origin.
SELECT json_group_array(json_array(
    id, source, passages, words, source = 'session' AND (conversation <> '' OR substr(scope, 1, 13) = 'conversation:')
))
FROM shelf
WHERE org = :org
    AND scope IN (SELECT value FROM json_each(:granted))
    AND (+project = '' OR +project IN (SELECT value FROM json_each(:granted)))
    AND (+conversation = '' OR +conversation IN (SELECT value FROM json_each(:granted)))
    AND +source IN (SELECT value FROM json_each(:sources))
    AND (:scopes IS NULL OR +scope IN (SELECT value FROM json_each(:scopes)))
    AND (+source <> 'fact' OR :fact_scopes IS NULL OR +scope IN (SELECT value FROM json_each(:fact_scopes)));

-- passages_in_their_time
-- How many passages bound to a time stand now, and how many words they have.
SELECT count(*), ifnull(sum(length), 0)
FROM passage INDEXED BY passage_timed
WHERE org = :org AND shelf IN (SELECT value FROM json_each(:shelves))
    AND approved = 1 AND superseded = 0 AND (valid_from IS NOT NULL OR valid_until IS NOT NULL)
    AND (valid_from IS NULL OR valid_from <= :now) AND (valid_until IS NULL OR :now < valid_until);

-- aliased
-- Whether any memory of the org has another name.
SELECT EXISTS (SELECT 1 FROM posting WHERE org = :org AND word >= :alias AND word < :behind);

-- find_all_words
-- Where the words stand now, shelf by shelf: how many places each of them has, and the packed entries, word by word.
-- `LIMIT -1` keeps the planner from looking each word up twice.
SELECT group_concat(ifnull(length(entries), 0) / 17, ' '), CAST(group_concat(entries, '') AS BLOB)
FROM (
    SELECT (
        SELECT CAST(group_concat(p.entry, '') AS BLOB) FROM posting AS p
        WHERE p.org = :org AND p.word = w.value AND p.shelf IN (SELECT value FROM json_each(:shelves))
            AND p.superseded = 0
            AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
    ) AS entries
    FROM json_each(:words) AS w LIMIT -1
);

-- find_all_words_on_many
-- The same for many shelves: goes through all of the org's places of a word instead of seeking each shelf.
SELECT group_concat(ifnull(length(entries), 0) / 17, ' '), CAST(group_concat(entries, '') AS BLOB)
FROM (
    SELECT (
        SELECT CAST(group_concat(p.entry, '') AS BLOB) FROM posting AS p
        WHERE p.org = :org AND p.word = w.value AND +p.shelf IN (SELECT value FROM json_each(:shelves))
            AND p.superseded = 0
            AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
    ) AS entries
    FROM json_each(:words) AS w LIMIT -1
);

-- find_words
-- The same of at most :most places of all words together: index of the word for each place, and the packed entries.
SELECT group_concat(place, ' '), CAST(group_concat(entry, '') AS BLOB)
FROM (
    SELECT w.key AS place, p.entry
    FROM json_each(:words) AS w CROSS JOIN posting AS p
    WHERE p.org = :org AND p.word = w.value AND p.shelf IN (SELECT value FROM json_each(:shelves))
        AND p.superseded = 0
        AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
    LIMIT :most
);

-- find_words_on_many
-- The same for many shelves.
SELECT group_concat(place, ' '), CAST(group_concat(entry, '') AS BLOB)
FROM (
    SELECT w.key AS place, p.entry
    FROM json_each(:words) AS w CROSS JOIN posting AS p
    WHERE p.org = :org AND p.word = w.value AND +p.shelf IN (SELECT value FROM json_each(:shelves))
        AND p.superseded = 0
        AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
    LIMIT :most
);

-- count_words
-- In how many places each word stands now, counted up to :most.
SELECT group_concat((
    SELECT count(*) FROM (
        SELECT 1 FROM posting AS p
        WHERE p.org = :org AND p.word = w.value AND p.shelf IN (SELECT value FROM json_each(:shelves))
            AND p.superseded = 0
            AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
        LIMIT :most
    )
), ' ')
FROM json_each(:words) AS w;

-- count_words_on_many
-- The same for many shelves.
SELECT group_concat((
    SELECT count(*) FROM (
        SELECT 1 FROM posting AS p
        WHERE p.org = :org AND p.word = w.value AND +p.shelf IN (SELECT value FROM json_each(:shelves))
            AND p.superseded = 0
            AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
        LIMIT :most
    )
), ' ')
FROM json_each(:words) AS w;

-- words_lost
-- Whether no word at all stands in the index of the org.
SELECT NOT EXISTS (SELECT 1 FROM posting WHERE org = :org);

-- words_used
-- In how many passages of these shelves each word stands, as the vocabulary counts them.
SELECT group_concat((
    SELECT ifnull(sum(v.uses), 0) FROM vocabulary AS v
    WHERE v.org = :org AND v.shelf IN (SELECT value FROM json_each(:shelves)) AND v.letters = length(w.value) AND v.word = w.value
), ' ')
FROM json_each(:words) AS w;

-- words_held
-- In how many places of the index each word stands on these shelves, also those that do not stand now.
SELECT group_concat((
    SELECT count(*) FROM posting AS p
    WHERE p.org = :org AND p.word = w.value AND p.shelf IN (SELECT value FROM json_each(:shelves))
), ' ')
FROM json_each(:words) AS w;

-- dead
-- How many passages hold a word but are superseded, and how many are outside their time, each counted up to :most; no row when the org
-- has none that can be either.
SELECT (
    SELECT count(*) FROM (
        SELECT DISTINCT p.passage
        FROM json_each(:words) AS w CROSS JOIN posting AS p INDEXED BY posting_dead
        WHERE p.org = :org AND p.word = w.value AND p.superseded = 1
            AND (p.superseded = 1 OR p.valid_from IS NOT NULL OR p.valid_until IS NOT NULL)
            AND p.shelf IN (SELECT value FROM json_each(:shelves))
        LIMIT :most
    )
), (
    SELECT count(*) FROM (
        SELECT DISTINCT p.passage
        FROM json_each(:words) AS w CROSS JOIN posting AS p INDEXED BY posting_dead
        WHERE p.org = :org AND p.word = w.value AND p.superseded = 0
            AND (p.superseded = 1 OR p.valid_from IS NOT NULL OR p.valid_until IS NOT NULL)
            AND p.shelf IN (SELECT value FROM json_each(:shelves))
            AND (p.valid_from > :now OR p.valid_until <= :now)
        LIMIT :most
    )
)
WHERE EXISTS (
    SELECT 1 FROM posting INDEXED BY posting_dead
    WHERE org = :org AND (superseded = 1 OR valid_from IS NOT NULL OR valid_until IS NOT NULL)
);

-- vectors_on_shelves
-- How many vectors of a space stand now: [shelf, vectors], what is not bound to a time and what is.
SELECT json_group_array(json_array(shelf, vectors))
FROM (
    SELECT shelf, vectors FROM embedded
    WHERE org = :org AND space = :space AND shelf IN (SELECT value FROM json_each(:shelves))
    UNION ALL
    SELECT shelf, count(*) FROM vector INDEXED BY vector_timed
    WHERE org = :org AND space = :space AND shelf IN (SELECT value FROM json_each(:shelves))
        AND superseded = 0 AND (valid_from IS NOT NULL OR valid_until IS NOT NULL)
        AND (valid_from IS NULL OR valid_from <= :now) AND (valid_until IS NULL OR :now < valid_until)
    GROUP BY shelf
);

-- spaces
-- How many vectors of each space stand on these shelves at every time.
SELECT space, sum(vectors) FROM embedded
WHERE org = :org AND shelf IN (SELECT value FROM json_each(:shelves))
GROUP BY space HAVING sum(vectors) > 0;

-- lacking
-- Of the :look passages behind a key, those that lack a vector of this space, in order: keys, and whether somebody has them on loan.
SELECT json_group_array(json_array(l.key, EXISTS (
    SELECT 1 FROM loan AS n WHERE n.org = :org AND n.passage = l.key AND n.space = :space
)))
FROM (
    SELECT key, shelf, approved, superseded, spaces FROM passage NOT INDEXED WHERE org = :org AND key > :after ORDER BY key LIMIT :look
) AS l
WHERE l.shelf IN (SELECT value FROM json_each(:shelves)) AND l.approved = 1 AND l.superseded = 0
    AND NOT EXISTS (SELECT 1 FROM json_each(l.spaces) AS e WHERE e.value = :space);

-- end_of_look
-- The last of those :look passages, and how many there are.
SELECT max(key), count(*) FROM (SELECT key FROM passage NOT INDEXED WHERE org = :org AND key > :after ORDER BY key LIMIT :look);

-- texts_of
-- Passages on these shelves with what is embedded of them, in order.
SELECT p.key, m.source, m.id, p.ordinal, m.title, ifnull(p.text, m.text)
FROM json_each(:keys) AS w CROSS JOIN passage AS p ON p.key = w.value CROSS JOIN memory AS m ON m.key = p.memory
WHERE p.org = :org AND p.shelf IN (SELECT value FROM json_each(:shelves))
ORDER BY p.key;

-- held_of
-- How approved passages on these shelves stand, with the spaces of their vectors.
SELECT p.key, p.shelf, p.superseded, p.valid_from, p.valid_until, p.spaces
FROM json_each(:keys) AS w CROSS JOIN passage AS p ON p.key = w.value
WHERE p.org = :org AND p.shelf IN (SELECT value FROM json_each(:shelves)) AND p.approved = 1;

-- held_behind
-- The same of the :look passages behind a key.
SELECT l.key, l.shelf, l.superseded, l.valid_from, l.valid_until, l.spaces
FROM (SELECT * FROM passage NOT INDEXED WHERE org = :org AND key > :after ORDER BY key LIMIT :look) AS l
WHERE l.shelf IN (SELECT value FROM json_each(:shelves)) AND l.approved = 1
ORDER BY l.key;

-- set_spaces
-- The spaces of the vectors of a passage, from now on.
UPDATE passage SET spaces = ?3 WHERE org = ?1 AND key = ?2;

-- add_loan
-- Lends a passage to who embeds it.
INSERT INTO loan (org, passage, space, until) VALUES (?1, ?2, ?3, ?4);

-- end_loan
-- Takes it back.
DELETE FROM loan WHERE org = ?1 AND passage = ?2 AND space = ?3;

-- end_loans
-- Takes back what was lent for long enough.
DELETE FROM loan WHERE org = :org AND until <= :now;

-- every_vector
-- All vectors of a space that stand on these shelves: keys, and the vectors one after the other.
SELECT group_concat(passage, ' '), CAST(group_concat(embedding, '') AS BLOB)
FROM (
    SELECT passage, embedding FROM vector
    WHERE org = :org AND space = :space AND shelf IN (SELECT value FROM json_each(:shelves))
        AND superseded = 0
        AND (valid_from IS NULL OR valid_from <= :now) AND (valid_until IS NULL OR :now < valid_until)
        AND length(embedding) = :bytes
);

-- every_eligible_vector
-- The same of passages that pass the filters.
SELECT group_concat(passage, ' '), CAST(group_concat(embedding, '') AS BLOB)
FROM (
    SELECT passage, embedding FROM vector
    WHERE org = :org AND space = :space AND shelf IN (SELECT value FROM json_each(:shelves))
        AND superseded = 0
        AND (valid_from IS NULL OR valid_from <= :now) AND (valid_until IS NULL OR :now < valid_until)
        AND length(embedding) = :bytes
        AND passage IN (SELECT value FROM carray(:eligible))
);

-- nearest_vectors
-- The :most vectors nearest to the probe of all that stand on these shelves.
SELECT group_concat(passage, ' '), CAST(group_concat(embedding, '') AS BLOB)
FROM (
    SELECT passage, embedding FROM vector
    WHERE org = :org AND space = :space AND shelf IN (SELECT value FROM json_each(:shelves))
        AND superseded = 0
        AND (valid_from IS NULL OR valid_from <= :now) AND (valid_until IS NULL OR :now < valid_until)
        AND length(embedding) = :bytes
    ORDER BY vec_distance_cosine(embedding, :probe) LIMIT :most
);

-- nearest_eligible_vectors
-- The same of passages that pass the filters.
SELECT group_concat(passage, ' '), CAST(group_concat(embedding, '') AS BLOB)
FROM (
    SELECT passage, embedding FROM vector
    WHERE org = :org AND space = :space AND shelf IN (SELECT value FROM json_each(:shelves))
        AND superseded = 0
        AND (valid_from IS NULL OR valid_from <= :now) AND (valid_until IS NULL OR :now < valid_until)
        AND length(embedding) = :bytes
        AND passage IN (SELECT value FROM carray(:eligible))
    ORDER BY vec_distance_cosine(embedding, :probe) LIMIT :most
);

-- eligible
-- The standing passages that pass the filters.
SELECT group_concat(p.key, ' ')
FROM passage AS p JOIN memory AS m ON m.key = p.memory
WHERE p.org = :org AND p.shelf IN (SELECT value FROM json_each(:shelves))
    AND p.approved = 1 AND p.superseded = 0
    AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
    AND (:created_from IS NULL OR m.created_at >= :created_from)
    AND (:created_until IS NULL OR m.created_at < :created_until)
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:all_tags) AS t
        WHERE NOT EXISTS (SELECT 1 FROM tag WHERE org = :org AND memory = p.memory AND tag = t.value)
    )
    AND (:any_tags IS NULL OR EXISTS (
        SELECT 1 FROM json_each(:any_tags) AS t CROSS JOIN tag WHERE tag.org = :org AND tag.memory = p.memory AND tag.tag = t.value
    ))
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:none_tags) AS t CROSS JOIN tag WHERE tag.org = :org AND tag.memory = p.memory AND tag.tag = t.value
    )
    AND p.memory NOT IN (
        SELECT seen.key FROM json_each(:without) AS w CROSS JOIN memory AS seen
        WHERE seen.org = :org AND seen.source = w.value ->> 0 AND seen.id = w.value ->> 1
    );

-- eligible_by_phrase
-- The same when phrases must stand there: starts from where they stand in the org.
SELECT group_concat(p.key, ' ')
FROM phrase AS f CROSS JOIN passage AS p ON p.key = f.rowid CROSS JOIN memory AS m ON m.key = p.memory
WHERE f.phrase MATCH :match
    AND p.org = :org AND p.shelf IN (SELECT value FROM json_each(:shelves))
    AND p.approved = 1 AND p.superseded = 0
    AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
    AND (:created_from IS NULL OR m.created_at >= :created_from)
    AND (:created_until IS NULL OR m.created_at < :created_until)
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:all_tags) AS t
        WHERE NOT EXISTS (SELECT 1 FROM tag WHERE org = :org AND memory = p.memory AND tag = t.value)
    )
    AND (:any_tags IS NULL OR EXISTS (
        SELECT 1 FROM json_each(:any_tags) AS t CROSS JOIN tag WHERE tag.org = :org AND tag.memory = p.memory AND tag.tag = t.value
    ))
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:none_tags) AS t CROSS JOIN tag WHERE tag.org = :org AND tag.memory = p.memory AND tag.tag = t.value
    )
    AND p.memory NOT IN (
        SELECT seen.key FROM json_each(:without) AS w CROSS JOIN memory AS seen
        WHERE seen.org = :org AND seen.source = w.value ->> 0 AND seen.id = w.value ->> 1
    );

-- outlines
-- What ranking needs of these passages, of those that stand in reach: JSON arrays of [key, ordinal, outline].
SELECT '[' || group_concat('[' || p.key || ',' || p.ordinal || ',' || m.outline || ']') || ']'
FROM carray(:keys) AS k CROSS JOIN passage AS p ON p.key = k.value CROSS JOIN memory AS m ON m.key = p.memory
WHERE p.org = :org AND p.shelf IN (SELECT value FROM json_each(:shelves))
    AND p.approved = 1 AND p.superseded = 0
    AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until);

-- around
-- Of each of these passages that is a turn of a conversation and stands in reach: [key, keys made before it, keys made after it].
SELECT json_group_array(json_array(
    p.key,
    json((
        SELECT json_group_array(key) FROM (
            SELECT q.key
            FROM memory AS n INDEXED BY memory_in_time CROSS JOIN passage AS q ON q.memory = n.key AND q.ordinal = 0
            WHERE n.org = :org AND n.shelf = m.shelf AND n.source = 'session'
                AND n.created_at < m.created_at AND n.created_at >= m.created_at - :within
                AND q.approved = 1 AND q.superseded = 0
                AND (q.valid_from IS NULL OR q.valid_from <= :now) AND (q.valid_until IS NULL OR :now < q.valid_until)
            ORDER BY n.created_at DESC, n.id DESC LIMIT :reach
        )
    )),
    json((
        SELECT json_group_array(key) FROM (
            SELECT q.key
            FROM memory AS n INDEXED BY memory_in_time CROSS JOIN passage AS q ON q.memory = n.key AND q.ordinal = 0
            WHERE n.org = :org AND n.shelf = m.shelf AND n.source = 'session'
                AND n.created_at > m.created_at AND n.created_at <= m.created_at + :within
                AND q.approved = 1 AND q.superseded = 0
                AND (q.valid_from IS NULL OR q.valid_from <= :now) AND (q.valid_until IS NULL OR :now < q.valid_until)
            ORDER BY n.created_at, n.id LIMIT :reach
        )
    ))
))
FROM carray(:keys) AS k CROSS JOIN passage AS p ON p.key = k.value CROSS JOIN memory AS m ON m.key = p.memory
CROSS JOIN shelf AS s ON s.id = p.shelf
WHERE p.org = :org AND p.shelf IN (SELECT value FROM json_each(:shelves))
    AND p.approved = 1 AND p.superseded = 0
    AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
    AND m.source = 'session' AND (s.conversation <> '' OR substr(s.scope, 1, 13) = 'conversation:');

-- vocabulary
-- The plain words of a length that stand on these shelves.
SELECT json_group_array(DISTINCT word)
FROM vocabulary
WHERE org = :org AND shelf IN (SELECT value FROM json_each(:shelves)) AND letters BETWEEN :shortest AND :longest;

-- read
-- These passages with the label and the provenance they have now.
SELECT
    m.source, m.id, p.ordinal, p.starts, p.ends, ifnull(p.text, m.text), m.version, m.shelf, m.approval, m.superseded,
    m.valid_from, m.valid_until, m.expires_at, m.title, m.created_at, m.ended_at, m.importance, m.pinned, m.status, m.trust,
    m.origin, m.tags, m.claims, m.disputes, m.derived_from, s.scope, s.project, s.conversation
FROM json_each(:passages) AS w
CROSS JOIN memory AS m ON m.org = :org AND m.source = w.value ->> 0 AND m.id = w.value ->> 1
CROSS JOIN passage AS p ON p.memory = m.key AND p.ordinal = w.value ->> 2
CROSS JOIN shelf AS s ON s.id = m.shelf
WHERE p.org = :org AND m.shelf IN (SELECT value FROM json_each(:shelves));

-- passages_of
-- The passages of an approved memory in reach, also of one that was superseded or whose time is not now.
SELECT p.ordinal
FROM memory AS m JOIN passage AS p ON p.memory = m.key
WHERE m.org = :org AND m.source = :name ->> 0 AND m.id = :name ->> 1 AND m.shelf IN (SELECT value FROM json_each(:shelves))
    AND m.approval = 'approved'
ORDER BY p.ordinal;

-- brief_facts
-- Standing facts, pinned or not, the most important first.
SELECT source_id FROM (
    SELECT json_array('fact', m.id, (SELECT min(p.ordinal) FROM passage AS p WHERE p.memory = m.key)) AS source_id, m.importance, m.id
    FROM memory AS m INDEXED BY memory_by_shelf
    WHERE m.org = :org AND m.shelf IN (SELECT value FROM json_each(:shelves)) AND m.pinned = :pinned
        AND m.approval = 'approved' AND m.superseded = 0
        AND (m.valid_from IS NULL OR m.valid_from <= :now)
        AND (m.valid_until IS NULL OR :now < m.valid_until) AND (m.expires_at IS NULL OR :now < m.expires_at)
        AND EXISTS (SELECT 1 FROM passage AS p WHERE p.memory = m.key)
    ORDER BY m.importance DESC, m.id LIMIT :most
) ORDER BY importance DESC, id;

-- brief_sessions
-- Standing sessions, the latest first.
SELECT source_id FROM (
    SELECT json_array('session', m.id, (SELECT min(p.ordinal) FROM passage AS p WHERE p.memory = m.key)) AS source_id, m.aged_from, m.id
    FROM memory AS m INDEXED BY memory_by_shelf
    WHERE m.org = :org AND m.shelf IN (SELECT value FROM json_each(:shelves))
        AND m.approval = 'approved' AND m.superseded = 0
        AND (m.valid_from IS NULL OR m.valid_from <= :now)
        AND (m.valid_until IS NULL OR :now < m.valid_until) AND (m.expires_at IS NULL OR :now < m.expires_at)
        AND EXISTS (SELECT 1 FROM passage AS p WHERE p.memory = m.key)
    ORDER BY m.aged_from DESC, m.id LIMIT :most
) ORDER BY aged_from DESC, id;

-- here
-- Which of the named memories are here, by their places in the list.
SELECT json_group_array(w.key)
FROM json_each(:names) AS w CROSS JOIN memory AS m ON m.org = :org AND m.source = w.value ->> 0 AND m.id = w.value ->> 1;

-- memory_of
-- A memory as a write finds it.
SELECT key, shelf, version, digest, superseded, approval, trust FROM memory WHERE org = :org AND source = :source AND id = :id;

-- receipt_of
-- What became of an actor's first write with this key.
SELECT source, id, digest, written, version FROM receipt WHERE org = :org AND actor = :actor AND key = :key;

-- add_receipt
-- Remembers what became of an actor's first write with a key.
INSERT INTO receipt (org, actor, key, source, id, digest, written, version)
VALUES (:org, :actor, :key, :source, :id, :digest, :written, :version);

-- tombstone_of
-- Whether a key was forgotten.
SELECT 1 FROM tombstone WHERE org = :org AND mark = :mark;

-- shelf_at
-- The number of a shelf.
SELECT id FROM shelf
WHERE org = :org AND scope = :scope AND source = :source AND project = :project AND conversation = :conversation;

-- shelf_under
-- What a number of a shelf stands for.
SELECT scope, source, project, conversation FROM shelf WHERE org = :org AND id = :shelf;

-- add_shelf
-- A new shelf.
INSERT INTO shelf (org, scope, source, project, conversation) VALUES (:org, :scope, :source, :project, :conversation) RETURNING id;

-- count_on_shelf
-- Adds to what stands on a shelf at every time.
UPDATE shelf SET passages = passages + :passages, words = words + :words WHERE org = :org AND id = :shelf;

-- last_keys
-- The highest numbers that memories and passages ever had, so that none is given twice.
SELECT ifnull(max(seq) FILTER (WHERE name = 'memory'), 0), ifnull(max(seq) FILTER (WHERE name = 'passage'), 0) FROM sqlite_sequence;

-- add_memory
-- A memory, new or in place of its earlier version.
INSERT OR REPLACE INTO memory (
    key, org, source, id, shelf, version, digest, approval, superseded, valid_from, valid_until, expires_at, created_at, ended_at,
    aged_from, importance, pinned, status, trust, outline, actor, written_at, write_key, title, origin, aliases, tags, claims,
    supersedes, disputes, derived_from, text
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28,
    ?29, ?30, ?31, ?32
);

-- mark_memory
-- Marks a memory as superseded, or takes the mark back.
UPDATE memory SET superseded = :superseded WHERE org = :org AND key = :memory;

-- mark_passages
-- The same of its passages.
UPDATE passage SET superseded = :superseded WHERE org = :org AND memory = :memory;

-- mark_posting
-- The same of one place of a word.
UPDATE posting SET superseded = ?5 WHERE org = ?1 AND word = ?2 AND shelf = ?3 AND passage = ?4;

-- mark_vector
-- The same of a vector.
UPDATE vector SET superseded = ?5 WHERE org = ?1 AND space = ?2 AND shelf = ?3 AND passage = ?4;

-- keep_version
-- Puts the version that stands into the history, before another takes its place.
INSERT INTO past (org, memory, number, what, version, actor, at, digest, title, text)
SELECT
    :org, key, (SELECT ifnull(max(number), 0) + 1 FROM past WHERE org = :org AND memory = :memory),
    iif(version = 1, 'stored', 'replaced'), version, actor, written_at, digest, title, text
FROM memory WHERE org = :org AND key = :memory;

-- add_past
-- One more event of a history.
INSERT INTO past (org, memory, number, what, version, actor, at, digest, title, text, by)
VALUES (
    :org, :memory, (SELECT ifnull(max(number), 0) + 1 FROM past WHERE org = :org AND memory = :memory),
    :what, :version, :actor, :at, :digest, :title, :text, :by
);

-- past_of
-- The history of memories but for the versions that stand, in order.
SELECT memory, what, version, actor, at, digest, title, text, by
FROM past WHERE org = :org AND memory IN (SELECT value FROM json_each(:memories))
ORDER BY memory, number;

-- keys_of
-- The keys that memories were written with, by whom, and what the first write with each was told.
SELECT m.key, r.actor, r.key, r.digest, r.written, r.version
FROM json_each(:memories) AS w CROSS JOIN memory AS m ON m.key = w.value CROSS JOIN receipt AS r ON r.source = m.source AND r.id = m.id
WHERE m.org = :org AND r.org = :org
ORDER BY m.key, r.key, r.actor;

-- any_derived
-- Whether anything in the org is derived from anything.
SELECT 1 FROM derived WHERE org = :org LIMIT 1;

-- add_derived
-- Notes what a memory is derived from.
INSERT OR IGNORE INTO derived (org, source, id, memory) VALUES (?1, ?2, ?3, ?4);

-- lower
-- Whatever is derived from a memory, and from that again, is trusted no more than it.
WITH RECURSIVE lowered (key) AS (
    SELECT memory FROM derived WHERE org = :org AND source = :source AND id = :id
    UNION
    SELECT d.memory
    FROM lowered AS l CROSS JOIN memory AS m ON m.key = l.key CROSS JOIN derived AS d ON d.source = m.source AND d.id = m.id
    WHERE m.org = :org AND d.org = :org
)
UPDATE memory SET trust = :trust
WHERE org = :org AND key IN (SELECT key FROM lowered) AND trust IN (SELECT value FROM json_each(:above));

-- references_of
-- What a memory supersedes and disputes.
SELECT supersedes, disputes FROM memory WHERE org = :org AND key = :memory;

-- set_supersedes
-- What it supersedes, from now on.
UPDATE memory SET supersedes = :names WHERE org = :org AND key = :memory;

-- set_disputes
-- What it disputes, from now on.
UPDATE memory SET disputes = :names WHERE org = :org AND key = :memory;

-- set_approval
-- Whether it is approved, from now on.
UPDATE memory SET approval = :approval WHERE org = :org AND key = :memory;

-- withdraw_passages
-- Its passages stand in no index any more.
UPDATE passage SET approved = 0 WHERE org = :org AND memory = :memory;

-- meant
-- The memories on these shelves for which every stated condition holds.
SELECT m.key, m.shelf, m.source, m.id
FROM memory AS m CROSS JOIN shelf AS s ON s.id = m.shelf
WHERE m.org = :org AND m.shelf IN (SELECT value FROM json_each(:shelves))
    AND (:scope IS NULL OR s.scope = :scope)
    AND (:origin IS NULL OR m.origin ->> 'uri' = :origin)
    AND (:actor IS NULL OR m.actor = :actor)
    AND (:expired = 0 OR m.expires_at <= :now)
ORDER BY m.key;

-- parts_of
-- How much there is of memories: passages, places of words and vectors in the indexes, tags, events, keys.
SELECT
    (SELECT count(*) FROM passage WHERE org = :org AND memory IN (SELECT value FROM json_each(:memories))),
    (
        SELECT ifnull(sum(json_array_length(words)), 0) FROM passage
        WHERE org = :org AND memory IN (SELECT value FROM json_each(:memories)) AND approved = 1
    ),
    (
        SELECT ifnull(sum(json_array_length(spaces)), 0) FROM passage
        WHERE org = :org AND memory IN (SELECT value FROM json_each(:memories)) AND approved = 1
    ),
    (SELECT count(*) FROM tag WHERE org = :org AND memory IN (SELECT value FROM json_each(:memories))),
    (SELECT count(*) FROM past WHERE org = :org AND memory IN (SELECT value FROM json_each(:memories))),
    (
        SELECT count(*)
        FROM json_each(:memories) AS w
        CROSS JOIN memory AS m ON m.key = w.value CROSS JOIN receipt AS r ON r.source = m.source AND r.id = m.id
        WHERE m.org = :org AND r.org = :org
    );

-- count_earlier
-- How many versions an actor wrote that others replaced.
SELECT count(*) FROM past WHERE org = :org AND memory IN (SELECT value FROM json_each(:memories)) AND digest <> '' AND actor = :actor;

-- drop_earlier
-- Removes them.
DELETE FROM past WHERE org = :org AND memory IN (SELECT value FROM json_each(:memories)) AND digest <> '' AND actor = :actor;

-- add_tombstone
-- What is left of a key that is forgotten.
INSERT OR IGNORE INTO tombstone (org, mark) VALUES (?1, ?2);

-- drop_receipt
-- Removes what became of a key.
DELETE FROM receipt WHERE org = ?1 AND actor = ?2 AND key = ?3;

-- drop_past
-- Removes the history of a memory.
DELETE FROM past WHERE org = :org AND memory = :memory;

-- drop_derived
-- Removes what a memory is derived from.
DELETE FROM derived WHERE org = :org AND memory = :memory;

-- forget_names
-- Takes the names of memories out of the histories of others.
UPDATE past SET by = NULL WHERE org = :org AND by IN (SELECT value FROM json_each(:names));

-- drop_memory
-- Removes a memory.
DELETE FROM memory WHERE org = :org AND key = :memory;

-- drop_counts
-- Removes the counters of shelves on which no memory is left.
DELETE FROM embedded WHERE org = :org AND shelf IN (SELECT value FROM json_each(:shelves))
    AND NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.org = :org AND m.shelf = embedded.shelf);

-- drop_shelves
-- Removes those shelves.
DELETE FROM shelf WHERE org = :org AND id IN (SELECT value FROM json_each(:shelves))
    AND NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.org = :org AND m.shelf = shelf.id);

-- merge_phrases
-- Writes the phrase index anew in one piece, of all orgs, so that no word of a passage that is gone is left in the file.
INSERT INTO phrase (phrase) VALUES ('optimize');

-- passages_kept
-- What the indexes hold for the passages of a memory.
SELECT key, shelf, approved, superseded, valid_from, valid_until, length, spaces, words
FROM passage WHERE org = :org AND memory = :memory;

-- add_passage
-- A passage.
INSERT INTO passage (
    key, org, memory, ordinal, shelf, approved, superseded, valid_from, valid_until, length, starts, ends, spaces, text, words
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15);

-- add_posting
-- One place of a word.
INSERT INTO posting (org, word, shelf, passage, superseded, valid_from, valid_until, entry) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- add_vector
-- The vector of a passage in one space.
INSERT INTO vector (org, space, shelf, passage, superseded, valid_from, valid_until, embedding) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- add_phrases
-- The words of a passage in their order.
INSERT INTO phrase (rowid, org, words) VALUES (?1, ?2, ?3);

-- add_tag
-- A tag of a memory.
INSERT OR IGNORE INTO tag (org, memory, tag) VALUES (?1, ?2, ?3);

-- use_word
-- Counts the uses of a word on a shelf, up or down.
INSERT INTO vocabulary (org, shelf, letters, word, uses) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO UPDATE SET uses = uses + excluded.uses;

-- forget_word
-- Lets a word go that stands nowhere on the shelf any more.
DELETE FROM vocabulary WHERE org = ?1 AND shelf = ?2 AND letters = ?3 AND word = ?4 AND uses <= 0;

-- count_vectors
-- Adds to how many vectors of a space stand on a shelf at every time.
INSERT INTO embedded (org, space, shelf, vectors) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO UPDATE SET vectors = vectors + excluded.vectors;

-- drop_posting
-- Removes one place of a word.
DELETE FROM posting WHERE org = ?1 AND word = ?2 AND shelf = ?3 AND passage = ?4;

-- drop_vector
-- Removes a vector.
DELETE FROM vector WHERE org = ?1 AND space = ?2 AND shelf = ?3 AND passage = ?4;

-- drop_phrases
-- Removes the words of a passage in their order; the number is the passage's, which the caller found in its org.
DELETE FROM phrase WHERE rowid = ?1;

-- drop_passages
-- Removes the passages of a memory.
DELETE FROM passage WHERE org = :org AND memory = :memory;

-- drop_tags
-- Removes the tags of a memory.
DELETE FROM tag WHERE org = :org AND memory = :memory;

-- records
-- Everything stated of the memories behind one of them, over all orgs: for the host's own maintenance.
SELECT
    m.org, m.source, m.id, m.approval, m.superseded, m.valid_from, m.valid_until, m.expires_at, m.title, m.text, m.created_at,
    m.digest, m.actor, m.ended_at, m.importance, m.pinned, m.status, m.trust, m.origin, m.aliases, m.tags, m.claims, m.supersedes,
    m.disputes, m.derived_from, m.write_key, s.scope, s.project, s.conversation
FROM memory AS m JOIN shelf AS s ON s.id = m.shelf
WHERE (m.org, m.source, m.id) > (:org, :source, :id)
ORDER BY m.org, m.source, m.id LIMIT :most;

-- wholes
-- Everything stated of these memories, of those in reach, with their version, when it was written, and their number.
SELECT
    m.org, m.source, m.id, m.approval, m.superseded, m.valid_from, m.valid_until, m.expires_at, m.title, m.text, m.created_at,
    m.digest, m.actor, m.ended_at, m.importance, m.pinned, m.status, m.trust, m.origin, m.aliases, m.tags, m.claims, m.supersedes,
    m.disputes, m.derived_from, m.write_key, s.scope, s.project, s.conversation, m.version, m.written_at, m.key
FROM json_each(:names) AS w
CROSS JOIN memory AS m ON m.org = :org AND m.source = w.value ->> 0 AND m.id = w.value ->> 1
CROSS JOIN shelf AS s ON s.id = m.shelf
WHERE m.shelf IN (SELECT value FROM json_each(:shelves));

-- wholes_behind
-- The same of the next :most memories in reach behind one of them.
SELECT
    m.org, m.source, m.id, m.approval, m.superseded, m.valid_from, m.valid_until, m.expires_at, m.title, m.text, m.created_at,
    m.digest, m.actor, m.ended_at, m.importance, m.pinned, m.status, m.trust, m.origin, m.aliases, m.tags, m.claims, m.supersedes,
    m.disputes, m.derived_from, m.write_key, s.scope, s.project, s.conversation, m.version, m.written_at, m.key
FROM memory AS m CROSS JOIN shelf AS s ON s.id = m.shelf
WHERE m.org = :org AND (m.source, m.id) > (:source, :id) AND m.shelf IN (SELECT value FROM json_each(:shelves))
ORDER BY m.source, m.id LIMIT :most;

-- roots
-- Folders and files in which `file:` origins may be read.
SELECT path FROM root WHERE org = :org ORDER BY path;

-- add_root
-- Allows one more.
INSERT OR IGNORE INTO root (org, path) VALUES (:org, :path);

-- drop_root
-- Allows one less; a row when it was one.
DELETE FROM root WHERE org = :org AND path = :path RETURNING 1;

-- grant
-- Grants an actor a scope.
INSERT OR IGNORE INTO granted (org, actor, scope) VALUES (:org, :actor, :scope);

-- revoke
-- Takes a grant back; a row when there was one.
DELETE FROM granted WHERE org = :org AND actor = :actor AND scope = :scope RETURNING scope;

-- granted
-- The scopes of an actor.
SELECT scope FROM granted WHERE org = :org AND actor = :actor ORDER BY scope;

-- setting
-- A setting of the store.
SELECT value FROM setting WHERE name = :name;

-- set
-- Sets it.
INSERT OR REPLACE INTO setting (name, value) VALUES (:name, :value);

-- applied
-- The migrations this store had.
SELECT number, checksum FROM migration;

-- add_migration
-- Notes a migration.
INSERT INTO migration (number, name, checksum) VALUES (:number, :name, :checksum);

-- missing_postings
-- Passages of approved memories whose words do not all stand in the index.
SELECT count(*) FROM passage AS p
WHERE p.approved = 1 AND EXISTS (
    SELECT 1 FROM json_each(p.words) AS w
    WHERE NOT EXISTS (SELECT 1 FROM posting AS x WHERE x.org = p.org AND x.word = w.value AND x.shelf = p.shelf AND x.passage = p.key)
);

-- orphan_postings
-- Places of words whose passage is not there, or stands otherwise than the index says.
SELECT count(*) FROM posting AS x
WHERE NOT EXISTS (
    SELECT 1 FROM passage AS p
    WHERE p.key = x.passage AND p.org = x.org AND p.shelf = x.shelf AND p.approved = 1 AND p.superseded = x.superseded
        AND p.valid_from IS x.valid_from AND p.valid_until IS x.valid_until
);

-- missing_vectors
-- Passages of approved memories that should have a vector and have none.
SELECT count(*) FROM passage AS p
WHERE p.approved = 1 AND EXISTS (
    SELECT 1 FROM json_each(p.spaces) AS w
    WHERE NOT EXISTS (SELECT 1 FROM vector AS x WHERE x.org = p.org AND x.space = w.value AND x.shelf = p.shelf AND x.passage = p.key)
);

-- orphan_vectors
-- Vectors whose passage is not there, or stands otherwise than the index says.
SELECT count(*) FROM vector AS x
WHERE NOT EXISTS (
    SELECT 1 FROM passage AS p
    WHERE p.key = x.passage AND p.org = x.org AND p.shelf = x.shelf AND p.approved = 1 AND p.superseded = x.superseded
        AND p.valid_from IS x.valid_from AND p.valid_until IS x.valid_until
);

-- missing_phrases
-- Passages of approved memories that the phrase index does not know.
SELECT count(*) FROM passage AS p
WHERE p.approved = 1 AND NOT EXISTS (SELECT 1 FROM phrase_docsize AS d WHERE d.id = p.key);

-- orphan_phrases
-- Rows of the phrase index that belong to no passage.
SELECT count(*) FROM phrase_docsize AS d
WHERE NOT EXISTS (SELECT 1 FROM passage AS p WHERE p.key = d.id AND p.approved = 1);

-- miscounted_shelves
-- Shelves whose counters are not what stands on them.
SELECT count(*) FROM shelf AS s
LEFT JOIN (
    SELECT shelf, count(*) AS passages, sum(length) AS words FROM passage
    WHERE approved = 1 AND superseded = 0 AND valid_from IS NULL AND valid_until IS NULL GROUP BY shelf
) AS c ON c.shelf = s.id
WHERE (s.passages, s.words) <> (ifnull(c.passages, 0), ifnull(c.words, 0));

-- miscounted_vectors
-- Counters of vectors that are not what stands there.
SELECT count(*) FROM embedded AS e
WHERE e.vectors <> (
    SELECT count(*) FROM vector AS v
    WHERE v.org = e.org AND v.space = e.space AND v.shelf = e.shelf
        AND v.superseded = 0 AND v.valid_from IS NULL AND v.valid_until IS NULL
);

-- miscounted_words
-- Words of the vocabulary that are used otherwise than it says.
SELECT count(*) FROM vocabulary AS v
WHERE v.uses <> (SELECT count(*) FROM posting AS x WHERE x.org = v.org AND x.word = v.word AND x.shelf = v.shelf);

-- orphan_past
-- Rows of histories, tags and descents whose memory is not there.
SELECT
    (SELECT count(*) FROM past AS p WHERE NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.org = p.org AND m.key = p.memory))
    + (SELECT count(*) FROM derived AS d WHERE NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.org = d.org AND m.key = d.memory))
    + (SELECT count(*) FROM tag AS t WHERE NOT EXISTS (SELECT 1 FROM memory AS m WHERE m.org = t.org AND m.key = t.memory));

-- check_phrases
-- FTS5's own look at its index; it raises when something is wrong.
INSERT INTO phrase (phrase, rank) VALUES ('integrity-check', 1);
