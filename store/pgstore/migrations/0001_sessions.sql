-- JSON is kept as text, exactly as it was written; cast it to json to look into it. Identifiers are compared byte by
-- byte, whatever the database's collation. A time that is null is none. Tables refer to sessions by a key that is never
-- given out twice, so that a reader that is late cannot see another session's rows.

-- Who a session is and whom it belongs to: written at creation and when the user context changes.
CREATE TABLE {schema}.sessions (
    key          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           text        COLLATE "C" NOT NULL,
    agent        text        COLLATE "C" NOT NULL,
    user_id      text        COLLATE "C" NOT NULL,
    tags         text[]      NOT NULL,
    metadata     jsonb       NOT NULL,
    expires_at   timestamptz,
    trace_parent text        NOT NULL,
    parent_id    text        COLLATE "C" NOT NULL,
    root_id      text        COLLATE "C" NOT NULL,
    name         text        COLLATE "C" NOT NULL,
    secret       text        NOT NULL,
    context      bigint      NOT NULL, -- counts the changes of the user context
    created_at   timestamptz NOT NULL
);

-- Every call that names a session.
CREATE UNIQUE INDEX sessions_id ON {schema}.sessions (id);
-- List without a filter, or with one that no other index serves.
CREATE INDEX sessions_created ON {schema}.sessions (created_at, id);
-- List by user.
CREATE INDEX sessions_user ON {schema}.sessions (user_id, created_at, id);
-- List by agent.
CREATE INDEX sessions_agent ON {schema}.sessions (agent, created_at, id);
-- List by parent, and of roots, whose parent is empty.
CREATE INDEX sessions_parent ON {schema}.sessions (parent_id, created_at, id);
-- List by root.
CREATE INDEX sessions_root ON {schema}.sessions (root_id, created_at, id);

-- How far a session is: one narrow row, written by every commit. What a step changes is in no index, and there is room
-- on each page, so that a step writes the row once and no index of it.
CREATE TABLE {schema}.heads (
    session           bigint      PRIMARY KEY,
    version           bigint      NOT NULL,
    epoch             bigint      NOT NULL DEFAULT 0,
    message_count     bigint      NOT NULL,
    turn              bigint      NOT NULL,
    step              bigint      NOT NULL,
    recoveries        bigint      NOT NULL,
    checkpoints       bigint      NOT NULL, -- how many were ever written: the last number given out
    log_sequence      bigint      NOT NULL,
    lease_token       bigint      NOT NULL,
    state_position    bigint      NOT NULL,
    keyframe_bytes    bigint      NOT NULL,
    change_bytes      bigint      NOT NULL,
    open_calls        bigint      NOT NULL,
    queued            bigint      NOT NULL,
    context           bigint      NOT NULL, -- that of the session's row which belongs to this version
    updated_at        timestamptz NOT NULL,
    lease_until       timestamptz,
    next_deadline     timestamptz,
    due_at            timestamptz, -- when a session that is not active is due
    usage             bigint[]    NOT NULL, -- the counts in the order of the type's fields
    run_usage         bigint[]    NOT NULL,
    usage_custom      jsonb,
    run_usage_custom  jsonb,
    status            text        NOT NULL,
    run_id            text        NOT NULL,
    checkpoint_id     text        NOT NULL,
    checkpoint_before text        NOT NULL, -- before the last commit that wrote a checkpoint or began a run
    lease_owner       text        NOT NULL,
    suspended_step    text        NOT NULL,
    due               text        NOT NULL, -- why a session that is not active is due, or will be
    stop_run          text        NOT NULL DEFAULT '', -- the run that is to stop
    stop              text        NOT NULL DEFAULT ''  -- JSON of the stop request, or empty
) WITH (fillfactor = 50);

-- Due: the active sessions. The lease's time is left out so that renewing a lease does not write the index.
CREATE INDEX heads_active ON {schema}.heads (session) WHERE status = 'active';
-- Due: the sessions that are not active, the longest due first.
CREATE INDEX heads_due ON {schema}.heads (due_at) WHERE due_at IS NOT NULL;
-- WatchStops: the sessions somebody wants stopped.
CREATE INDEX heads_stopped ON {schema}.heads (session) WHERE stop_run <> '';

CREATE TABLE {schema}.messages (
    session    bigint      NOT NULL,
    number     bigint      NOT NULL, -- from 0
    created_at timestamptz NOT NULL, -- for messages that do not tell
    data       text        NOT NULL, -- JSON
    PRIMARY KEY (session, number)
);

-- The changes of a session's state. Position 0 is the state it began with.
CREATE TABLE {schema}.state (
    session  bigint  NOT NULL,
    position bigint  NOT NULL,
    keyframe boolean NOT NULL, -- data is the whole state, else the operations on the position before
    data     text    NOT NULL, -- JSON
    PRIMARY KEY (session, position)
);

CREATE TABLE {schema}.runs (
    session           bigint      NOT NULL,
    turn              bigint      NOT NULL,
    id                text        COLLATE "C" NOT NULL,
    started_at        timestamptz NOT NULL,
    ended_at          timestamptz,
    start_sequence    bigint      NOT NULL,
    first_message     bigint      NOT NULL,
    before_checkpoint text        NOT NULL, -- where the session was when the run began
    before_position   bigint      NOT NULL,
    data              text        NOT NULL, -- JSON of the run; the columns beside it have the last word
    PRIMARY KEY (session, turn)
);

-- A run by its id; a run is started once.
CREATE UNIQUE INDEX runs_id ON {schema}.runs (session, id);

CREATE TABLE {schema}.checkpoints (
    session        bigint      NOT NULL,
    number         bigint      NOT NULL,
    turn           bigint      NOT NULL,
    step           bigint      NOT NULL,
    message_count  bigint      NOT NULL,
    state_position bigint      NOT NULL,
    log_sequence   bigint      NOT NULL,
    created_at     timestamptz NOT NULL,
    id             text        COLLATE "C" NOT NULL,
    step_id        text        COLLATE "C" NOT NULL,
    run_id         text        NOT NULL,
    parent_id      text        NOT NULL,
    PRIMARY KEY (session, number)
);

-- A checkpoint by its id.
CREATE UNIQUE INDEX checkpoints_id ON {schema}.checkpoints (session, id);
-- Whether a step was committed before; a step is committed once.
CREATE UNIQUE INDEX checkpoints_step ON {schema}.checkpoints (session, step_id) WHERE step_id <> '';

-- Pieces of steps under way. The number keeps the order of staging.
CREATE TABLE {schema}.staged (
    session bigint NOT NULL,
    number  bigint GENERATED ALWAYS AS IDENTITY,
    step_id text   COLLATE "C" NOT NULL,
    key     text   COLLATE "C" NOT NULL,
    data    text   NOT NULL -- JSON
);

-- The pieces of a session or of one step; a piece is staged once.
CREATE UNIQUE INDEX staged_key ON {schema}.staged (session, step_id, key);
