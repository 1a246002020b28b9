-- JSON is kept as text, exactly as it was written; cast it to json to look into it. Identifiers are compared byte by
-- byte, independently of the database's collation. A null time means none. Tables refer to sessions by a key that is
-- never reused, so that a late reader cannot see another session's rows.

-- Who a session is and whom it belongs to: written at creation and when the user context changes. The id of a session
-- that was removed stays here, in a row that has another key, and so owns nothing, and no root.
CREATE TABLE {schema}.sessions (
    key          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id           text        COLLATE "C" NOT NULL,
    agent        text        COLLATE "C" NOT NULL,
    user_id      text        COLLATE "C" NOT NULL,
    tags         text[]      NOT NULL,
    metadata     jsonb       NOT NULL,
    expires_at   timestamptz,
    ttl          interval,             -- how long the session may be idle; null for ever
    -- From when on it is worth looking whether a root has expired. It is written when the session is created, when its
    -- context changes and when a look found it alive, but not by its commits.
    sweep_at     timestamptz,
    trace_parent text        NOT NULL,
    parent_id    text        COLLATE "C" NOT NULL,
    root_id      text        COLLATE "C" NOT NULL,
    thread_id    text        COLLATE "C" NOT NULL DEFAULT '', -- the conversation that a root belongs to; empty for a session with a parent
    incarnation  text        NOT NULL, -- distinguishes a tree from others that had its root's id
    kind         text        NOT NULL, -- what it is to its parent; empty for a root
    name         text        COLLATE "C" NOT NULL,
    secret       text        NOT NULL,
    created_at   timestamptz NOT NULL,
    archived_at  timestamptz,
    title        text        NOT NULL DEFAULT '',
    opening      text        NOT NULL DEFAULT '', -- the beginning of the first message of the user
    opening_at   integer     NOT NULL DEFAULT 0,  -- the index of that message
    words        tsvector    NOT NULL DEFAULT ''  -- of title and opening
);

-- Every call that names a session.
CREATE UNIQUE INDEX sessions_id ON {schema}.sessions (id);
-- List without a filter, or with one that no other index serves.
CREATE INDEX sessions_created ON {schema}.sessions (created_at, id);
-- List by user.
CREATE INDEX sessions_user ON {schema}.sessions (user_id, created_at, id);
-- List of the roots of a user that are not archived, and of those that are.
CREATE INDEX sessions_current ON {schema}.sessions (user_id, created_at, id) WHERE parent_id = '' AND archived_at IS NULL;
CREATE INDEX sessions_archived ON {schema}.sessions (user_id, created_at, id) WHERE parent_id = '' AND archived_at IS NOT NULL;
-- List by tenant, which is what the id has before its first ::, if anything.
CREATE INDEX sessions_tenant ON {schema}.sessions (left(id, greatest(strpos(id, '::') - 1, 0)), created_at, id);
-- List by agent.
CREATE INDEX sessions_agent ON {schema}.sessions (agent, created_at, id);
-- List by parent, and of roots, whose parent is empty.
CREATE INDEX sessions_parent ON {schema}.sessions (parent_id, created_at, id);
-- List by root.
CREATE INDEX sessions_root ON {schema}.sessions (root_id, created_at, id);
-- List by thread.
CREATE INDEX sessions_thread ON {schema}.sessions (thread_id, created_at, id);
-- List by search. What is added goes to a list first, which each search reads, so that it must be short.
CREATE INDEX sessions_words ON {schema}.sessions USING gin (words) WITH (gin_pending_list_limit = 64);
-- Stale: the roots that may have expired, the longest ago first.
CREATE INDEX sessions_sweep ON {schema}.sessions (sweep_at, id) WHERE sweep_at IS NOT NULL;

-- The progress of a session: one narrow row, written by every commit. What a step changes is in no index, and there is
-- room on each page, so that a step writes the row once and no index of it. What no statement finds rows by or sets is
-- in data.
CREATE TABLE {schema}.heads (
    session        bigint      PRIMARY KEY,
    version        bigint      NOT NULL,
    lease_token    bigint      NOT NULL,
    log_sequence   bigint      NOT NULL DEFAULT 0,
    updated_at     timestamptz NOT NULL,
    lease_until    timestamptz,
    lease_ttl      interval    NOT NULL DEFAULT '0', -- how long the lease was last taken for
    next_deadline  timestamptz,
    due_at         timestamptz, -- when a session that is not active is due
    agent          text        COLLATE "C" NOT NULL, -- of the root of the session's tree
    status         text        NOT NULL,
    run_id         text        NOT NULL,
    suspended_step text        NOT NULL,
    due            text        NOT NULL, -- why a session that is not active is due, or will be
    stop_run       text        NOT NULL DEFAULT '', -- the run that is to stop
    stop           text        NOT NULL DEFAULT '', -- JSON of the stop request, or empty
    data           text        NOT NULL  -- JSON of the rest of the row
) WITH (fillfactor = 50);

-- Due: the active sessions of an agent. The lease's time is left out so that renewing a lease does not write the index.
CREATE INDEX heads_active ON {schema}.heads (agent) WHERE status = 'active';
-- Due: the sessions of an agent that are not active, the longest due first.
CREATE INDEX heads_due ON {schema}.heads (agent, due_at) WHERE due_at IS NOT NULL;
-- Due: those of them that are due whatever the time.
CREATE INDEX heads_ready ON {schema}.heads (agent, due_at) WHERE due IN ('ending', 'ready', 'queued', 'outbox');
-- WatchStops: the sessions that are to stop.
CREATE INDEX heads_stopped ON {schema}.heads (session) WHERE stop_run <> '';

-- Columns of eight bytes come before those of four, so that no row is padded.
CREATE TABLE {schema}.messages (
    session    bigint      NOT NULL,
    created_at timestamptz NOT NULL, -- for messages without a time of their own
    number     integer     NOT NULL, -- from 0
    turn       integer,              -- of the run that added it, if that is one of the session's
    run        text        COLLATE "C", -- the run that added it, if that is another one: in a branch, of what it took over
    data       text        NOT NULL, -- JSON, without the run; an id that begins with / follows that of the run; a single part is in fields
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
    started_at        timestamptz NOT NULL,
    ended_at          timestamptz,
    start_sequence    bigint      NOT NULL,
    before_position   bigint      NOT NULL, -- of the state when the run began
    turn              integer     NOT NULL,
    first_message     integer     NOT NULL,
    text_at           integer     NOT NULL DEFAULT 0, -- the number after that of the message that the run has its text from; 0 if data has it
    id                text        COLLATE "C" NOT NULL,
    before_checkpoint text        NOT NULL, -- where the session was when the run began
    data              text        NOT NULL, -- JSON of the run; the row's other columns take precedence
    PRIMARY KEY (session, turn)
);

-- A run by its id; a run is started once.
CREATE UNIQUE INDEX runs_id ON {schema}.runs (session, id);

-- Ids of checkpoints and steps have that of their run in them, so * stands for what follows the first _ of the run's
-- id. They are found by 64 bits of their SHA-256, which take a third of the room in an index.
CREATE TABLE {schema}.checkpoints (
    session        bigint      NOT NULL,
    id_key         bigint      NOT NULL,
    step_key       bigint, -- null for a checkpoint of no step
    state_position bigint      NOT NULL,
    log_sequence   bigint      NOT NULL,
    created_at     timestamptz NOT NULL,
    number         integer     NOT NULL,
    turn           integer     NOT NULL,
    step           integer     NOT NULL,
    message_count  integer     NOT NULL,
    id             text        COLLATE "C" NOT NULL,
    step_id        text        COLLATE "C" NOT NULL,
    run            text        COLLATE "C", -- null for the run of the turn; else nothing in the ids is replaced
    parent         text        COLLATE "C", -- null for the checkpoint with the number before, if there is one
    PRIMARY KEY (session, number)
);

-- A checkpoint by its id.
CREATE UNIQUE INDEX checkpoints_id ON {schema}.checkpoints (session, id_key);
-- Whether a step was committed before; a step is committed once.
CREATE UNIQUE INDEX checkpoints_step ON {schema}.checkpoints (session, step_key) WHERE step_key IS NOT NULL;

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

-- The usage of each commit, in about the order of the commits.
CREATE TABLE {schema}.usage_rows (
    number  bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL,
    folded  boolean     NOT NULL DEFAULT FALSE, -- it is in usage_sums
    root_id text        NOT NULL,
    user_id text        NOT NULL,
    data    text        NOT NULL -- JSON of the rest of the row
);

-- Fold: the rows to fold.
CREATE INDEX usage_rows_new ON {schema}.usage_rows (number) WHERE NOT folded;

-- The sums of usage by day, owner, agent, and kind and name of entry.
CREATE TABLE {schema}.usage_sums (
    key  text COLLATE "C" PRIMARY KEY, -- the day, and a digest of the rest
    data text NOT NULL                 -- JSON
);
