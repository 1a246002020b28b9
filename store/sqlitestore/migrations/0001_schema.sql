-- Times are microseconds since 1970 in UTC, 0 for none. JSON is kept as text. Tables refer to sessions and logs by an
-- integer key that is never reused, so that a late reader cannot see another session's rows.
--
-- Rows that can be long are in tables with one integer key, their place: the key of the session or log in the upper
-- bits, and the number within it in the lower 31. So they lie together and in order, nothing is repeated in each of
-- them, and up to a page they need no page of their own, which they would in tables WITHOUT ROWID.

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
    thread_id    TEXT    NOT NULL, -- the conversation that a root belongs to; empty for a session with a parent
    created_at   INTEGER NOT NULL,
    archived_at  INTEGER NOT NULL DEFAULT 0,
    name         TEXT    NOT NULL,
    secret       TEXT    NOT NULL,
    ttl          INTEGER NOT NULL, -- how long the session may be idle, in microseconds; 0 for ever
    -- From when on it is worth looking whether a root has expired; 0 for never. It is written when the session is
    -- created, when its context changes and when a look found it alive, but not by its commits.
    sweep_at     INTEGER NOT NULL,
    incarnation  TEXT    NOT NULL, -- distinguishes a tree from others that had its root's id
    depth        INTEGER NOT NULL DEFAULT 0, -- how many agents the session is consulted through
    kind         TEXT    NOT NULL, -- what the session is to its parent; empty for a root
    title        TEXT    NOT NULL,
    opening      TEXT    NOT NULL, -- the beginning of the first message of the user
    opening_at   INTEGER NOT NULL, -- the index of that message
    words        TEXT    NOT NULL  -- of title and opening, each after a space
) STRICT;

-- Every call that names a session.
CREATE UNIQUE INDEX sessions_id ON sessions (id);
-- List without a filter, or with one that no other index serves.
CREATE INDEX sessions_created ON sessions (created_at, id);
-- List by user.
CREATE INDEX sessions_user ON sessions (user_id, created_at, id);
-- List of the roots of a user that are not archived, and of those that are. The plus is as in the query: SQLite uses a
-- partial index for conditions in the same words, and without the plus it would use sessions_parent.
CREATE INDEX sessions_current ON sessions (user_id, created_at, id) WHERE +parent_id = '' AND archived_at = 0;
CREATE INDEX sessions_archived ON sessions (user_id, created_at, id) WHERE +parent_id = '' AND archived_at > 0;
-- List by tenant, which is what the id has before its first ::, if anything.
CREATE INDEX sessions_tenant ON sessions (substr(id, 1, max(instr(id, '::') - 1, 0)), created_at, id);
-- List by agent.
CREATE INDEX sessions_agent ON sessions (agent, created_at, id);
-- List by parent, and of roots, whose parent is empty.
CREATE INDEX sessions_parent ON sessions (parent_id, created_at, id);
-- List by root.
CREATE INDEX sessions_root ON sessions (root_id, created_at, id);
-- List by thread.
CREATE INDEX sessions_thread ON sessions (thread_id, created_at, id);
-- Stale: the roots that may have expired, the longest ago first.
CREATE INDEX sessions_sweep ON sessions (sweep_at, id) WHERE sweep_at > 0;

-- The progress of a session: one narrow row, written by every commit.
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
    lease_ttl      INTEGER NOT NULL, -- how long the lease was last taken for, in microseconds
    state_position INTEGER NOT NULL,
    keyframe_bytes INTEGER NOT NULL,
    change_bytes   INTEGER NOT NULL,
    usage          TEXT    NOT NULL, -- JSON
    run_usage      TEXT    NOT NULL, -- JSON
    stop           TEXT    NOT NULL, -- JSON of the stop request, or empty
    updated_at     INTEGER NOT NULL,
    -- JSON of what a session waits for: its suspended step, open calls, next deadline, queued turns and outbox; or
    -- empty. It is one column since every commit reads it and few sessions have it.
    wait           TEXT    NOT NULL DEFAULT '',
    -- When a session that is not active is due: since it is ready, or has queued turns or an outbox, or from its deadline
    -- on; 0 for never.
    due_at         INTEGER NOT NULL DEFAULT 0,
    agent          TEXT    NOT NULL  -- of the root of the session's tree
) STRICT;

-- Due: the active sessions. The lease's time is left out so that renewing a lease does not write the index.
CREATE INDEX heads_active ON heads (agent) WHERE status = 'active';
-- Due: the sessions that are not active, the longest due first.
CREATE INDEX heads_due ON heads (agent, due_at) WHERE due_at > 0;
-- Due: those of them that are due whatever the time: all but the sessions that wait with a deadline, are not being ended
-- and have an empty outbox.
CREATE INDEX heads_ready ON heads (agent, due_at) WHERE due_at > 0 AND (status <> 'paused' OR wait ->> '$.open' IS NULL
    OR wait ->> '$.ending' IS NOT NULL OR wait ->> '$.outbox' IS NOT NULL);
-- WatchStops: the sessions with a stop request.
CREATE INDEX heads_stopped ON heads (session) WHERE stop <> '';

CREATE TABLE messages (
    place      INTEGER PRIMARY KEY, -- session, number from 0
    created_at INTEGER NOT NULL,    -- 0 for a time that is in the JSON
    run_length INTEGER NOT NULL,    -- how many bytes of the message's id are the run's id; 0 for one that is in the JSON
    data       TEXT    NOT NULL     -- JSON of the rest
) STRICT;

-- The changes of a session's state. Position 0 is the state it began with.
CREATE TABLE state (
    place    INTEGER PRIMARY KEY, -- session, position
    keyframe INTEGER NOT NULL,    -- 1: data is the whole state; 0: data is the operations on the position before
    data     TEXT    NOT NULL     -- JSON
) STRICT;

CREATE TABLE runs (
    place             INTEGER PRIMARY KEY, -- session, turn
    session           INTEGER NOT NULL,
    id                TEXT    NOT NULL,
    started_at        INTEGER NOT NULL,
    start_sequence    INTEGER NOT NULL,
    first_message     INTEGER NOT NULL,
    before_checkpoint TEXT    NOT NULL, -- where the session was when the run began
    before_position   INTEGER NOT NULL,
    data              TEXT    NOT NULL, -- JSON of the rest of the run
    text_at           INTEGER NOT NULL DEFAULT 0 -- the number after that of the message that the run has its text from; 0 if data has it
) STRICT;

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

-- Pieces of steps under way. The number keeps the order of staging.
CREATE TABLE staged (
    number  INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    step_id TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    data    TEXT    NOT NULL -- JSON
) STRICT;

-- The pieces of a session or of one step; a piece is staged once.
CREATE UNIQUE INDEX staged_key ON staged (session, step_id, key);

-- Calls that are or were pending. The columns other than data are those that calls are looked up by.
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
-- Open calls, of all, by tenant, by user, by agent, by tool, by tree, and of those without reviewers. A call that is no longer
-- open leaves them.
CREATE INDEX calls_open ON calls (created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_tenant ON calls (substr(root_id, 1, max(instr(root_id, '::') - 1, 0)), created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_user ON calls (user_id, created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_agent ON calls (agent, created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_tool ON calls (tool, created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_root ON calls (root_id, created_at, id) WHERE status = 'open';
CREATE INDEX calls_open_free ON calls (created_at, root_id, id) WHERE status = 'open' AND assigned = 0;
-- Effects that are not settled, as the gauge of unknown effects counts them.
CREATE INDEX calls_unsettled ON calls (created_at, root_id, id) WHERE kind = 'effect' AND status <> 'settled';
-- Calls by the reviewer who claimed them.
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

-- The queued turns, in order.
CREATE TABLE queue (
    place   INTEGER PRIMARY KEY, -- session, number
    session INTEGER NOT NULL,
    id      TEXT    NOT NULL,
    data    TEXT    NOT NULL     -- JSON array of messages
) STRICT;

-- A turn by its id; a turn is queued once.
CREATE UNIQUE INDEX queue_id ON queue (session, id);

-- Results of tools by the key of their call.
CREATE TABLE cache (
    number  INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    data    TEXT    NOT NULL -- JSON of the entry
) STRICT;

-- The results of a session, or one of them.
CREATE UNIQUE INDEX cache_key ON cache (session, key);

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

-- The rows of removed sessions that others are found by, as they were: a table that gets another column gives it to the
-- one that keeps its rows here.
CREATE TABLE removed_sessions AS SELECT * FROM sessions WHERE 0;
CREATE TABLE removed_heads AS SELECT * FROM heads WHERE 0;
CREATE TABLE removed_calls AS SELECT * FROM calls WHERE 0;
CREATE TABLE removed_assignments AS SELECT * FROM assignments WHERE 0;
CREATE INDEX removed_sessions_key ON removed_sessions (key);
-- List of removed sessions by root, and by thread.
CREATE INDEX removed_sessions_root ON removed_sessions (root_id, created_at, id);
CREATE INDEX removed_sessions_thread ON removed_sessions (thread_id, created_at, id);
CREATE INDEX removed_heads_session ON removed_heads (session);
CREATE INDEX removed_calls_session ON removed_calls (session);
CREATE INDEX removed_assignments_root ON removed_assignments (root_id);

-- The event logs. first and last are the sequences of the first event kept and of the last one ever written.
CREATE TABLE logs (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL,
    first      INTEGER NOT NULL,
    last       INTEGER NOT NULL,
    -- When the log was dropped: the row remains for a while, so that no writer begins it anew; 0 for a log that is
    -- there.
    dropped_at INTEGER NOT NULL DEFAULT 0,
    -- From when on a log is due for a sweep: from its first event on, or the first since the last sweep, or the time
    -- which that gave. What is appended further does not write it.
    sweep_at   INTEGER NOT NULL DEFAULT 1
) STRICT;

-- Every call that names a log.
CREATE UNIQUE INDEX logs_name ON logs (name);
-- The remnants of dropped logs that may be deleted.
CREATE INDEX logs_dropped ON logs (dropped_at) WHERE dropped_at > 0;
-- Unswept: the logs, the longest due first.
CREATE INDEX logs_sweep ON logs (sweep_at, name) WHERE dropped_at = 0;

-- Events in batches: what one append has brought, or several small ones. A batch of which some events were trimmed
-- stays until the last of them is.
CREATE TABLE events (
    place INTEGER PRIMARY KEY, -- log, sequence of the first event
    data  BLOB    NOT NULL     -- see backend.Events
) STRICT;

-- The highest fencing token that was seen of each session that writes to a log.
CREATE TABLE fences (
    log     INTEGER NOT NULL,
    session TEXT    NOT NULL,
    token   INTEGER NOT NULL,
    PRIMARY KEY (log, session)
) STRICT, WITHOUT ROWID;

-- What the writers that held the lease under a fence's token have added: the number of each one's last batch, and the
-- sequence at which that ended.
CREATE TABLE batches (
    log     INTEGER NOT NULL,
    session TEXT    NOT NULL,
    writer  TEXT    NOT NULL,
    number  INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    PRIMARY KEY (log, session, writer)
) STRICT, WITHOUT ROWID;

-- Small values that belong to no session. A write replaces the row, so that it has a version that was never used.
CREATE TABLE records (
    version    INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace  TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    position   TEXT    NOT NULL, -- the index of the record; empty for none
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL, -- 0 for never
    value      TEXT    NOT NULL  -- JSON
) STRICT;

-- Get, Put, Delete, List by key.
CREATE UNIQUE INDEX records_key ON records (namespace, key);
-- List by index.
CREATE INDEX records_position ON records (namespace, position, key) WHERE position <> '';
-- The expired records that a Put removes, the longest expired first.
CREATE INDEX records_expiry ON records (expires_at) WHERE expires_at > 0;

-- A scope of memories. The version is compared by each write.
CREATE TABLE memory_scopes (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    due_at     INTEGER NOT NULL -- from when on the scope is worth a sweep; 0 for never
) STRICT;

-- Read, Write, Drop, Scopes.
CREATE UNIQUE INDEX memory_scopes_name ON memory_scopes (kind, name);
-- Scopes that are due.
CREATE INDEX memory_scopes_due ON memory_scopes (kind, name) WHERE due_at > 0;

-- The entries of a scope. One tree: an entry is read by its key or with those beside it.
CREATE TABLE memory_entries (
    scope INTEGER NOT NULL,
    key   TEXT    NOT NULL,
    value BLOB    NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

-- The usage of each commit, in order. The last row is never removed, so that no number is used twice.
CREATE TABLE usage_rows (
    number  INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    root_id TEXT    NOT NULL,
    user_id TEXT    NOT NULL,
    data    TEXT    NOT NULL -- JSON of the rest of the row
) STRICT;

-- The sums of usage by day, owner, agent, and kind and name of entry.
CREATE TABLE usage_sums (
    key  TEXT PRIMARY KEY, -- the day, and a digest of the rest
    data TEXT NOT NULL     -- JSON
) STRICT, WITHOUT ROWID;

-- One row: up to which number the usage rows are in the sums.
CREATE TABLE usage_folds (
    key    INTEGER PRIMARY KEY CHECK (key = 1),
    number INTEGER NOT NULL
) STRICT;
INSERT INTO usage_folds (key, number) VALUES (1, 0);

-- Values that are found by the hash of their bytes, for all sessions of a tenant.
CREATE TABLE blobs (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant     TEXT    NOT NULL,
    hash       TEXT    NOT NULL, -- SHA-256 in hexadecimal
    size       INTEGER NOT NULL,
    unnamed_at INTEGER NOT NULL, -- since when the blob may be without a name; 0 for one that has one
    data       BLOB    NOT NULL
) STRICT;

-- Put, Get, Has, Name, Drop.
CREATE UNIQUE INDEX blobs_hash ON blobs (tenant, hash);
-- Sweep: the blobs that may be without a name.
CREATE INDEX blobs_unnamed ON blobs (unnamed_at) WHERE unnamed_at > 0;

-- The session trees that name blobs.
CREATE TABLE blob_owners (
    key         INTEGER PRIMARY KEY AUTOINCREMENT,
    root        TEXT    NOT NULL,
    incarnation TEXT    NOT NULL
) STRICT;

-- Every call that names an owner; Owners.
CREATE UNIQUE INDEX blob_owners_root ON blob_owners (root, incarnation);

CREATE TABLE blob_names (
    owner INTEGER NOT NULL,
    blob  INTEGER NOT NULL,
    PRIMARY KEY (owner, blob)
) STRICT, WITHOUT ROWID;

-- Whether a blob has a name.
CREATE INDEX blob_names_blob ON blob_names (blob);
