-- Times are microseconds since 1970 in UTC, 0 for none. JSON is kept as text. Tables refer to sessions and logs by an
-- integer key that is never given out twice, so that a reader that is late cannot see another session's rows.

-- Who a session is and whom it belongs to: written at creation and when the user context changes.
CREATE TABLE sessions (
    key          INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    user_id      TEXT    NOT NULL,
    tags         TEXT    NOT NULL, -- JSON array
    metadata     TEXT    NOT NULL, -- JSON object
    expires_at   INTEGER NOT NULL,
    trace_parent TEXT    NOT NULL,
    parent_id    TEXT    NOT NULL,
    root_id      TEXT    NOT NULL,
    created_at   INTEGER NOT NULL
) STRICT;

-- Every call that names a session.
CREATE UNIQUE INDEX sessions_id ON sessions (id);
-- List without a filter, or with one that no other index serves.
CREATE INDEX sessions_created ON sessions (created_at, id);
-- List by user.
CREATE INDEX sessions_user ON sessions (user_id, created_at, id);
-- List by agent.
CREATE INDEX sessions_agent ON sessions (agent, created_at, id);
-- List by parent, and of roots, whose parent is empty.
CREATE INDEX sessions_parent ON sessions (parent_id, created_at, id);
-- List by root.
CREATE INDEX sessions_root ON sessions (root_id, created_at, id);

-- How far a session is: one narrow row, written by every commit.
CREATE TABLE heads (
    session        INTEGER PRIMARY KEY,
    status         TEXT    NOT NULL,
    version        INTEGER NOT NULL,
    epoch          INTEGER NOT NULL,
    message_count  INTEGER NOT NULL,
    run_id         TEXT    NOT NULL,
    turn           INTEGER NOT NULL,
    step           INTEGER NOT NULL,
    recoveries     INTEGER NOT NULL,
    checkpoint_id  TEXT    NOT NULL,
    checkpoints    INTEGER NOT NULL, -- how many were ever written: the last number given out
    log_sequence   INTEGER NOT NULL,
    lease_owner    TEXT    NOT NULL,
    lease_token    INTEGER NOT NULL,
    lease_until    INTEGER NOT NULL,
    state_position INTEGER NOT NULL,
    keyframe_bytes INTEGER NOT NULL,
    change_bytes   INTEGER NOT NULL,
    usage          TEXT    NOT NULL, -- JSON
    run_usage      TEXT    NOT NULL, -- JSON
    stop           TEXT    NOT NULL, -- JSON of the stop request, or empty
    updated_at     INTEGER NOT NULL
) STRICT;

-- Due: the active sessions. The lease's time is left out so that renewing a lease does not write the index.
CREATE INDEX heads_active ON heads (status) WHERE status = 'active';
-- WatchStops: the sessions somebody wants stopped.
CREATE INDEX heads_stopped ON heads (session) WHERE stop <> '';

CREATE TABLE messages (
    session INTEGER NOT NULL,
    number  INTEGER NOT NULL, -- from 0
    data    TEXT    NOT NULL, -- JSON
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

-- The changes of a session's state. Position 0 is the state it began with.
CREATE TABLE state (
    session  INTEGER NOT NULL,
    position INTEGER NOT NULL,
    keyframe INTEGER NOT NULL, -- 1: data is the whole state; 0: data is the operations on the position before
    data     TEXT    NOT NULL, -- JSON
    PRIMARY KEY (session, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    session        INTEGER NOT NULL,
    turn           INTEGER NOT NULL,
    id             TEXT    NOT NULL,
    started_at     INTEGER NOT NULL,
    start_sequence INTEGER NOT NULL,
    first_message  INTEGER NOT NULL,
    data           TEXT    NOT NULL, -- JSON of the run; the columns beside it have the last word
    PRIMARY KEY (session, turn)
) STRICT, WITHOUT ROWID;

-- A run by its id; a run is started once.
CREATE UNIQUE INDEX runs_id ON runs (session, id);

CREATE TABLE checkpoints (
    session        INTEGER NOT NULL,
    number         INTEGER NOT NULL,
    id             TEXT    NOT NULL,
    step_id        TEXT    NOT NULL,
    run_id         TEXT    NOT NULL,
    turn           INTEGER NOT NULL,
    step           INTEGER NOT NULL,
    parent_id      TEXT    NOT NULL,
    message_count  INTEGER NOT NULL,
    state_position INTEGER NOT NULL,
    log_sequence   INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

-- A checkpoint by its id.
CREATE UNIQUE INDEX checkpoints_id ON checkpoints (session, id);
-- Whether a step was committed before; a step is committed once.
CREATE UNIQUE INDEX checkpoints_step ON checkpoints (session, step_id) WHERE step_id <> '';

-- Pieces of steps under way. The rowid keeps the order of staging.
CREATE TABLE staged (
    number  INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    step_id TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    data    TEXT    NOT NULL -- JSON
) STRICT;

-- The pieces of a session or of one step; a piece is staged once.
CREATE UNIQUE INDEX staged_key ON staged (session, step_id, key);
