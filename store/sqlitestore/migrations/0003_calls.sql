-- Sessions that wait for people or children: pending calls, turns that are to follow, the cache of tool results.

ALTER TABLE sessions ADD COLUMN kind   TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN name   TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN secret TEXT NOT NULL DEFAULT '';
UPDATE sessions SET secret = 'secret_' || lower(hex(randomblob(16)));

-- JSON of what a session waits for: its suspended step, open calls, next deadline and queued turns; or empty. It is one
-- column since every commit reads it and few sessions have it.
ALTER TABLE heads ADD COLUMN wait   TEXT    NOT NULL DEFAULT '';
-- When a session that is not active is due: since it is ready or has turns to follow, or from its deadline on; 0 for never.
ALTER TABLE heads ADD COLUMN due_at INTEGER NOT NULL DEFAULT 0;

-- Due: the sessions that are not active, the longest due first.
CREATE INDEX heads_due ON heads (due_at) WHERE due_at > 0;

-- Where the session was when a run began; the position is -1 where that is not known, for runs from before this version.
ALTER TABLE runs ADD COLUMN before_checkpoint TEXT    NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN before_position   INTEGER NOT NULL DEFAULT -1;

-- The columns beside data are what calls are found by.
CREATE TABLE calls (
    key           INTEGER PRIMARY KEY,
    session       INTEGER NOT NULL,
    root_id       TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    step_id       TEXT    NOT NULL,
    user_id       TEXT    NOT NULL,
    agent         TEXT    NOT NULL,
    tool          TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    status        TEXT    NOT NULL,
    assigned      INTEGER NOT NULL, -- 1: the call has reviewers
    claimed_by    TEXT    NOT NULL,
    claimed_until INTEGER NOT NULL,
    deadline      INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    data          TEXT    NOT NULL  -- JSON of the call
) STRICT;

-- A call by its tree and id.
CREATE UNIQUE INDEX calls_id ON calls (root_id, id);
-- Calls of a session and of one of its steps.
CREATE INDEX calls_step ON calls (session, step_id, created_at, root_id, id);
-- Calls with a filter that no other index serves.
CREATE INDEX calls_created ON calls (created_at, root_id, id);
-- Open calls, of all, by user, by agent, by tool, by tree, and of those that are assigned to nobody. A call that is no
-- longer open leaves them.
CREATE INDEX calls_open ON calls (created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_user ON calls (user_id, created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_agent ON calls (agent, created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_tool ON calls (tool, created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_root ON calls (root_id, created_at, id) WHERE status = 'open';
CREATE INDEX calls_open_free ON calls (created_at, root_id, id) WHERE status = 'open' AND assigned = 0;
-- Calls by who claimed them.
CREATE INDEX calls_claimed ON calls (claimed_by, created_at, root_id, id) WHERE claimed_by <> '';

-- The open calls that each reviewer is assigned to, in the order of their list.
CREATE TABLE assignments (
    reviewer   TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    root_id    TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    call       INTEGER NOT NULL,
    PRIMARY KEY (reviewer, created_at, root_id, id)
) STRICT, WITHOUT ROWID;

-- Whom a call is assigned to, when it is written again.
CREATE INDEX assignments_call ON assignments (call);

-- The turns that are to follow, in order.
CREATE TABLE queue (
    session INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    id      TEXT    NOT NULL,
    data    TEXT    NOT NULL, -- JSON array of messages
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

-- A turn by its id; a turn is queued once.
CREATE UNIQUE INDEX queue_id ON queue (session, id);

-- Results of tools by the key of their call.
CREATE TABLE cache (
    session INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    data    TEXT    NOT NULL, -- JSON of the entry
    PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
