-- Sessions that were removed. They have no row in sessions, heads and calls any more, and so cannot be found; what else
-- refers to their key is still there.
CREATE TABLE {schema}.removed (
    key         bigint      PRIMARY KEY, -- the session's
    tree        bigint      NOT NULL,    -- the key of its tree's root
    root        boolean     NOT NULL,    -- it is that root
    id          text        COLLATE "C" NOT NULL,
    root_id     text        COLLATE "C" NOT NULL,
    incarnation text        NOT NULL,
    reason      text        NOT NULL,
    removed_at  timestamptz NOT NULL,
    thread_id   text        COLLATE "C" NOT NULL DEFAULT '', -- that of the session
    data        jsonb       NOT NULL     -- the row of sessions and that of heads
);

-- Purge: the sessions of a tree, the root last.
CREATE INDEX removed_tree ON {schema}.removed (tree, root);
-- Removed: the trees, the oldest removal first.
CREATE INDEX removed_roots ON {schema}.removed (removed_at, key) WHERE root;

-- By which removal a session is gone.
CREATE INDEX removed_id ON {schema}.removed (id);

-- List of removed sessions by root, and by thread.
CREATE INDEX removed_root_id ON {schema}.removed (root_id);
CREATE INDEX removed_thread ON {schema}.removed (thread_id);

-- The calls of sessions that were removed.
CREATE TABLE {schema}.removed_calls (
    session bigint NOT NULL,
    data    jsonb  NOT NULL -- the row of calls
);

-- Purge: the calls of a session.
CREATE INDEX removed_calls_session ON {schema}.removed_calls (session);
