-- Sessions that keep their id when they are removed, until they are purged.

-- Tells a tree from others that had its root's id.
ALTER TABLE sessions ADD COLUMN incarnation TEXT NOT NULL DEFAULT '';

DROP TABLE removed;
DROP TABLE removed_calls;

-- Sessions that were removed.
CREATE TABLE removed (
    key         INTEGER PRIMARY KEY, -- the session's
    tree        INTEGER NOT NULL,    -- the key of its tree's root
    root        INTEGER NOT NULL,    -- 1: it is that root
    id          TEXT    NOT NULL,
    root_id     TEXT    NOT NULL,
    incarnation TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    removed_at  INTEGER NOT NULL
) STRICT;

-- Whether an id is reserved.
CREATE UNIQUE INDEX removed_id ON removed (id);
-- Purge: the sessions of a tree, the root last.
CREATE INDEX removed_tree ON removed (tree, root);
-- Removed: the trees, the oldest removal first.
CREATE INDEX removed_roots ON removed (removed_at, key) WHERE root = 1;

-- The rows of removed sessions that others are found by, as they were: a table that gets another column gives it to the one
-- that keeps its rows here.
CREATE TABLE removed_sessions AS SELECT * FROM sessions WHERE 0;
CREATE TABLE removed_heads AS SELECT * FROM heads WHERE 0;
CREATE TABLE removed_calls AS SELECT * FROM calls WHERE 0;
CREATE TABLE removed_assignments AS SELECT * FROM assignments WHERE 0;
CREATE INDEX removed_sessions_key ON removed_sessions (key);
CREATE INDEX removed_heads_session ON removed_heads (session);
CREATE INDEX removed_calls_session ON removed_calls (session);
CREATE INDEX removed_assignments_root ON removed_assignments (root_id);

-- When a log was dropped: the row remains for a while, so that nobody begins it anew; 0 for a log that is there.
ALTER TABLE logs ADD COLUMN dropped_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX logs_dropped ON logs (dropped_at) WHERE dropped_at > 0;
