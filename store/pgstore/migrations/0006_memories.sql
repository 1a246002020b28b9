-- A scope of memories. The version is compared by each write, which so locks the scope.
CREATE TABLE {schema}.memory_scopes (
    key        bigint      GENERATED ALWAYS AS IDENTITY UNIQUE,
    version    bigint      NOT NULL,
    updated_at timestamptz NOT NULL,
    due_at     timestamptz, -- from when on the scope is worth a sweep; null for never
    kind       text        COLLATE "C" NOT NULL,
    name       text        COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, name)
);

-- Scopes that are due.
CREATE INDEX memory_scopes_due ON {schema}.memory_scopes (kind, name) WHERE due_at IS NOT NULL;

-- The entries of a scope.
CREATE TABLE {schema}.memory_entries (
    scope bigint NOT NULL,
    key   text   COLLATE "C" NOT NULL,
    value bytea  NOT NULL,
    PRIMARY KEY (scope, key)
);

-- Views for analysts, documented in docs/USAGE.md. Their columns stay as they are: a change of meaning gets views with
-- another prefix. A user who may select from the views needs no right to the tables.
CREATE VIEW {schema}.v1_sessions AS
SELECT s.id AS session_id, left(s.id, greatest(strpos(s.id, '::') - 1, 0)) AS tenant, s.user_id, s.agent, s.root_id, s.parent_id, s.kind, s.title,
    s.tags, s.metadata, h.status, s.created_at, h.updated_at,
    coalesce((u.v ->> 'model_calls')::bigint, 0) AS model_calls, coalesce((u.v ->> 'input_tokens')::bigint, 0) AS input_tokens,
    coalesce((u.v ->> 'output_tokens')::bigint, 0) AS output_tokens, coalesce((u.v ->> 'tool_calls')::bigint, 0) AS tool_calls,
    coalesce((u.v ->> 'cost_nanos')::numeric, 0) / 1000000000 AS cost
FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key
    CROSS JOIN LATERAL (SELECT h.data::jsonb -> 'usage' AS v) u;

CREATE VIEW {schema}.v1_turns AS
SELECT s.id AS session_id, r.turn, r.id AS run_id, s.agent, d.v ->> 'status' AS status, coalesce(d.v ->> 'reason', '') AS reason,
    r.started_at, r.ended_at, coalesce((d.v ->> 'steps')::int, 0) AS steps,
    coalesce((d.v -> 'usage' ->> 'model_calls')::bigint, 0) AS model_calls,
    coalesce((d.v -> 'usage' ->> 'input_tokens')::bigint, 0) AS input_tokens,
    coalesce((d.v -> 'usage' ->> 'output_tokens')::bigint, 0) AS output_tokens,
    coalesce((d.v -> 'usage' ->> 'tool_calls')::bigint, 0) AS tool_calls,
    coalesce((d.v -> 'usage' ->> 'cost_nanos')::numeric, 0) / 1000000000 AS cost
FROM {schema}.runs r JOIN {schema}.sessions s ON s.key = r.session
    CROSS JOIN LATERAL (SELECT r.data::jsonb AS v) d;

CREATE VIEW {schema}.v1_steps AS
SELECT s.id AS session_id, c.turn, coalesce(c.run, r.id) AS run_id, c.step, c.created_at AS committed_at, c.message_count AS messages
FROM {schema}.checkpoints c JOIN {schema}.sessions s ON s.key = c.session
    LEFT JOIN {schema}.runs r ON r.session = c.session AND r.turn = c.turn;

CREATE VIEW {schema}.v1_calls AS
SELECT c.root_id, c.id AS call_id, s.id AS session_id, c.user_id, c.agent, c.tool, c.kind, c.status, c.created_at, c.updated_at, c.deadline
FROM {schema}.calls c JOIN {schema}.sessions s ON s.key = c.session;

CREATE VIEW {schema}.v1_decisions AS
SELECT c.root_id, c.id AS call_id, s.id AS session_id, c.agent, c.tool, t.number, (t.v ->> 'timestamp')::timestamptz AS decided_at,
    t.v ->> 'decision' AS decision, coalesce(t.v ->> 'reviewer', '') AS reviewer, coalesce(t.v ->> 'notes', '') AS notes,
    t.v ->> 'decision' = 'approved' AND coalesce(c.data::jsonb -> 'answer' ? 'value', FALSE) AS edited
FROM {schema}.calls c JOIN {schema}.sessions s ON s.key = c.session
    CROSS JOIN LATERAL jsonb_array_elements(coalesce(c.data::jsonb -> 'trail', '[]')) WITH ORDINALITY t (v, number);

-- The entries of the usage rows that are kept. The numbers of counts are those of backend.UsageRowText.
CREATE VIEW {schema}.v1_usage AS
SELECT r.at, d.v ->> 'n' AS tenant, r.user_id, d.v ->> 'a' AS agent, r.root_id, coalesce(d.v ->> 's', r.root_id) AS session_id,
    coalesce(d.v ->> 'r', '') AS run_id, coalesce((d.v ->> 'p')::int, 0) AS step,
    ARRAY(SELECT jsonb_array_elements_text(coalesce(d.v -> 't', '[]'))) AS tags, e.v ->> 0 AS kind, e.v ->> 1 AS name,
    (e.v ->> 2)::numeric / 1000000 AS seconds, coalesce((e.v -> 3 ->> 8)::bigint, 0) > 0 AS discarded,
    coalesce((e.v -> 3 ->> 10)::bigint, 0) > 0 AS failed, coalesce((e.v -> 3 ->> 0)::bigint, 0) + coalesce((e.v -> 3 ->> 8)::bigint, 0) AS model_calls,
    coalesce((e.v -> 3 ->> 1)::bigint, 0) AS input_tokens, coalesce((e.v -> 3 ->> 3)::bigint, 0) AS cached_tokens,
    coalesce((e.v -> 3 ->> 7)::bigint, 0) AS cache_write_tokens, coalesce((e.v -> 3 ->> 2)::bigint, 0) AS output_tokens,
    coalesce((e.v -> 3 ->> 6)::bigint, 0) AS reasoning_tokens, coalesce((e.v -> 3 ->> 9)::bigint, 0) AS tool_calls,
    coalesce((e.v -> 3 ->> 11)::bigint, 0) AS wait_seconds, coalesce((e.v -> 4 ->> (e.v ->> 1))::float8, 0) AS amount,
    coalesce((e.v -> 3 ->> 4)::numeric, 0) / 1000000000 AS cost, coalesce((e.v -> 3 ->> 5)::bigint, 0) > 0 AS cost_known
FROM {schema}.usage_rows r CROSS JOIN LATERAL (SELECT r.data::jsonb AS v) d
    CROSS JOIN LATERAL jsonb_array_elements(d.v -> 'e') e (v);
