-- Authority, in the database: made anew by every `remit init`, so that it is always what stands here.
-- app.org and app.scopes are set by the engine for one transaction; unset, empty or made up they match nothing, and nothing here raises.
-- app.scopes holds whole scope names, parted by the character U+0002, or '*' for every scope of the org.
-- What stands in a subselect is evaluated once for a statement and not once for a row.

-- drop
-- Lets go of every policy there is.
DO $$
DECLARE
    policy record;
BEGIN
    FOR policy IN SELECT tablename, policyname FROM pg_catalog.pg_policies WHERE schemaname = 'remit' LOOP
        EXECUTE format('DROP POLICY %I ON remit.%I', policy.policyname, policy.tablename);
    END LOOP;
END
$$;

-- shelf
-- The visibility rule's unchanging part: own org, scope granted, project and conversation of the origin granted. An object of the granted
-- scopes is searched by halves, and is one value to be made for a statement where a set of rows is a plan of its own.
CREATE POLICY own ON remit.shelf USING (
    org = nullif(current_setting('app.org', true), '')
    AND (
        (SELECT current_setting('app.scopes', true) = '*')
        OR (SELECT jsonb_object(granted, granted) FROM string_to_array(current_setting('app.scopes', true), E'\x02') AS granted)
            ?& ARRAY[scope, coalesce(nullif(project, ''), scope), coalesce(nullif(conversation, ''), scope)]
    )
);

-- on_shelves
-- Whatever lies on a shelf is seen by who sees the shelf: the policy above applies inside the subselect as well.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_catalog.pg_class AS c
        WHERE c.relnamespace = 'remit'::regnamespace AND c.relkind = 'r'
            AND c.relname IN ('memory', 'past', 'derived', 'tag', 'passage', 'posting', 'vocabulary', 'phrase', 'loan', 'vector_local', 'vector_semantic')
    LOOP
        EXECUTE format($policy$
            CREATE POLICY own ON remit.%I USING (
                org = nullif(current_setting('app.org', true), '')
                AND ((SELECT current_setting('app.scopes', true) = '*') OR shelf IN (
                    SELECT s.id FROM remit.shelf AS s
                    WHERE s.org = nullif(current_setting('app.org', true), '')
                        AND s.scope = ANY ((SELECT string_to_array(current_setting('app.scopes', true), E'\x02'))::text[])
                ))
            )
        $policy$, name);
    END LOOP;
END
$$;

-- receipt
-- What became of keys belongs to the org as a whole.
CREATE POLICY own ON remit.receipt USING (
    org = nullif(current_setting('app.org', true), '') AND nullif(current_setting('app.scopes', true), '') IS NOT NULL
);

-- tombstone
-- And so do those that were forgotten.
CREATE POLICY own ON remit.tombstone USING (
    org = nullif(current_setting('app.org', true), '') AND nullif(current_setting('app.scopes', true), '') IS NOT NULL
);

-- tenant
-- An org sees its own name.
CREATE POLICY own ON remit.tenant USING (
    org = nullif(current_setting('app.org', true), '') AND nullif(current_setting('app.scopes', true), '') IS NOT NULL
);

-- root
-- So do the folders in which its files may be read.
CREATE POLICY own ON remit.root USING (
    org = nullif(current_setting('app.org', true), '') AND nullif(current_setting('app.scopes', true), '') IS NOT NULL
);

-- grants
-- Grants are looked up and changed by who holds all of the org.
CREATE POLICY own ON remit.grants USING (
    org = nullif(current_setting('app.org', true), '') AND current_setting('app.scopes', true) = '*'
);

-- host
-- The host's own affairs, in which there is nothing of a tenant: all may look, the owner may change them, and the owner may list the orgs.
CREATE POLICY host ON remit.tenant FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY host ON remit.setting TO CURRENT_USER USING (true);
CREATE POLICY host ON remit.migration TO CURRENT_USER USING (true);
CREATE POLICY told ON remit.setting FOR SELECT USING (true);
CREATE POLICY told ON remit.migration FOR SELECT USING (true);

-- force
-- Row security everywhere, for the owner too.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'remit' LOOP
        EXECUTE format('ALTER TABLE remit.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    END LOOP;
END
$$;

-- grant
-- What the restricted role may do, inside those policies; its name is the setting remit.role.
DO $$
DECLARE
    role text := current_setting('remit.role');
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA remit TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA remit TO %I', role);
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON remit.setting, remit.migration FROM %I', role);
    EXECUTE format('REVOKE UPDATE, DELETE ON remit.tenant FROM %I', role);
    EXECUTE format('REVOKE UPDATE ON remit.root FROM %I', role);
    EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA remit TO %I', role);
END
$$;

-- fingerprint
-- Notes what the policies of each table are, so that a change is seen.
INSERT INTO remit.setting (name, value)
SELECT 'policies', coalesce(json_object_agg(p.tablename, p.told)::text, '{}')
FROM (
    SELECT tablename, md5(string_agg(
        concat_ws('|', policyname, permissive, roles, cmd, qual, with_check), E'\n' ORDER BY policyname COLLATE "C"
    )) AS told
    FROM pg_catalog.pg_policies WHERE schemaname = 'remit' GROUP BY tablename
) AS p
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
