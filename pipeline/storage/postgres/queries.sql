-- The statements of the Postgres store. Every block that touches the data of an org says which one, and every transaction says on whose
-- behalf besides, which row security checks again. Tables are named with their schema.
-- A search resolves the shelves in reach first; its other statements take them as :shelves. What looks memories up by name applies the
-- visibility rule to the shelf of each. Long answers come back as one row of arrays, or as JSON.

-- set_up
-- Sets a transaction that reads up, for itself alone: time limit, role, where names are looked for, identity. Its statements are written so
-- that one plan, by the indexes, is right for every org.
SELECT pg_catalog.set_config('statement_timeout', :milliseconds, true), pg_catalog.set_config('role', :role, true),
    pg_catalog.set_config('search_path', :path, true), pg_catalog.set_config('app.org', :org, true),
    pg_catalog.set_config('app.scopes', :scopes, true), pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true),
    pg_catalog.set_config('enable_seqscan', 'off', true);

-- who
-- The identity of this transaction, as the database knows it.
SELECT current_user::text, current_setting('app.org', true), current_setting('app.scopes', true);

-- anything_seen
-- Whether anything at all is to be seen: it must not be, for who is nobody or made up.
SELECT EXISTS (SELECT 1 FROM remit.shelf) OR EXISTS (SELECT 1 FROM remit.memory) OR EXISTS (SELECT 1 FROM remit.passage)
    OR EXISTS (SELECT 1 FROM remit.posting) OR EXISTS (SELECT 1 FROM remit.vocabulary) OR EXISTS (SELECT 1 FROM remit.phrase)
    OR EXISTS (SELECT 1 FROM remit.tag) OR EXISTS (SELECT 1 FROM remit.receipt) OR EXISTS (SELECT 1 FROM remit.grants)
    OR EXISTS (SELECT 1 FROM remit.past) OR EXISTS (SELECT 1 FROM remit.derived) OR EXISTS (SELECT 1 FROM remit.tombstone)
    OR EXISTS (SELECT 1 FROM remit.tenant) OR EXISTS (SELECT 1 FROM remit.loan);

-- left_of_grants
-- NULL while an actor is granted all that is listed ('*' stands for all of its org); else what is left to it, as JSON.
WITH held AS (SELECT g.scope FROM remit.grants AS g WHERE g.org = :org AND g.actor = :actor)
SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM held WHERE scope = '*') AND EXISTS (
    SELECT w.scope COLLATE "C" FROM unnest(:granted::text[]) AS w(scope) WHERE w.scope <> 'global' EXCEPT SELECT scope FROM held
) THEN coalesce((SELECT json_agg(scope) FROM held), '[]'::json)::text END;

-- reached_of_all
-- The shelves in reach of an access to every scope of its org, as JSON: [id, source, passages, words, vectors, whether they are turns of a
-- conversation] of each.
SELECT '[' || string_agg(
    '[' || s.id || ',"' || s.source || '",' || s.passages || ',' || s.words || ',' || s.vectors || ','
    || (s.source = 'session' AND (s.conversation <> '' OR starts_with(s.scope, 'conversation:')))::text || ']', ',' ORDER BY s.id
) || ']'
FROM remit.shelf AS s
WHERE s.org = :org
    AND s.source = ANY (:sources::text[])
    AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
    AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])));

-- reached_of_granted
-- The same for an access to listed scopes, `global` among them.
SELECT '[' || string_agg(
    '[' || s.id || ',"' || s.source || '",' || s.passages || ',' || s.words || ',' || s.vectors || ','
    || (s.source = 'session' AND (s.conversation <> '' OR starts_with(s.scope, 'conversation:')))::text || ']', ',' ORDER BY s.id
) || ']'
FROM remit.shelf AS s
WHERE s.org = :org
    AND s.scope = ANY (:granted::text[])
    AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
    AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
    AND s.source = ANY (:sources::text[])
    AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
    AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])));

-- in_their_time
-- What is bound to a time and stands now, as JSON: [shelf, spaces, passages, words] of each kind.
SELECT '[' || string_agg('[' || t.shelf || ',' || t.spaces || ',' || t.passages || ',' || t.words || ']', ',') || ']'
FROM (
    SELECT shelf, spaces, count(*) AS passages, sum(length) AS words
    FROM remit.passage
    WHERE org = :org AND shelf = ANY (:shelves::bigint[])
        AND approved AND NOT superseded AND (valid_from IS NOT NULL OR valid_until IS NOT NULL)
        AND (valid_from IS NULL OR valid_from <= :now) AND (valid_until IS NULL OR :now < valid_until)
    GROUP BY shelf, spaces
) AS t;

-- find_words
-- Where the words stand now, at most :most places: triples of the word's number, the passage and the entry, packed.
SELECT string_agg(int8send(f.place) || int8send(f.passage) || int8send(f.entry), '')
FROM (
    SELECT w.place, p.passage, p.entry
    FROM unnest(:words::text[]) WITH ORDINALITY AS w(word, place) CROSS JOIN LATERAL (
        SELECT p.passage, p.entry
        FROM remit.posting AS p
        WHERE p.org = :org AND p.word = w.word AND p.shelf = ANY (:shelves::bigint[])
            AND NOT p.superseded
            AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
        LIMIT :most
    ) AS p
    LIMIT :most
) AS f;

-- count_words
-- In how many places each word stands now, counted up to :most: numbers of the words, and counts.
SELECT array_agg(w.place), array_agg(p.places)
FROM unnest(:words::text[]) WITH ORDINALITY AS w(word, place) CROSS JOIN LATERAL (
    SELECT count(*) AS places
    FROM (
        SELECT 1
        FROM remit.posting AS p
        WHERE p.org = :org AND p.word = w.word AND p.shelf = ANY (:shelves::bigint[])
            AND NOT p.superseded
            AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
        LIMIT :most
    ) AS p
) AS p;

-- dead
-- How many passages hold a word but are superseded, how many are outside their time, and in how many places together: of at most :most.
SELECT count(DISTINCT d.passage) FILTER (WHERE d.superseded), count(DISTINCT d.passage) FILTER (WHERE NOT d.superseded), count(*)
FROM (
    SELECT p.passage, p.superseded
    FROM remit.posting AS p
    WHERE p.org = :org AND p.word = ANY (:words::text[]) AND p.shelf = ANY (:shelves::bigint[])
        AND (p.superseded OR p.valid_from IS NOT NULL OR p.valid_until IS NOT NULL)
        AND (p.superseded OR p.valid_from > :now OR p.valid_until <= :now)
    LIMIT :most
) AS d;

-- many_dead
-- The same where these are more, each counted up to :most.
SELECT least(:most, (
    SELECT count(DISTINCT d.passage)
    FROM unnest(:words::text[]) AS w(word) CROSS JOIN LATERAL (
        SELECT p.passage
        FROM remit.posting AS p
        WHERE p.org = :org AND p.word = w.word AND p.shelf = ANY (:shelves::bigint[]) AND p.superseded
        LIMIT :most
    ) AS d
)), least(:most, (
    SELECT count(DISTINCT d.passage)
    FROM unnest(:words::text[]) AS w(word) CROSS JOIN LATERAL (
        SELECT p.passage
        FROM remit.posting AS p
        WHERE p.org = :org AND p.word = w.word AND p.shelf = ANY (:shelves::bigint[]) AND NOT p.superseded
            AND (p.valid_from IS NOT NULL OR p.valid_until IS NOT NULL) AND (p.valid_from > :now OR p.valid_until <= :now)
        LIMIT :most
    ) AS d
));

-- find_words_of_org
-- The same for all of an org, without going shelf by shelf.
SELECT string_agg(int8send(f.place) || int8send(f.passage) || int8send(f.entry), '')
FROM (
    SELECT w.place, p.passage, p.entry
    FROM unnest(:words::text[]) WITH ORDINALITY AS w(word, place) CROSS JOIN LATERAL (
        SELECT p.passage, p.entry
        FROM remit.posting AS p
        WHERE p.org = :org AND p.word = w.word
            AND NOT p.superseded
            AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
        LIMIT :most
    ) AS p
    LIMIT :most
) AS f;

-- count_words_of_org
-- The same for all of an org.
SELECT array_agg(w.place), array_agg(p.places)
FROM unnest(:words::text[]) WITH ORDINALITY AS w(word, place) CROSS JOIN LATERAL (
    SELECT count(*) AS places
    FROM (
        SELECT 1
        FROM remit.posting AS p
        WHERE p.org = :org AND p.word = w.word
            AND NOT p.superseded
            AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
        LIMIT :most
    ) AS p
) AS p;

-- dead_of_org
-- The same for all of an org.
SELECT count(DISTINCT d.passage) FILTER (WHERE d.superseded), count(DISTINCT d.passage) FILTER (WHERE NOT d.superseded), count(*)
FROM (
    SELECT p.passage, p.superseded
    FROM remit.posting AS p
    WHERE p.org = :org AND p.word = ANY (:words::text[])
        AND (p.superseded OR p.valid_from IS NOT NULL OR p.valid_until IS NOT NULL)
        AND (p.superseded OR p.valid_from > :now OR p.valid_until <= :now)
    LIMIT :most
) AS d;

-- many_dead_of_org
-- The same for all of an org.
SELECT least(:most, (
    SELECT count(DISTINCT d.passage)
    FROM unnest(:words::text[]) AS w(word) CROSS JOIN LATERAL (
        SELECT p.passage
        FROM remit.posting AS p
        WHERE p.org = :org AND p.word = w.word AND p.superseded
        LIMIT :most
    ) AS d
)), least(:most, (
    SELECT count(DISTINCT d.passage)
    FROM unnest(:words::text[]) AS w(word) CROSS JOIN LATERAL (
        SELECT p.passage
        FROM remit.posting AS p
        WHERE p.org = :org AND p.word = w.word AND NOT p.superseded
            AND (p.valid_from IS NOT NULL OR p.valid_until IS NOT NULL) AND (p.valid_from > :now OR p.valid_until <= :now)
        LIMIT :most
    ) AS d
));

-- whole_local
-- All vectors of a source in scope, each compared: how many, and those at most :farthest from the probe. No order, and no index.
SELECT count(*), array_agg(n.passage) FILTER (WHERE n.near), string_agg(n.exact, '') FILTER (WHERE n.near)
FROM (
    SELECT v.passage, v.exact, (v.embedding <=> :probe::vector) <= :farthest::float8 AS near
    FROM remit.vector_local AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source AND v.shelf = ANY (:shelves::bigint[])
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    OFFSET 0
) AS n;

-- whole_local_of_org
-- The same for all of an org.
SELECT count(*), array_agg(n.passage) FILTER (WHERE n.near), string_agg(n.exact, '') FILTER (WHERE n.near)
FROM (
    SELECT v.passage, v.exact, (v.embedding <=> :probe::vector) <= :farthest::float8 AS near
    FROM remit.vector_local AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    OFFSET 0
) AS n;

-- whole_semantic
-- All vectors of a source in scope, each compared: how many, and those at most :farthest from the probe. No order, and no index.
SELECT count(*), array_agg(n.passage) FILTER (WHERE n.near), string_agg(halfvec_send(n.embedding), '') FILTER (WHERE n.near)
FROM (
    SELECT v.passage, v.embedding, (v.embedding <=> :probe::halfvec) <= :farthest::float8 AS near
    FROM remit.vector_semantic AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source AND v.shelf = ANY (:shelves::bigint[])
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    OFFSET 0
) AS n;

-- whole_semantic_of_org
-- The same for all of an org.
SELECT count(*), array_agg(n.passage) FILTER (WHERE n.near), string_agg(halfvec_send(n.embedding), '') FILTER (WHERE n.near)
FROM (
    SELECT v.passage, v.embedding, (v.embedding <=> :probe::halfvec) <= :farthest::float8 AS near
    FROM remit.vector_semantic AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    OFFSET 0
) AS n;

-- nearest_local
-- The :most nearest to the probe of all vectors of a source in scope: an exact pass, for `+ 0` keeps the planner off the index.
SELECT array_agg(n.passage), string_agg(n.exact, '')
FROM (
    SELECT v.passage, v.exact
    FROM remit.vector_local AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source AND v.shelf = ANY (:shelves::bigint[])
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    ORDER BY (v.embedding <=> :probe::vector) + 0 LIMIT :most
) AS n;

-- approximate_local
-- About the :most nearest, by the index.
SELECT array_agg(n.passage), string_agg(n.exact, '')
FROM (
    SELECT v.passage, v.exact
    FROM remit.vector_local AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source AND v.shelf = ANY (:shelves::bigint[])
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    ORDER BY v.embedding <=> :probe::vector LIMIT :most
) AS n;

-- nearest_local_of_org
-- The same for all of an org.
SELECT array_agg(n.passage), string_agg(n.exact, '')
FROM (
    SELECT v.passage, v.exact
    FROM remit.vector_local AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    ORDER BY (v.embedding <=> :probe::vector) + 0 LIMIT :most
) AS n;

-- approximate_local_of_org
-- The same for all of an org.
SELECT array_agg(n.passage), string_agg(n.exact, '')
FROM (
    SELECT v.passage, v.exact
    FROM remit.vector_local AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    ORDER BY v.embedding <=> :probe::vector LIMIT :most
) AS n;

-- eligible_local
-- The :most nearest of the passages that pass the filters.
SELECT array_agg(n.passage), string_agg(n.exact, '')
FROM (
    SELECT v.passage, v.exact
    FROM remit.vector_local AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source AND v.shelf = ANY (:shelves::bigint[])
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
        AND v.passage IN (SELECT unnest(:eligible::bigint[]))
    ORDER BY (v.embedding <=> :probe::vector) + 0 LIMIT :most
) AS n;

-- recent_local
-- The :most nearest of the :room vectors of a source that were written last, where there is no index.
SELECT array_agg(n.passage), string_agg(n.exact, '')
FROM (
    SELECT r.passage, r.exact
    FROM (
        SELECT v.passage, v.embedding, v.exact
        FROM remit.vector_local AS v
        WHERE v.org = :org AND v.space = :space AND v.source = :source AND v.shelf = ANY (:shelves::bigint[])
            AND NOT v.superseded AND v.dimensions = :dimensions
            AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
        ORDER BY v.passage DESC LIMIT :room
    ) AS r
    ORDER BY (r.embedding <=> :probe::vector) + 0 LIMIT :most
) AS n;

-- nearest_semantic
-- The :most nearest to the probe of all vectors of a source in scope: an exact pass, for `+ 0` keeps the planner off the index.
SELECT array_agg(n.passage), string_agg(halfvec_send(n.embedding), '')
FROM (
    SELECT v.passage, v.embedding
    FROM remit.vector_semantic AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source AND v.shelf = ANY (:shelves::bigint[])
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    ORDER BY (v.embedding <=> :probe::halfvec) + 0 LIMIT :most
) AS n;

-- approximate_semantic
-- About the :most nearest, by the index.
SELECT array_agg(n.passage), string_agg(halfvec_send(n.embedding), '')
FROM (
    SELECT v.passage, v.embedding
    FROM remit.vector_semantic AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source AND v.shelf = ANY (:shelves::bigint[])
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    ORDER BY v.embedding <=> :probe::halfvec LIMIT :most
) AS n;

-- nearest_semantic_of_org
-- The same for all of an org.
SELECT array_agg(n.passage), string_agg(halfvec_send(n.embedding), '')
FROM (
    SELECT v.passage, v.embedding
    FROM remit.vector_semantic AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    ORDER BY (v.embedding <=> :probe::halfvec) + 0 LIMIT :most
) AS n;

-- approximate_semantic_of_org
-- The same for all of an org.
SELECT array_agg(n.passage), string_agg(halfvec_send(n.embedding), '')
FROM (
    SELECT v.passage, v.embedding
    FROM remit.vector_semantic AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
    ORDER BY v.embedding <=> :probe::halfvec LIMIT :most
) AS n;

-- eligible_semantic
-- The :most nearest of the passages that pass the filters.
SELECT array_agg(n.passage), string_agg(halfvec_send(n.embedding), '')
FROM (
    SELECT v.passage, v.embedding
    FROM remit.vector_semantic AS v
    WHERE v.org = :org AND v.space = :space AND v.source = :source AND v.shelf = ANY (:shelves::bigint[])
        AND NOT v.superseded AND v.dimensions = :dimensions
        AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
        AND v.passage IN (SELECT unnest(:eligible::bigint[]))
    ORDER BY (v.embedding <=> :probe::halfvec) + 0 LIMIT :most
) AS n;

-- recent_semantic
-- The :most nearest of the :room vectors of a source that were written last, where there is no index.
SELECT array_agg(n.passage), string_agg(halfvec_send(n.embedding), '')
FROM (
    SELECT r.passage, r.embedding
    FROM (
        SELECT v.passage, v.embedding
        FROM remit.vector_semantic AS v
        WHERE v.org = :org AND v.space = :space AND v.source = :source AND v.shelf = ANY (:shelves::bigint[])
            AND NOT v.superseded AND v.dimensions = :dimensions
            AND (v.valid_from IS NULL OR v.valid_from <= :now) AND (v.valid_until IS NULL OR :now < v.valid_until)
        ORDER BY v.passage DESC LIMIT :room
    ) AS r
    ORDER BY (r.embedding <=> :probe::halfvec) + 0 LIMIT :most
) AS n;

-- eligible
-- The standing passages that pass the filters. A phrase is sought in the words with a space around it.
SELECT array_agg(p.key)
FROM remit.passage AS p
CROSS JOIN LATERAL (SELECT m.* FROM remit.memory AS m WHERE m.org = :org AND m.key = p.memory OFFSET 0) AS m
WHERE p.org = :org AND p.shelf = ANY (:shelves::bigint[])
    AND p.approved AND NOT p.superseded
    AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
    AND (:created_from::bigint IS NULL OR m.created_at >= :created_from)
    AND (:created_until::bigint IS NULL OR m.created_at < :created_until)
    AND NOT EXISTS (
        SELECT 1 FROM unnest(:all_tags::text[]) AS w(tag)
        WHERE NOT EXISTS (SELECT 1 FROM remit.tag AS t WHERE t.org = :org AND t.memory = p.memory AND t.tag = w.tag)
    )
    AND (:any_tags::text[] IS NULL OR EXISTS (
        SELECT 1 FROM remit.tag AS t WHERE t.org = :org AND t.memory = p.memory AND t.tag = ANY (:any_tags::text[])
    ))
    AND NOT EXISTS (SELECT 1 FROM remit.tag AS t WHERE t.org = :org AND t.memory = p.memory AND t.tag = ANY (:none_tags::text[]))
    AND (m.source, m.id) NOT IN (SELECT w.source, w.id FROM unnest(:without_sources::text[], :without_ids::text[]) AS w(source, id))
    AND (:phrases::text[] IS NULL OR EXISTS (
        SELECT 1 FROM remit.phrase AS f
        WHERE f.org = :org AND f.shelf = p.shelf AND f.passage = p.key
            AND NOT EXISTS (SELECT 1 FROM unnest(:phrases::text[]) AS w(phrase) WHERE strpos(f.plain, w.phrase) = 0)
    ));

-- outlines
-- What ranking needs of these passages, of those that stand in reach: a JSON array. The shelves of what was found are looked at once each.
WITH
    found AS MATERIALIZED (
        SELECT p.shelf, p.outline
        FROM unnest(:keys::bigint[]) AS w(key) CROSS JOIN LATERAL (
            SELECT p.shelf, p.outline
            FROM remit.passage AS p
            WHERE p.org = :org AND p.key = w.key
                AND p.approved AND NOT p.superseded
                AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
            OFFSET 0
        ) AS p
    ),
    reached AS MATERIALIZED (
        SELECT s.id
        FROM (SELECT DISTINCT shelf FROM found) AS f CROSS JOIN LATERAL (
            SELECT s.* FROM remit.shelf AS s WHERE s.org = :org AND s.id = f.shelf OFFSET 0
        ) AS s
        WHERE s.source = ANY (:sources::text[])
            AND (:granted::text[] IS NULL OR (
                s.scope IN (SELECT unnest(:granted::text[]))
                AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
                AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
            ))
            AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
            AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])))
    )
SELECT '[' || string_agg(f.outline, ',') || ']' FROM found AS f WHERE f.shelf IN (SELECT r.id FROM reached AS r);

-- around
-- Of each of these passages that is a turn of a conversation and stands in reach: [key, keys made before it, keys made after it], as JSON.
WITH
    found AS MATERIALIZED (
        SELECT p.key, p.shelf, m.created_at
        FROM unnest(:keys::bigint[]) AS w(key) CROSS JOIN LATERAL (
            SELECT p.*
            FROM remit.passage AS p
            WHERE p.org = :org AND p.key = w.key
                AND p.approved AND NOT p.superseded
                AND (p.valid_from IS NULL OR p.valid_from <= :now) AND (p.valid_until IS NULL OR :now < p.valid_until)
            OFFSET 0
        ) AS p
        CROSS JOIN LATERAL (
            SELECT m.created_at FROM remit.memory AS m WHERE m.org = :org AND m.key = p.memory AND m.source = 'session' OFFSET 0
        ) AS m
    ),
    reached AS MATERIALIZED (
        SELECT s.id
        FROM (SELECT DISTINCT shelf FROM found) AS f CROSS JOIN LATERAL (
            SELECT s.* FROM remit.shelf AS s WHERE s.org = :org AND s.id = f.shelf OFFSET 0
        ) AS s
        WHERE s.source = ANY (:sources::text[]) AND (s.conversation <> '' OR starts_with(s.scope, 'conversation:'))
            AND (:granted::text[] IS NULL OR (
                s.scope IN (SELECT unnest(:granted::text[]))
                AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
                AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
            ))
            AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
            AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])))
    )
SELECT json_agg(json_build_array(f.key, coalesce(b.keys, '[]'::json), coalesce(a.keys, '[]'::json)))
FROM found AS f
    CROSS JOIN LATERAL (
        SELECT json_agg(n.key) AS keys FROM (
            SELECT q.key
            FROM remit.memory AS n CROSS JOIN LATERAL (
                SELECT q.key FROM remit.passage AS q
                WHERE q.org = :org AND q.memory = n.key AND q.ordinal = 0
                    AND q.approved AND NOT q.superseded
                    AND (q.valid_from IS NULL OR q.valid_from <= :now) AND (q.valid_until IS NULL OR :now < q.valid_until)
                OFFSET 0
            ) AS q
            WHERE n.org = :org AND n.shelf = f.shelf AND n.source = 'session'
                AND n.created_at < f.created_at AND n.created_at >= f.created_at - :within
            ORDER BY n.created_at DESC, n.id DESC LIMIT :reach
        ) AS n
    ) AS b
    CROSS JOIN LATERAL (
        SELECT json_agg(n.key) AS keys FROM (
            SELECT q.key
            FROM remit.memory AS n CROSS JOIN LATERAL (
                SELECT q.key FROM remit.passage AS q
                WHERE q.org = :org AND q.memory = n.key AND q.ordinal = 0
                    AND q.approved AND NOT q.superseded
                    AND (q.valid_from IS NULL OR q.valid_from <= :now) AND (q.valid_until IS NULL OR :now < q.valid_until)
                OFFSET 0
            ) AS q
            WHERE n.org = :org AND n.shelf = f.shelf AND n.source = 'session'
                AND n.created_at > f.created_at AND n.created_at <= f.created_at + :within
            ORDER BY n.created_at, n.id LIMIT :reach
        ) AS n
    ) AS a
WHERE f.shelf IN (SELECT r.id FROM reached AS r);

-- vocabulary
-- The plain words of a length that stand on shelves in reach: a JSON array.
SELECT json_agg(DISTINCT v.word)
FROM remit.shelf AS s CROSS JOIN LATERAL (
    SELECT coalesce(v.whole, v.word) AS word
    FROM remit.vocabulary AS v
    WHERE v.org = :org AND v.shelf = s.id AND v.letters BETWEEN :shortest AND :longest
    OFFSET 0
) AS v
WHERE s.org = :org
    AND s.source = ANY (:sources::text[])
    AND (:granted::text[] IS NULL OR (
        s.scope IN (SELECT unnest(:granted::text[]))
        AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
        AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
    ))
    AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
    AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])));

-- read
-- These passages with the label and the provenance they have now: a JSON array of rows. Each is looked up by its name, whatever the planner
-- thinks of their number.
SELECT json_agg(json_build_array(
    m.source, m.id, p.ordinal, p.starts, p.ends, coalesce(p.text, m.text), m.version, m.title, m.created_at, m.importance, m.pinned,
    m.approval, m.superseded, m.valid_from, m.valid_until, m.expires_at, s.scope, s.project, s.conversation, m.trust, m.stated::json
))
FROM unnest(:wanted_sources::text[], :wanted_ids::text[], :ordinals::bigint[]) AS w(source, id, ordinal)
CROSS JOIN LATERAL (
    SELECT m.* FROM remit.memory AS m WHERE m.org = :org AND m.source = w.source AND m.id = w.id OFFSET 0
) AS m
CROSS JOIN LATERAL (
    SELECT p.* FROM remit.passage AS p WHERE p.org = :org AND p.memory = m.key AND p.ordinal = w.ordinal OFFSET 0
) AS p
CROSS JOIN LATERAL (SELECT s.* FROM remit.shelf AS s WHERE s.org = :org AND s.id = m.shelf OFFSET 0) AS s
WHERE s.source = ANY (:sources::text[])
    AND (:granted::text[] IS NULL OR (
        s.scope IN (SELECT unnest(:granted::text[]))
        AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
        AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
    ))
    AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
    AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])));

-- passages_of
-- The passages of an approved memory in reach, also of one that was superseded or whose time is not now.
SELECT array_agg(p.ordinal ORDER BY p.ordinal)
FROM (SELECT m.* FROM remit.memory AS m WHERE m.org = :org AND m.source = :source AND m.id = :id AND m.approval = 'approved' OFFSET 0) AS m
CROSS JOIN LATERAL (SELECT p.ordinal FROM remit.passage AS p WHERE p.org = :org AND p.memory = m.key OFFSET 0) AS p
CROSS JOIN LATERAL (SELECT s.* FROM remit.shelf AS s WHERE s.org = :org AND s.id = m.shelf OFFSET 0) AS s
WHERE s.source = ANY (:sources::text[])
    AND (:granted::text[] IS NULL OR (
        s.scope IN (SELECT unnest(:granted::text[]))
        AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
        AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
    ))
    AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
    AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])));

-- brief_facts
-- Standing facts with their first passage, pinned or not, the most important first: a JSON array of rows as of `read`.
SELECT json_agg(json_build_array(
    m.source, m.id, p.ordinal, p.starts, p.ends, coalesce(p.text, m.text), m.version, m.title, m.created_at, m.importance, m.pinned,
    m.approval, m.superseded, m.valid_from, m.valid_until, m.expires_at, s.scope, s.project, s.conversation, m.trust, m.stated::json
) ORDER BY m.importance DESC, m.id)
FROM (
    SELECT m.*, s.scope, s.project, s.conversation
    FROM remit.shelf AS s CROSS JOIN LATERAL (
        SELECT m.*
        FROM remit.memory AS m
        WHERE m.org = :org AND m.shelf = s.id AND m.pinned = :pinned
            AND m.approval = 'approved' AND NOT m.superseded
            AND (m.valid_from IS NULL OR m.valid_from <= :now)
            AND (m.valid_until IS NULL OR :now < m.valid_until) AND (m.expires_at IS NULL OR :now < m.expires_at)
            AND EXISTS (SELECT 1 FROM remit.passage AS p WHERE p.org = :org AND p.memory = m.key)
        ORDER BY m.importance DESC, m.id LIMIT :most
    ) AS m
    WHERE s.org = :org AND s.source = 'fact'
        AND s.source = ANY (:sources::text[])
        AND (:granted::text[] IS NULL OR (
            s.scope IN (SELECT unnest(:granted::text[]))
            AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
            AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
        ))
        AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
        AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])))
    ORDER BY m.importance DESC, m.id LIMIT :most
) AS m
CROSS JOIN LATERAL (SELECT m.scope, m.project, m.conversation) AS s
CROSS JOIN LATERAL (SELECT p.* FROM remit.passage AS p WHERE p.org = :org AND p.memory = m.key ORDER BY p.ordinal LIMIT 1) AS p;

-- brief_sessions
-- Standing sessions with their first passage, the latest first: the same.
SELECT json_agg(json_build_array(
    m.source, m.id, p.ordinal, p.starts, p.ends, coalesce(p.text, m.text), m.version, m.title, m.created_at, m.importance, m.pinned,
    m.approval, m.superseded, m.valid_from, m.valid_until, m.expires_at, s.scope, s.project, s.conversation, m.trust, m.stated::json
) ORDER BY m.aged_from DESC, m.id)
FROM (
    SELECT m.*, s.scope, s.project, s.conversation
    FROM remit.shelf AS s CROSS JOIN LATERAL (
        SELECT m.*
        FROM remit.memory AS m
        WHERE m.org = :org AND m.shelf = s.id
            AND m.approval = 'approved' AND NOT m.superseded
            AND (m.valid_from IS NULL OR m.valid_from <= :now)
            AND (m.valid_until IS NULL OR :now < m.valid_until) AND (m.expires_at IS NULL OR :now < m.expires_at)
            AND EXISTS (SELECT 1 FROM remit.passage AS p WHERE p.org = :org AND p.memory = m.key)
        ORDER BY m.aged_from DESC, m.id LIMIT :most
    ) AS m
    WHERE s.org = :org AND s.source = 'session'
        AND s.source = ANY (:sources::text[])
        AND (:granted::text[] IS NULL OR (
            s.scope IN (SELECT unnest(:granted::text[]))
            AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
            AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
        ))
        AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
        AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])))
    ORDER BY m.aged_from DESC, m.id LIMIT :most
) AS m
CROSS JOIN LATERAL (SELECT m.scope, m.project, m.conversation) AS s
CROSS JOIN LATERAL (SELECT p.* FROM remit.passage AS p WHERE p.org = :org AND p.memory = m.key ORDER BY p.ordinal LIMIT 1) AS p;

-- lock
-- One writer an org at a time; the number is a hash of the org.
SELECT pg_advisory_xact_lock(:number);

-- holder
-- The application's name of the one whom a backend waits for, rather one that waits for nobody itself; no row when it waits for nobody.
SELECT coalesce(other.application_name, '')
FROM unnest(pg_blocking_pids((:pid::bigint)::int)) AS blocking (pid) LEFT JOIN pg_stat_activity AS other USING (pid)
ORDER BY cardinality(pg_blocking_pids(blocking.pid)) LIMIT 1;

-- lock_shared
-- Waits for its turn behind who has the lock alone, and beside all who share it.
SELECT pg_advisory_xact_lock_shared(:number);

-- numbers
-- Numbers that no memory, passage and shelf ever had.
SELECT
    array(SELECT nextval('remit.memory_key_seq') FROM generate_series(1, :memories::bigint)),
    array(SELECT nextval('remit.passage_key_seq') FROM generate_series(1, :passages::bigint)),
    array(SELECT nextval('remit.shelf_id_seq') FROM generate_series(1, :shelves::bigint));

-- shelves_at
-- The shelves at these places: [place, id, vectors] of each.
SELECT json_agg(json_build_array(s.place, s.id, s.vectors::json))
FROM remit.shelf AS s
WHERE s.org = :org AND s.place = ANY (:places::text[]);

-- memories_of
-- Memories as a write finds them: [source, id, key, version, digest, superseded, approval, trust, shelf, scope, project, conversation,
-- place, vectors].
SELECT json_agg(json_build_array(
    m.source, m.id, m.key, m.version, m.digest, m.superseded, m.approval, m.trust, m.shelf, s.scope, s.project, s.conversation, s.place,
    s.vectors::json
))
FROM unnest(:wanted_sources::text[], :wanted_ids::text[]) AS w(source, id)
CROSS JOIN LATERAL (
    SELECT m.* FROM remit.memory AS m WHERE m.org = :org AND m.source = w.source AND m.id = w.id OFFSET 0
) AS m
CROSS JOIN LATERAL (SELECT s.* FROM remit.shelf AS s WHERE s.org = :org AND s.id = m.shelf OFFSET 0) AS s;

-- passages_kept
-- What the indexes hold for the passages of memories: [memory, approved, superseded, timed, length, spaces] of each.
SELECT json_agg(json_build_array(
    p.memory, p.approved, p.superseded, p.valid_from IS NOT NULL OR p.valid_until IS NOT NULL, p.length, p.spaces::json
))
FROM unnest(:wanted_sources::text[], :wanted_ids::text[]) AS w(source, id)
CROSS JOIN LATERAL (
    SELECT m.key FROM remit.memory AS m WHERE m.org = :org AND m.source = w.source AND m.id = w.id OFFSET 0
) AS m
CROSS JOIN LATERAL (SELECT p.* FROM remit.passage AS p WHERE p.org = :org AND p.memory = m.key OFFSET 0) AS p;

-- receipts_of
-- What became of the actors' first writes with these keys: [actor, key, source, id, digest, written, version] of each.
SELECT json_agg(json_build_array(r.actor, r.key, r.source, r.id, r.digest, r.written, r.version))
FROM unnest(:actors::text[], :keys::text[]) AS w(actor, key)
CROSS JOIN LATERAL (SELECT r.* FROM remit.receipt AS r WHERE r.org = :org AND r.actor = w.actor AND r.key = w.key OFFSET 0) AS r;

-- tombstones_of
-- Which of these keys, as hashes, were forgotten.
SELECT json_agg(t.mark) FROM remit.tombstone AS t WHERE t.org = :org AND t.mark = ANY (:marks::text[]);

-- stated_of
-- What the owners of memories said of them: [key, stated] of each.
SELECT json_agg(json_build_array(m.key, m.stated::json)) FROM remit.memory AS m WHERE m.org = :org AND m.key = ANY (:memories::bigint[]);

-- hidden
-- Of these names, those that a memory has which this identity does not see: whatever cannot be taken although nothing is seen there.
-- Run in a transaction that is rolled back.
WITH taken AS (
    INSERT INTO remit.memory (
        org, key, source, id, shelf, version, digest, approval, superseded, created_at, aged_from, importance, pinned, actor, written_at,
        trust, title, text, stated
    )
    SELECT :org, -w.place, w.source, w.id, w.shelf, 0, '', '', false, 0, 0, 0, false, '', 0, '', '', '', '[]'
    FROM unnest(:wanted_sources::text[], :wanted_ids::text[], :on_shelf::bigint[]) WITH ORDINALITY AS w(source, id, shelf, place)
    ON CONFLICT (org, source, id) DO NOTHING
    RETURNING source, id
)
SELECT json_agg(json_build_array(w.source, w.id))
FROM unnest(:wanted_sources::text[], :wanted_ids::text[]) AS w(source, id)
WHERE (w.source, w.id) NOT IN (SELECT taken.source, taken.id FROM taken);

-- add_tenant
-- Notes that an org has written here.
INSERT INTO remit.tenant (org) SELECT :org WHERE NOT EXISTS (SELECT 1 FROM remit.tenant WHERE org = :org);

-- add_shelves
-- New shelves.
INSERT INTO remit.shelf (org, id, scope, source, project, conversation, place)
SELECT :org, w.* FROM unnest(
    :on_shelf::bigint[], :scopes_of::text[], :sources_of::text[], :projects::text[], :conversations::text[], :places::text[]
) AS w;

-- add_memories
-- New memories.
INSERT INTO remit.memory (
    org, key, source, id, shelf, version, digest, approval, superseded, valid_from, valid_until, expires_at, created_at, aged_from,
    importance, pinned, actor, written_at, trust, title, text, stated
)
SELECT :org, w.* FROM unnest(
    :memories::bigint[], :sources_of::text[], :ids::text[], :on_shelf::bigint[], :versions::bigint[], :digests::text[],
    :approvals::text[], :superseded::boolean[], :valid_from::bigint[], :valid_until::bigint[], :expires_at::bigint[],
    :created_at::bigint[], :aged_from::bigint[], :importance::float8[], :pins::boolean[], :actors::text[], :written_at::bigint[],
    :trusts::text[], :titles::text[], :texts::text[], :stated::text[]
) AS w;

-- replace_memories
-- Later versions of memories.
UPDATE remit.memory AS m
SET shelf = w.shelf, version = w.version, digest = w.digest, approval = w.approval, superseded = w.superseded, valid_from = w.valid_from,
    valid_until = w.valid_until, expires_at = w.expires_at, created_at = w.created_at, aged_from = w.aged_from,
    importance = w.importance, pinned = w.pinned, actor = w.actor, written_at = w.written_at, trust = w.trust, title = w.title,
    text = w.text, stated = w.stated
FROM unnest(
    :memories::bigint[], :on_shelf::bigint[], :versions::bigint[], :digests::text[], :approvals::text[], :superseded::boolean[],
    :valid_from::bigint[], :valid_until::bigint[], :expires_at::bigint[], :created_at::bigint[], :aged_from::bigint[],
    :importance::float8[], :pins::boolean[], :actors::text[], :written_at::bigint[], :trusts::text[], :titles::text[], :texts::text[],
    :stated::text[]
) AS w(
    key, shelf, version, digest, approval, superseded, valid_from, valid_until, expires_at, created_at, aged_from, importance, pinned,
    actor, written_at, trust, title, text, stated
)
WHERE m.org = :org AND m.key = w.key;

-- add_passages
-- Passages.
INSERT INTO remit.passage (
    org, key, memory, ordinal, shelf, approved, superseded, valid_from, valid_until, length, starts, ends, outline, spaces, words, text
)
SELECT :org, w.* FROM unnest(
    :passages::bigint[], :memories::bigint[], :ordinals::bigint[], :on_shelf::bigint[], :approved::boolean[], :superseded::boolean[],
    :valid_from::bigint[], :valid_until::bigint[], :lengths::bigint[], :starts::bigint[], :ends::bigint[], :outlines::text[],
    :spaces::text[], :words::text[], :texts::text[]
) AS w;

-- add_postings
-- Places of words; how their passages stand is with the passages.
INSERT INTO remit.posting (org, word, shelf, passage, entry, valid_from, valid_until, superseded)
SELECT :org, w.word, p.shelf, p.key, w.entry, p.valid_from, p.valid_until, p.superseded
FROM unnest(:words::text[], :passages::bigint[], :entries::bigint[]) AS w(word, passage, entry)
JOIN remit.passage AS p ON p.org = :org AND p.key = w.passage;

-- add_vocabulary
-- Words that stand on a shelf, if they are new there.
INSERT INTO remit.vocabulary (org, shelf, word, letters, whole)
SELECT :org, w.* FROM unnest(:on_shelf::bigint[], :words::text[], :letters::bigint[], :wholes::text[]) AS w
ON CONFLICT (org, shelf, word) DO NOTHING;

-- add_phrases
-- The words of passages in their order.
INSERT INTO remit.phrase (org, shelf, passage, plain)
SELECT :org, w.* FROM unnest(:on_shelf::bigint[], :passages::bigint[], :plain::text[]) AS w;

-- add_tags
-- Tags of memories.
INSERT INTO remit.tag (org, memory, tag, shelf)
SELECT DISTINCT :org, w.* FROM unnest(:memories::bigint[], :tags::text[], :on_shelf::bigint[]) AS w;

-- add_receipts
-- What became of the actors' first writes with keys.
INSERT INTO remit.receipt (org, actor, key, source, id, digest, written, version)
SELECT :org, w.* FROM unnest(
    :actors::text[], :keys::text[], :sources_of::text[], :ids::text[], :digests::text[], :written::text[], :versions::bigint[]
) AS w;

-- count_on_shelves
-- Adds to what stands on shelves at every time; vectors are given as they are then.
UPDATE remit.shelf AS s
SET passages = s.passages + w.passages, words = s.words + w.words, vectors = w.vectors
FROM unnest(:on_shelf::bigint[], :passages::bigint[], :lengths::bigint[], :vectors::text[]) AS w(shelf, passages, words, vectors)
WHERE s.org = :org AND s.id = w.shelf;

-- add_local
-- Vectors of passages; how these stand is with the passages.
INSERT INTO remit.vector_local (org, space, source, shelf, passage, valid_from, valid_until, superseded, dimensions, embedding, exact)
SELECT :org, w.space, w.source, p.shelf, p.key, p.valid_from, p.valid_until, p.superseded, w.dimensions, w.embedding, w.exact
FROM unnest(:spaces::text[], :sources_of::text[], :passages::bigint[], :lengths::bigint[], :embeddings::vector[], :exacts::bytea[])
    AS w(space, source, passage, dimensions, embedding, exact)
JOIN remit.passage AS p ON p.org = :org AND p.key = w.passage;

-- drop_local
-- Removes the vectors of memories.
DELETE FROM remit.vector_local AS v
USING (
    SELECT e.space, m.source, p.shelf, p.key
    FROM remit.memory AS m
    JOIN remit.passage AS p ON p.org = m.org AND p.memory = m.key
    CROSS JOIN LATERAL json_array_elements_text(p.spaces::json) AS e(space)
    WHERE m.org = :org AND m.key = ANY (:memories::bigint[]) AND p.approved
) AS d
WHERE v.org = :org AND v.space = d.space AND v.source = d.source AND v.shelf = d.shelf AND v.passage = d.key;

-- supersede_local
-- Marks the vectors of memories as superseded, or takes the marks back.
UPDATE remit.vector_local AS v
SET superseded = :superseded
FROM (
    SELECT e.space, m.source, p.shelf, p.key
    FROM remit.memory AS m
    JOIN remit.passage AS p ON p.org = m.org AND p.memory = m.key
    CROSS JOIN LATERAL json_array_elements_text(p.spaces::json) AS e(space)
    WHERE m.org = :org AND m.key = ANY (:memories::bigint[]) AND p.approved
) AS d
WHERE v.org = :org AND v.space = d.space AND v.source = d.source AND v.shelf = d.shelf AND v.passage = d.key;

-- add_semantic
-- Vectors of passages; how these stand is with the passages.
INSERT INTO remit.vector_semantic (org, space, source, shelf, passage, valid_from, valid_until, superseded, dimensions, embedding)
SELECT :org, w.space, w.source, p.shelf, p.key, p.valid_from, p.valid_until, p.superseded, w.dimensions, w.embedding
FROM unnest(:spaces::text[], :sources_of::text[], :passages::bigint[], :lengths::bigint[], :embeddings::halfvec[])
    AS w(space, source, passage, dimensions, embedding)
JOIN remit.passage AS p ON p.org = :org AND p.key = w.passage;

-- drop_semantic
-- Removes the vectors of memories.
DELETE FROM remit.vector_semantic AS v
USING (
    SELECT e.space, m.source, p.shelf, p.key
    FROM remit.memory AS m
    JOIN remit.passage AS p ON p.org = m.org AND p.memory = m.key
    CROSS JOIN LATERAL json_array_elements_text(p.spaces::json) AS e(space)
    WHERE m.org = :org AND m.key = ANY (:memories::bigint[]) AND p.approved
) AS d
WHERE v.org = :org AND v.space = d.space AND v.source = d.source AND v.shelf = d.shelf AND v.passage = d.key;

-- supersede_semantic
-- Marks the vectors of memories as superseded, or takes the marks back.
UPDATE remit.vector_semantic AS v
SET superseded = :superseded
FROM (
    SELECT e.space, m.source, p.shelf, p.key
    FROM remit.memory AS m
    JOIN remit.passage AS p ON p.org = m.org AND p.memory = m.key
    CROSS JOIN LATERAL json_array_elements_text(p.spaces::json) AS e(space)
    WHERE m.org = :org AND m.key = ANY (:memories::bigint[]) AND p.approved
) AS d
WHERE v.org = :org AND v.space = d.space AND v.source = d.source AND v.shelf = d.shelf AND v.passage = d.key;

-- supersede_memories
-- Marks memories, or takes the marks back.
UPDATE remit.memory SET superseded = :superseded WHERE org = :org AND key = ANY (:memories::bigint[]);

-- supersede_passages
-- The same of their passages.
UPDATE remit.passage SET superseded = :superseded WHERE org = :org AND memory = ANY (:memories::bigint[]);

-- supersede_postings
-- The same of the places of their words.
UPDATE remit.posting AS x
SET superseded = :superseded
FROM (
    SELECT e.word, p.shelf, p.key
    FROM remit.passage AS p CROSS JOIN LATERAL json_array_elements_text(p.words::json) AS e(word)
    WHERE p.org = :org AND p.memory = ANY (:memories::bigint[]) AND p.approved
) AS d
WHERE x.org = :org AND x.word = d.word AND x.shelf = d.shelf AND x.passage = d.key;

-- drop_postings
-- Removes the places of words of memories.
DELETE FROM remit.posting AS x
USING (
    SELECT e.word, p.shelf, p.key
    FROM remit.passage AS p CROSS JOIN LATERAL json_array_elements_text(p.words::json) AS e(word)
    WHERE p.org = :org AND p.memory = ANY (:memories::bigint[]) AND p.approved
) AS d
WHERE x.org = :org AND x.word = d.word AND x.shelf = d.shelf AND x.passage = d.key;

-- drop_words
-- Lets words of memories go that stand nowhere on the shelf any more.
DELETE FROM remit.vocabulary AS v
USING (
    SELECT DISTINCT e.word, p.shelf
    FROM remit.passage AS p CROSS JOIN LATERAL json_array_elements_text(p.words::json) AS e(word)
    WHERE p.org = :org AND p.memory = ANY (:memories::bigint[]) AND p.approved
) AS d
WHERE v.org = :org AND v.shelf = d.shelf AND v.word = d.word
    AND NOT EXISTS (SELECT 1 FROM remit.posting AS x WHERE x.org = :org AND x.word = d.word AND x.shelf = d.shelf);

-- drop_phrases
-- Removes the words of memories in their order.
DELETE FROM remit.phrase AS f
USING remit.passage AS p
WHERE p.org = :org AND p.memory = ANY (:memories::bigint[]) AND f.org = :org AND f.shelf = p.shelf AND f.passage = p.key;

-- drop_passages
-- Removes the passages of memories.
DELETE FROM remit.passage WHERE org = :org AND memory = ANY (:memories::bigint[]);

-- drop_tags
-- Removes the tags of memories.
DELETE FROM remit.tag WHERE org = :org AND memory = ANY (:memories::bigint[]);

-- keep_versions
-- Puts the versions that stand into the history, before others take their place.
INSERT INTO remit.past (org, memory, number, shelf, what, version, actor, at, digest, title, text)
SELECT
    :org, m.key, (SELECT coalesce(max(p.number), 0) + 1 FROM remit.past AS p WHERE p.org = :org AND p.memory = m.key), m.shelf,
    CASE m.version WHEN 1 THEN 'stored' ELSE 'replaced' END, m.version, m.actor, m.written_at, m.digest, m.title, m.text
FROM remit.memory AS m WHERE m.org = :org AND m.key = ANY (:memories::bigint[]);

-- add_past
-- More events of histories, in the order in which they are given.
INSERT INTO remit.past (org, memory, number, shelf, what, version, actor, at, digest, title, text, other)
SELECT
    :org, w.memory,
    (SELECT coalesce(max(p.number), 0) FROM remit.past AS p WHERE p.org = :org AND p.memory = w.memory) + w.place, m.shelf,
    w.what, w.version, w.actor, w.at, w.digest, w.title, w.text, w.other
FROM unnest(
    :memories::bigint[], :whats::text[], :versions::bigint[], :actors::text[], :at::bigint[], :digests::text[], :titles::text[],
    :texts::text[], :others::text[]
) WITH ORDINALITY AS w(memory, what, version, actor, at, digest, title, text, other, place)
JOIN remit.memory AS m ON m.org = :org AND m.key = w.memory;

-- move_past
-- Histories lie on the shelf of their memory.
UPDATE remit.past AS p SET shelf = m.shelf
FROM remit.memory AS m
WHERE p.org = :org AND p.memory = ANY (:memories::bigint[]) AND m.org = :org AND m.key = p.memory AND p.shelf <> m.shelf;

-- add_derived
-- What memories are derived from.
INSERT INTO remit.derived (org, source, id, memory, shelf)
SELECT DISTINCT :org, w.* FROM unnest(:sources_of::text[], :ids::text[], :memories::bigint[], :on_shelf::bigint[]) AS w;

-- lower
-- Whatever is derived from memories, and from that again, wherever in the org it lies, is trusted no more than they; levels are 1 for verified,
-- 2 for stated, 3 for untrusted.
WITH RECURSIVE lowered AS (
    SELECT d.memory AS key, w.level
    FROM unnest(:sources_of::text[], :ids::text[], :levels::bigint[]) AS w(source, id, level)
    JOIN remit.derived AS d ON d.org = :org AND d.source = w.source AND d.id = w.id
    UNION
    SELECT d.memory, l.level
    FROM lowered AS l
    JOIN remit.memory AS m ON m.org = :org AND m.key = l.key
    JOIN remit.derived AS d ON d.org = :org AND d.source = m.source COLLATE "default" AND d.id = m.id
)
UPDATE remit.memory AS m SET trust = (ARRAY['verified', 'stated', 'untrusted'])[l.level]
FROM (SELECT key, max(level) AS level FROM lowered GROUP BY key) AS l
WHERE m.org = :org AND m.key = l.key AND array_position(ARRAY['verified', 'stated', 'untrusted'], m.trust) < l.level;

-- set_approvals
-- Whether memories are approved, from now on.
UPDATE remit.memory SET approval = :approval WHERE org = :org AND key = ANY (:memories::bigint[]);

-- withdraw_passages
-- Their passages stand in no index any more.
UPDATE remit.passage SET approved = false WHERE org = :org AND memory = ANY (:memories::bigint[]);

-- set_stated
-- What the owner said of a memory, from now on.
UPDATE remit.memory SET stated = :stated WHERE org = :org AND key = :memory;

-- meant
-- The memories in reach for which every stated condition holds: [source, id] of each.
SELECT json_agg(json_build_array(m.source, m.id) ORDER BY m.source, m.id)
FROM remit.memory AS m JOIN remit.shelf AS s ON s.org = :org AND s.id = m.shelf
WHERE m.org = :org
    AND (:scope::text IS NULL OR s.scope = :scope)
    AND (:origin::text IS NULL OR m.stated::json -> 3 ->> 0 = :origin)
    AND (:actor::text IS NULL OR m.actor = :actor)
    AND (NOT :expired::boolean OR m.expires_at <= :now)
    AND s.source = ANY (:sources::text[])
    AND (:granted::text[] IS NULL OR (
        s.scope IN (SELECT unnest(:granted::text[]))
        AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
        AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
    ))
    AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
    AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])));

-- parts_of
-- How much there is of memories: passages, places of words and vectors in the indexes, tags, events, keys.
SELECT json_build_array(
    (SELECT count(*) FROM remit.passage AS p WHERE p.org = :org AND p.memory = ANY (:memories::bigint[])),
    (
        SELECT coalesce(sum(json_array_length(p.words::json)), 0)
        FROM remit.passage AS p WHERE p.org = :org AND p.memory = ANY (:memories::bigint[]) AND p.approved
    ),
    (
        SELECT coalesce(sum(json_array_length(p.spaces::json)), 0)
        FROM remit.passage AS p WHERE p.org = :org AND p.memory = ANY (:memories::bigint[]) AND p.approved
    ),
    (SELECT count(*) FROM remit.tag AS t WHERE t.org = :org AND t.memory = ANY (:memories::bigint[])),
    (SELECT count(*) FROM remit.past AS p WHERE p.org = :org AND p.memory = ANY (:memories::bigint[])),
    (
        SELECT count(*) FROM remit.memory AS m JOIN remit.receipt AS r ON r.org = :org AND r.source = m.source COLLATE "default" AND r.id = m.id COLLATE "default"
        WHERE m.org = :org AND m.key = ANY (:memories::bigint[])
    )
);

-- count_earlier
-- How many versions an actor wrote that others replaced.
SELECT count(*) FROM remit.past AS p
WHERE p.org = :org AND p.memory = ANY (:memories::bigint[]) AND p.digest <> '' AND p.actor = :actor;

-- drop_earlier
-- Removes them.
DELETE FROM remit.past WHERE org = :org AND memory = ANY (:memories::bigint[]) AND digest <> '' AND actor = :actor;

-- keys_of
-- The keys that memories were written with: [actor, key] of each. Names are compared in the collation of the index of receipts, here and
-- wherever receipts are looked for: in any other it is of no use, and each memory goes through all receipts of its org.
SELECT json_agg(json_build_array(r.actor, r.key))
FROM remit.memory AS m JOIN remit.receipt AS r ON r.org = :org AND r.source = m.source COLLATE "default" AND r.id = m.id COLLATE "default"
WHERE m.org = :org AND m.key = ANY (:memories::bigint[]);

-- add_tombstones
-- What is left of keys that are forgotten.
INSERT INTO remit.tombstone (org, mark) SELECT :org, w.mark FROM unnest(:marks::text[]) AS w(mark) ON CONFLICT (org, mark) DO NOTHING;

-- drop_receipts
-- Removes what became of keys.
DELETE FROM remit.receipt AS r USING unnest(:actors::text[], :keys::text[]) AS w(actor, key)
WHERE r.org = :org AND r.actor = w.actor AND r.key = w.key;

-- drop_past
-- Removes the histories of memories.
DELETE FROM remit.past WHERE org = :org AND memory = ANY (:memories::bigint[]);

-- drop_derived
-- Removes what memories are derived from.
DELETE FROM remit.derived WHERE org = :org AND memory = ANY (:memories::bigint[]);

-- forget_names
-- Takes the names of memories out of the histories of others, wherever in the org these lie.
UPDATE remit.past SET other = NULL WHERE org = :org AND other = ANY (:names::text[]);

-- drop_memories
-- Removes memories.
DELETE FROM remit.memory WHERE org = :org AND key = ANY (:memories::bigint[]);

-- drop_shelves
-- Removes those of these shelves on which no memory is left.
DELETE FROM remit.shelf AS s
WHERE s.org = :org AND s.id = ANY (:on_shelf::bigint[])
    AND NOT EXISTS (SELECT 1 FROM remit.memory AS m WHERE m.org = :org AND m.shelf = s.id);

-- wholes
-- All there is of these memories, of those in reach: a JSON array of [row as of `records`, version, written_at, history, keys].
SELECT json_agg(json_build_array(
    json_build_array(
        m.org, m.source, m.id, m.title, m.text, m.digest, m.created_at, m.importance, m.pinned, m.approval, m.superseded, m.valid_from,
        m.valid_until, m.expires_at, s.scope, s.project, s.conversation, m.actor, m.trust, m.stated::json
    ),
    m.version, m.written_at, h.events, k.keys
))
FROM unnest(:wanted_sources::text[], :wanted_ids::text[]) AS w(source, id)
CROSS JOIN LATERAL (
    SELECT m.* FROM remit.memory AS m WHERE m.org = :org AND m.source = w.source AND m.id = w.id OFFSET 0
) AS m
CROSS JOIN LATERAL (SELECT s.* FROM remit.shelf AS s WHERE s.org = :org AND s.id = m.shelf OFFSET 0) AS s
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(p.what, p.version, p.actor, p.at, p.digest, p.title, p.text, p.other) ORDER BY p.number) AS events
    FROM remit.past AS p WHERE p.org = :org AND p.memory = m.key
) AS h
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(r.actor, r.key, r.digest, r.written, r.version) ORDER BY r.key, r.actor) AS keys
    FROM remit.receipt AS r WHERE r.org = :org AND r.source = m.source COLLATE "default" AND r.id = m.id COLLATE "default"
) AS k
WHERE s.source = ANY (:sources::text[])
    AND (:granted::text[] IS NULL OR (
        s.scope IN (SELECT unnest(:granted::text[]))
        AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
        AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
    ))
    AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
    AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])));

-- wholes_behind
-- The same of the next :most memories in reach behind one of them, in their order.
SELECT json_agg(json_build_array(
    json_build_array(
        m.org, m.source, m.id, m.title, m.text, m.digest, m.created_at, m.importance, m.pinned, m.approval, m.superseded, m.valid_from,
        m.valid_until, m.expires_at, m.scope, m.project, m.conversation, m.actor, m.trust, m.stated::json
    ),
    m.version, m.written_at, h.events, k.keys
) ORDER BY m.source, m.id)
FROM (
    SELECT m.*, s.scope, s.project, s.conversation
    FROM remit.memory AS m JOIN remit.shelf AS s ON s.org = :org AND s.id = m.shelf
    WHERE m.org = :org AND (m.source, m.id) > (:source, :id)
        AND s.source = ANY (:sources::text[])
        AND (:granted::text[] IS NULL OR (
            s.scope IN (SELECT unnest(:granted::text[]))
            AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
            AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
        ))
        AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
        AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])))
    ORDER BY m.source, m.id LIMIT :most
) AS m
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(p.what, p.version, p.actor, p.at, p.digest, p.title, p.text, p.other) ORDER BY p.number) AS events
    FROM remit.past AS p WHERE p.org = :org AND p.memory = m.key
) AS h
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(r.actor, r.key, r.digest, r.written, r.version) ORDER BY r.key, r.actor) AS keys
    FROM remit.receipt AS r WHERE r.org = :org AND r.source = m.source COLLATE "default" AND r.id = m.id COLLATE "default"
) AS k;

-- spaces
-- How many vectors of each space stand on shelves in reach at every time, as JSON.
SELECT json_object_agg(c.space, c.vectors)
FROM (
    SELECT e.key AS space, sum(e.value::bigint)::bigint AS vectors
    FROM remit.shelf AS s CROSS JOIN LATERAL json_each_text(s.vectors::json) AS e
    WHERE s.org = :org
        AND s.source = ANY (:sources::text[])
        AND (:granted::text[] IS NULL OR (
            s.scope IN (SELECT unnest(:granted::text[]))
            AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
            AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
        ))
        AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
        AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])))
    GROUP BY e.key
) AS c;

-- lacking
-- Of the :look passages behind a key, those in reach that lack a vector of this space: [key, whether somebody has it on loan] of each.
SELECT json_agg(json_build_array(l.key, EXISTS (
    SELECT 1 FROM remit.loan AS n WHERE n.org = :org AND n.passage = l.key AND n.space = :space
)) ORDER BY l.key)
FROM (
    SELECT p.key, p.shelf, p.approved, p.superseded, p.spaces
    FROM remit.passage AS p WHERE p.org = :org AND p.key > :after ORDER BY p.key LIMIT :look
) AS l
CROSS JOIN LATERAL (SELECT s.* FROM remit.shelf AS s WHERE s.org = :org AND s.id = l.shelf OFFSET 0) AS s
WHERE l.approved AND NOT l.superseded
    AND NOT EXISTS (SELECT 1 FROM json_array_elements_text(l.spaces::json) AS e(space) WHERE e.space = :space)
    AND s.source = ANY (:sources::text[])
    AND (:granted::text[] IS NULL OR (
        s.scope IN (SELECT unnest(:granted::text[]))
        AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
        AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
    ))
    AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
    AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])));

-- end_of_look
-- The last of those :look passages, NULL when there are fewer, as JSON.
SELECT to_json(CASE WHEN count(*) = :look THEN max(l.key) END)
FROM (SELECT p.key FROM remit.passage AS p WHERE p.org = :org AND p.key > :after ORDER BY p.key LIMIT :look) AS l;

-- texts_of
-- Passages with what is embedded of them, as JSON.
SELECT json_agg(json_build_array(p.key, m.source, m.id, p.ordinal, m.title, coalesce(p.text, m.text)) ORDER BY p.key)
FROM unnest(:passages::bigint[]) AS w(key)
CROSS JOIN LATERAL (SELECT p.* FROM remit.passage AS p WHERE p.org = :org AND p.key = w.key OFFSET 0) AS p
CROSS JOIN LATERAL (SELECT m.* FROM remit.memory AS m WHERE m.org = :org AND m.key = p.memory OFFSET 0) AS m;

-- held_of
-- Approved passages in reach: [key, source, shelf, whether it stands at every time, spaces of its vectors] of each.
SELECT json_agg(json_build_array(
    p.key, s.source, p.shelf, NOT p.superseded AND p.valid_from IS NULL AND p.valid_until IS NULL, p.spaces::json
) ORDER BY p.key)
FROM unnest(:passages::bigint[]) AS w(key)
CROSS JOIN LATERAL (SELECT p.* FROM remit.passage AS p WHERE p.org = :org AND p.key = w.key OFFSET 0) AS p
CROSS JOIN LATERAL (SELECT s.* FROM remit.shelf AS s WHERE s.org = :org AND s.id = p.shelf OFFSET 0) AS s
WHERE p.approved
    AND s.source = ANY (:sources::text[])
    AND (:granted::text[] IS NULL OR (
        s.scope IN (SELECT unnest(:granted::text[]))
        AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
        AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
    ))
    AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
    AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])));

-- held_behind
-- The same of the :look passages behind a key.
SELECT json_agg(json_build_array(
    p.key, s.source, p.shelf, NOT p.superseded AND p.valid_from IS NULL AND p.valid_until IS NULL, p.spaces::json
) ORDER BY p.key)
FROM (SELECT p.* FROM remit.passage AS p WHERE p.org = :org AND p.key > :after ORDER BY p.key LIMIT :look) AS p
CROSS JOIN LATERAL (SELECT s.* FROM remit.shelf AS s WHERE s.org = :org AND s.id = p.shelf OFFSET 0) AS s
WHERE p.approved
    AND s.source = ANY (:sources::text[])
    AND (:granted::text[] IS NULL OR (
        s.scope IN (SELECT unnest(:granted::text[]))
        AND (s.project = '' OR s.project IN (SELECT unnest(:granted::text[])))
        AND (s.conversation = '' OR s.conversation IN (SELECT unnest(:granted::text[])))
    ))
    AND (:scopes::text[] IS NULL OR s.scope IN (SELECT unnest(:scopes::text[])))
    AND (:fact_scopes::text[] IS NULL OR s.source <> 'fact' OR s.scope IN (SELECT unnest(:fact_scopes::text[])));

-- vectors_on
-- How many vectors of each space stand on shelves at every time: [shelf, vectors] of each.
SELECT json_agg(json_build_array(s.id, s.vectors::json)) FROM remit.shelf AS s WHERE s.org = :org AND s.id = ANY (:on_shelf::bigint[]);

-- set_spaces
-- The spaces of the vectors of passages, from now on.
UPDATE remit.passage AS p SET spaces = w.spaces
FROM unnest(:passages::bigint[], :spaces::text[]) AS w(key, spaces)
WHERE p.org = :org AND p.key = w.key;

-- drop_spaces_local
-- Removes vectors of single spaces.
DELETE FROM remit.vector_local AS v
USING unnest(:spaces::text[], :sources_of::text[], :on_shelf::bigint[], :passages::bigint[]) AS d(space, source, shelf, passage)
WHERE v.org = :org AND v.space = d.space AND v.source = d.source AND v.shelf = d.shelf AND v.passage = d.passage;

-- drop_spaces_semantic
-- The same of the longer ones.
DELETE FROM remit.vector_semantic AS v
USING unnest(:spaces::text[], :sources_of::text[], :on_shelf::bigint[], :passages::bigint[]) AS d(space, source, shelf, passage)
WHERE v.org = :org AND v.space = d.space AND v.source = d.source AND v.shelf = d.shelf AND v.passage = d.passage;

-- add_loans
-- Lends passages to who embeds them.
INSERT INTO remit.loan (org, passage, space, shelf, until)
SELECT :org, p.key, :space, p.shelf, :until
FROM unnest(:passages::bigint[]) AS w(key) JOIN remit.passage AS p ON p.org = :org AND p.key = w.key
ON CONFLICT (org, passage, space) DO NOTHING;

-- drop_loans
-- Takes them back.
DELETE FROM remit.loan WHERE org = :org AND space = :space AND passage = ANY (:passages::bigint[]);

-- end_loans
-- Takes back what was lent for long enough.
DELETE FROM remit.loan WHERE org = :org AND until <= :now;

-- granted
-- The scopes granted to an actor.
SELECT json_agg(g.scope ORDER BY g.scope) FROM remit.grants AS g WHERE g.org = :org AND g.actor = :actor;

-- grant
-- Grants a scope to an actor, if it is not yet.
INSERT INTO remit.grants (org, actor, scope) VALUES (:org, :actor, :scope) ON CONFLICT (org, actor, scope) DO NOTHING;

-- revoke
-- Takes a scope back; tells whether it was granted.
WITH gone AS (DELETE FROM remit.grants WHERE org = :org AND actor = :actor AND scope = :scope RETURNING 1) SELECT count(*) FROM gone;

-- roots
-- Folders and files in which `file:` origins may be read.
SELECT json_agg(r.path ORDER BY r.path) FROM remit.root AS r WHERE r.org = :org;

-- add_root
-- Allows one more.
INSERT INTO remit.root (org, digest, path) VALUES (:org, :digest, :path) ON CONFLICT (org, digest) DO NOTHING;

-- drop_root
-- Allows one less; tells whether it was one.
WITH gone AS (DELETE FROM remit.root WHERE org = :org AND digest = :digest RETURNING 1) SELECT count(*) FROM gone;

-- setting
-- A setting of the store.
SELECT value FROM remit.setting WHERE name = :setting;

-- set
-- Sets it.
INSERT INTO remit.setting (name, value) VALUES (:setting, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- applied
-- The migrations this store had.
SELECT json_agg(json_build_array(number, checksum)) FROM remit.migration;

-- owned
-- Whether who logged in owns the store, and so may look after all orgs.
SELECT pg_has_role(session_user, c.relowner, 'USAGE') FROM pg_catalog.pg_class AS c WHERE c.oid = 'remit.tenant'::regclass;

-- tenants
-- All orgs from one on, for the host's own maintenance: only the owner sees them.
SELECT json_agg(t.org ORDER BY t.org) FROM remit.tenant AS t WHERE t.org >= :org;

-- records
-- Everything stated of the memories of an org behind one of them: a JSON array of rows.
SELECT json_agg(json_build_array(
    m.org, m.source, m.id, m.title, m.text, m.digest, m.created_at, m.importance, m.pinned, m.approval, m.superseded, m.valid_from,
    m.valid_until, m.expires_at, s.scope, s.project, s.conversation, m.actor, m.trust, m.stated::json
) ORDER BY m.source, m.id)
FROM (
    SELECT m.* FROM remit.memory AS m
    WHERE m.org = :org AND (m.source, m.id) > (:source, :id)
    ORDER BY m.source, m.id LIMIT :most
) AS m JOIN remit.shelf AS s ON s.org = m.org AND s.id = m.shelf;

-- means
-- What there is to search vectors with: version and schema of the extension; of each table its dimensions, its type, and whether its index
-- can be used.
SELECT json_build_array(
    (SELECT e.extversion FROM pg_catalog.pg_extension AS e WHERE e.extname = 'vector'),
    (
        SELECT n.nspname
        FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector'
    ),
    (
        SELECT json_object_agg(c.relname, json_build_array(a.atttypmod, a.atttypid::bigint, EXISTS (
            SELECT 1 FROM pg_catalog.pg_index AS i
            JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid
            JOIN pg_catalog.pg_am AS m ON m.oid = x.relam
            WHERE i.indrelid = c.oid AND m.amname = 'hnsw' AND i.indisvalid AND i.indisready
        )))
        FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'embedding'
        WHERE n.nspname = 'remit' AND c.relname IN ('vector_local', 'vector_semantic')
    )
);

-- hazards
-- What makes the role of this transaction or the catalogue unsafe, as a JSON array of texts; NULL when nothing does.
-- :may_log_in says whether the role may, which only the nodes of a cluster need.
WITH
    me AS (SELECT r.* FROM pg_catalog.pg_roles AS r WHERE r.rolname = current_user),
    relations AS (
        SELECT c.* FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = 'remit' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    ),
    -- Beside pg_catalog a name without a schema may mean something there; who may do all there, or owns the store, is trusted anyhow.
    searched AS (
        SELECT n.* FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
    ),
    trusted AS (
        SELECT oid FROM pg_catalog.pg_roles WHERE rolsuper
        UNION SELECT nspowner FROM searched
        UNION SELECT relowner FROM relations
        UNION SELECT datdba FROM pg_catalog.pg_database WHERE datname = current_database()
    ),
    powers AS (
        SELECT r.oid, r.rolname, CASE
            WHEN r.rolsuper THEN 'a superuser'
            WHEN r.rolbypassrls THEN 'allowed to bypass row security'
            WHEN r.rolcreaterole OR r.rolreplication THEN 'allowed to make roles or to replicate'
            WHEN r.oid IN (SELECT relowner FROM relations) THEN 'the owner of tables'
            WHEN r.rolname IN (
                'pg_read_all_data', 'pg_write_all_data', 'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program'
            ) THEN 'allowed to read past row security'
        END AS power
        FROM pg_catalog.pg_roles AS r
    )
SELECT json_agg(h.told ORDER BY h.told)
FROM (
    SELECT 'the role ' || p.rolname || ' is ' || p.power AS told FROM powers AS p JOIN me ON me.oid = p.oid WHERE p.power IS NOT NULL
    UNION ALL
    SELECT 'the role ' || me.rolname || ' is a member of ' || p.rolname || ', which is ' || p.power
    FROM powers AS p CROSS JOIN me
    WHERE p.power IS NOT NULL AND p.oid <> me.oid AND NOT me.rolsuper AND pg_has_role(me.oid, p.oid, 'MEMBER')
    UNION ALL
    SELECT 'the role ' || me.rolname || ' may log in' FROM me WHERE me.rolcanlogin AND NOT :may_log_in::boolean
    UNION ALL
    SELECT 'row security is not forced on ' || r.relname FROM relations AS r
    WHERE r.relkind IN ('r', 'p') AND NOT (r.relrowsecurity AND r.relforcerowsecurity)
    UNION ALL
    SELECT r.relname || ' shows rows past row security' FROM relations AS r
    WHERE r.relkind IN ('m', 'f')
        OR (r.relkind = 'v' AND NOT coalesce(r.reloptions && ARRAY['security_invoker=true', 'security_invoker=on'], false))
    UNION ALL
    SELECT 'the function ' || f.proname || ' runs with the rights of its owner'
    FROM pg_catalog.pg_proc AS f JOIN pg_catalog.pg_namespace AS n ON n.oid = f.pronamespace
    WHERE n.nspname = 'remit' AND f.prosecdef
    UNION ALL
    SELECT CASE a.grantee WHEN 0 THEN 'everybody' ELSE 'the role ' || pg_get_userbyid(a.grantee) END
        || ' may make functions in the schema ' || s.nspname || ', where those of pgvector are looked for'
    FROM searched AS s CROSS JOIN LATERAL aclexplode(s.nspacl) AS a
    WHERE a.privilege_type = 'CREATE' AND a.grantee NOT IN (SELECT oid FROM trusted)
    UNION ALL
    SELECT 'the function ' || f.proname || ' of the role ' || pg_get_userbyid(f.proowner) || ' is in the schema ' || s.nspname
        || ', where those of pgvector are looked for'
    FROM searched AS s JOIN pg_catalog.pg_proc AS f ON f.pronamespace = s.oid
    WHERE f.proowner NOT IN (SELECT oid FROM trusted)
    UNION ALL
    SELECT 'the operator ' || o.oprname || ' of the role ' || pg_get_userbyid(o.oprowner) || ' is in the schema ' || s.nspname
        || ', where those of pgvector are looked for'
    FROM searched AS s JOIN pg_catalog.pg_operator AS o ON o.oprnamespace = s.oid
    WHERE o.oprowner NOT IN (SELECT oid FROM trusted)
) AS h;

-- changed_policies
-- The tables whose policies are not those that `remit init` made, as a JSON array of texts; NULL when there are none.
WITH
    made AS (
        SELECT w.key AS tablename, w.value AS told
        FROM remit.setting AS s CROSS JOIN LATERAL json_each_text(s.value::json) AS w WHERE s.name = 'policies'
    ),
    here AS (
        SELECT t.tablename, md5(string_agg(
            concat_ws('|', p.policyname, p.permissive, p.roles, p.cmd, p.qual, p.with_check), E'\n' ORDER BY p.policyname COLLATE "C"
        ) FILTER (WHERE p.policyname IS NOT NULL)) AS told
        FROM pg_catalog.pg_tables AS t
        LEFT JOIN pg_catalog.pg_policies AS p ON p.schemaname = t.schemaname AND p.tablename = t.tablename
        WHERE t.schemaname = 'remit' GROUP BY t.tablename
    )
SELECT json_agg('the policies of ' || coalesce(here.tablename, made.tablename) || ' are not those that `remit init` made')
FROM here FULL JOIN made ON made.tablename = here.tablename
WHERE here.told IS DISTINCT FROM made.told;

-- facts
-- What `remit doctor` tells of the server and of the tables: version, encoding, dead rows, and what the transaction was set to.
SELECT json_build_object(
    'postgres', current_setting('server_version'),
    'role', current_user || ', logged in as ' || session_user,
    'dead rows', (SELECT coalesce(sum(n_dead_tup), 0)::text FROM pg_catalog.pg_stat_user_tables WHERE schemaname = 'remit'),
    'size', (
        SELECT pg_size_pretty(coalesce(sum(pg_total_relation_size(c.oid)), 0))
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = 'remit' AND c.relkind = 'r'
    ),
    'statement timeout', current_setting('statement_timeout'),
    'client check', (
        SELECT CASE w.every WHEN '0' THEN 'off: a statement whose client is gone runs to its time limit' ELSE w.every END
        FROM current_setting('client_connection_check_interval', true) AS w(every)
    ),
    'row security', current_setting('row_security'),
    'rows and indexes', CASE
        WHEN pg_has_role(session_user, (SELECT relowner FROM pg_catalog.pg_class WHERE oid = 'remit.migration'::regclass), 'USAGE')
        THEN 'compared in every org' ELSE 'not compared: only an owner''s DSN may'
    END,
    'policies', (SELECT count(*)::text FROM pg_catalog.pg_policies WHERE schemaname = 'remit'),
    'indexes', (SELECT count(*)::text FROM pg_catalog.pg_indexes WHERE schemaname = 'remit'),
    'autovacuum', current_setting('autovacuum'),
    'writes', CASE WHEN pg_is_in_recovery() THEN 'none: it is a replica'
        WHEN current_setting('default_transaction_read_only')::boolean THEN 'none: it is read-only' ELSE 'taken' END,
    'migrations', (SELECT count(*)::text FROM remit.migration),
    'analyser', (SELECT value FROM remit.setting WHERE name = 'analyser')
);

-- condition
-- How the tables are kept, as JSON: indexes by name, each with whether it can be used; tables that the role of this transaction may not do
-- all to that it must, with what it may not; tables with more dead rows than live ones and than :most_dead; whether nothing may be written.
SELECT json_build_object(
    'indexes', (
        SELECT json_object_agg(x.relname, i.indisvalid AND i.indisready)
        FROM pg_catalog.pg_index AS i
        JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid
        JOIN pg_catalog.pg_namespace AS n ON n.oid = x.relnamespace
        WHERE n.nspname = 'remit'
    ),
    'forbidden', (
        SELECT json_object_agg(f.relname, f.missing)
        FROM (
            SELECT c.relname, string_agg(p.privilege, ', ') AS missing
            FROM pg_catalog.pg_class AS c
            JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
            CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p(privilege)
            WHERE n.nspname = 'remit' AND c.relkind IN ('r', 'p') AND NOT has_table_privilege(c.oid, p.privilege)
                AND NOT (c.relname IN ('setting', 'migration') AND p.privilege <> 'SELECT')
                AND NOT (c.relname = 'tenant' AND p.privilege IN ('UPDATE', 'DELETE'))
                AND NOT (c.relname = 'root' AND p.privilege = 'UPDATE')
            GROUP BY c.relname
        ) AS f
    ),
    'dead', (
        SELECT json_agg(json_build_array(t.relname, t.n_dead_tup, t.n_live_tup) ORDER BY t.relname)
        FROM pg_catalog.pg_stat_user_tables AS t
        WHERE t.schemaname = 'remit' AND t.n_dead_tup > :most_dead::bigint AND t.n_dead_tup > t.n_live_tup
    ),
    'read_only', current_setting('default_transaction_read_only')::boolean AND NOT pg_is_in_recovery()
);

-- missing_postings
-- Passages of approved memories of an org whose words do not all stand in the index.
SELECT count(*) FROM remit.passage AS p
WHERE p.org = :org AND p.approved AND EXISTS (
    SELECT 1 FROM json_array_elements_text(p.words::json) AS w(word)
    WHERE NOT EXISTS (
        SELECT 1 FROM remit.posting AS x WHERE x.org = :org AND x.word = w.word AND x.shelf = p.shelf AND x.passage = p.key
    )
);

-- orphan_postings
-- Places of words whose passage is not there, or stands otherwise than the index says.
SELECT count(*) FROM remit.posting AS x
WHERE x.org = :org AND NOT EXISTS (
    SELECT 1 FROM remit.passage AS p
    WHERE p.org = :org AND p.key = x.passage AND p.shelf = x.shelf AND p.approved AND p.superseded = x.superseded
        AND p.valid_from IS NOT DISTINCT FROM x.valid_from AND p.valid_until IS NOT DISTINCT FROM x.valid_until
);

-- missing_phrases
-- Passages of approved memories that the phrase index does not know.
SELECT count(*) FROM remit.passage AS p
WHERE p.org = :org AND p.approved
    AND NOT EXISTS (SELECT 1 FROM remit.phrase AS f WHERE f.org = :org AND f.shelf = p.shelf AND f.passage = p.key);

-- orphan_phrases
-- Rows of the phrase index that belong to no passage.
SELECT count(*) FROM remit.phrase AS f
WHERE f.org = :org
    AND NOT EXISTS (SELECT 1 FROM remit.passage AS p WHERE p.org = :org AND p.key = f.passage AND p.shelf = f.shelf AND p.approved);

-- missing_words
-- Words of an org that stand on a shelf and not in its vocabulary.
SELECT count(*) FROM (SELECT DISTINCT x.shelf, x.word FROM remit.posting AS x WHERE x.org = :org AND left(x.word, 1) <> '=') AS d
WHERE NOT EXISTS (SELECT 1 FROM remit.vocabulary AS v WHERE v.org = :org AND v.shelf = d.shelf AND v.word = d.word);

-- orphan_words
-- Words of the vocabulary that stand nowhere on the shelf.
SELECT count(*) FROM remit.vocabulary AS v
WHERE v.org = :org
    AND NOT EXISTS (SELECT 1 FROM remit.posting AS x WHERE x.org = :org AND x.word = v.word AND x.shelf = v.shelf);

-- orphan_past
-- Rows of histories, tags and descents of an org that lie on another shelf than their memory.
SELECT count(*)
FROM (
    SELECT p.memory, p.shelf FROM remit.past AS p WHERE p.org = :org
    UNION ALL SELECT d.memory, d.shelf FROM remit.derived AS d WHERE d.org = :org
    UNION ALL SELECT t.memory, t.shelf FROM remit.tag AS t WHERE t.org = :org
) AS r
WHERE NOT EXISTS (SELECT 1 FROM remit.memory AS m WHERE m.org = :org AND m.key = r.memory AND m.shelf = r.shelf);

-- miscounted_shelves
-- Shelves of an org whose counters are not what stands on them.
SELECT count(*) FROM remit.shelf AS s
CROSS JOIN LATERAL (
    SELECT count(*) AS passages, coalesce(sum(p.length), 0) AS words
    FROM remit.passage AS p
    WHERE p.org = :org AND p.shelf = s.id AND p.approved AND NOT p.superseded AND p.valid_from IS NULL AND p.valid_until IS NULL
) AS c
WHERE s.org = :org AND (s.passages, s.words) <> (c.passages, c.words);

-- miscounted_vectors
-- Shelves of an org whose counters of vectors are not what stands on them.
SELECT count(*) FROM remit.shelf AS s
CROSS JOIN LATERAL (
    SELECT coalesce(json_object_agg(c.space, c.vectors ORDER BY c.space COLLATE "C")::text, '{}') AS vectors
    FROM (
        SELECT e.space, count(*) AS vectors
        FROM remit.passage AS p CROSS JOIN LATERAL json_array_elements_text(p.spaces::json) AS e(space)
        WHERE p.org = :org AND p.shelf = s.id AND p.approved AND NOT p.superseded AND p.valid_from IS NULL AND p.valid_until IS NULL
        GROUP BY e.space
    ) AS c
) AS c
WHERE s.org = :org AND s.vectors::jsonb <> c.vectors::jsonb;

-- orphan_local
-- Vectors whose passage is not there, or stands otherwise than the index says.
SELECT count(*) FROM remit.vector_local AS x
WHERE x.org = :org AND NOT EXISTS (
    SELECT 1 FROM remit.passage AS p
    WHERE p.org = :org AND p.key = x.passage AND p.shelf = x.shelf AND p.approved AND p.superseded = x.superseded
        AND p.valid_from IS NOT DISTINCT FROM x.valid_from AND p.valid_until IS NOT DISTINCT FROM x.valid_until
);

-- orphan_semantic
-- The same of the longer ones.
SELECT count(*) FROM remit.vector_semantic AS x
WHERE x.org = :org AND NOT EXISTS (
    SELECT 1 FROM remit.passage AS p
    WHERE p.org = :org AND p.key = x.passage AND p.shelf = x.shelf AND p.approved AND p.superseded = x.superseded
        AND p.valid_from IS NOT DISTINCT FROM x.valid_from AND p.valid_until IS NOT DISTINCT FROM x.valid_until
);

-- missing_vectors
-- Vectors that passages of approved memories of an org should have and that stand in no table.
SELECT count(*) FROM remit.passage AS p CROSS JOIN LATERAL json_array_elements_text(p.spaces::json) AS e(space)
CROSS JOIN LATERAL (SELECT m.source FROM remit.memory AS m WHERE m.org = :org AND m.key = p.memory OFFSET 0) AS m
WHERE p.org = :org AND p.approved
    AND NOT EXISTS (
        SELECT 1 FROM remit.vector_local AS x
        WHERE x.org = :org AND x.space = e.space AND x.source = m.source AND x.shelf = p.shelf AND x.passage = p.key
    )
    AND NOT EXISTS (
        SELECT 1 FROM remit.vector_semantic AS x
        WHERE x.org = :org AND x.space = e.space AND x.source = m.source AND x.shelf = p.shelf AND x.passage = p.key
    );
