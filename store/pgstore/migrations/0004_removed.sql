-- Sessions that expire, and those that were removed and are kept for a while.

-- How long a session may be idle; null for ever. Sessions from before this version are never idle too long.
ALTER TABLE {schema}.sessions ADD COLUMN ttl interval;
-- From when on it is worth looking whether a root has expired. It is written when the session is created, when its context
-- changes and when a look found it alive, but not by its commits.
ALTER TABLE {schema}.sessions ADD COLUMN sweep_at timestamptz;
UPDATE {schema}.sessions SET sweep_at = expires_at WHERE root_id = id AND expires_at IS NOT NULL;

-- Stale: the roots that may have expired, the longest ago first.
CREATE INDEX sessions_sweep ON {schema}.sessions (sweep_at, id) WHERE sweep_at IS NOT NULL;

-- Sessions that were removed. They have no row in sessions, heads and calls any more, and so cannot be found; what else
-- refers to their key is still there.
CREATE TABLE {schema}.removed (
    key        bigint      PRIMARY KEY, -- the session's
    tree       bigint      NOT NULL,    -- the key of its tree's root
    root       boolean     NOT NULL,    -- it is that root
    log        bigint,                  -- the key of the event log of a root, whose events are still there
    id         text        COLLATE "C" NOT NULL,
    reason     text        NOT NULL,
    removed_at timestamptz NOT NULL,
    data       jsonb       NOT NULL     -- the row of sessions and that of heads
);

-- Purge: the sessions of a tree, the root last.
CREATE INDEX removed_tree ON {schema}.removed (tree, root);
-- Removed: the trees, the oldest removal first.
CREATE INDEX removed_roots ON {schema}.removed (removed_at, key) WHERE root;

-- The calls of sessions that were removed.
CREATE TABLE {schema}.removed_calls (
    session bigint NOT NULL,
    data    jsonb  NOT NULL -- the row of calls
);

-- Purge: the calls of a session.
CREATE INDEX removed_calls_session ON {schema}.removed_calls (session);
