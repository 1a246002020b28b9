-- Sessions that expire, and those that were removed and are kept for a while.

-- How long a session may be idle, in microseconds; 0 for ever. Sessions from before this version are never idle too long.
ALTER TABLE sessions ADD COLUMN ttl      INTEGER NOT NULL DEFAULT 0;
-- From when on it is worth looking whether a root has expired; 0 for never. It is written when the session is created, when
-- its context changes and when a look found it alive, but not by its commits.
ALTER TABLE sessions ADD COLUMN sweep_at INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET sweep_at = expires_at WHERE root_id = id AND expires_at > 0;

-- Stale: the roots that may have expired, the longest ago first.
CREATE INDEX sessions_sweep ON sessions (sweep_at, id) WHERE sweep_at > 0;

-- Sessions that were removed. They have no row in sessions, heads and calls any more, and so cannot be found; what else
-- refers to their key is still there.
CREATE TABLE removed (
    key        INTEGER PRIMARY KEY, -- the session's
    tree       INTEGER NOT NULL,    -- the key of its tree's root
    root       INTEGER NOT NULL,    -- 1: it is that root
    log        INTEGER NOT NULL,    -- the key of the event log of a root, whose events are still there; 0 for none
    id         TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    removed_at INTEGER NOT NULL,
    data       TEXT    NOT NULL     -- JSON of the session's row
) STRICT;

-- Purge: the sessions of a tree, the root last.
CREATE INDEX removed_tree ON removed (tree, root);
-- Removed: the trees, the oldest removal first.
CREATE INDEX removed_roots ON removed (removed_at, key) WHERE root = 1;

-- The calls of sessions that were removed.
CREATE TABLE removed_calls (
    key     INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    data    TEXT    NOT NULL -- JSON of the call
) STRICT;

-- Purge: the calls of a session.
CREATE INDEX removed_calls_session ON removed_calls (session);
