-- Pending calls, which wait for people and children; queued turns; the cache of tool results.

-- The columns other than data are those that calls are looked up by, and those that the store sets.
CREATE TABLE {schema}.calls (
    root_id       text        COLLATE "C" NOT NULL,
    id            text        COLLATE "C" NOT NULL,
    session       bigint      NOT NULL,
    version       bigint      NOT NULL,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deadline      timestamptz,
    claimed_until timestamptz,
    claimed_by    text        COLLATE "C" NOT NULL,
    step_id       text        COLLATE "C" NOT NULL,
    user_id       text        COLLATE "C" NOT NULL,
    agent         text        COLLATE "C" NOT NULL,
    tool          text        COLLATE "C" NOT NULL,
    kind          text        COLLATE "C" NOT NULL,
    status        text        COLLATE "C" NOT NULL,
    reviewers     jsonb       NOT NULL, -- array; empty if the call has no reviewers
    data          text        NOT NULL, -- JSON of the call; the row's other columns take precedence
    PRIMARY KEY (root_id, id)
);

-- Calls of a session and of one of its steps.
CREATE INDEX calls_step ON {schema}.calls (session, step_id, created_at, root_id, id);
-- Calls with a filter that no other index serves.
CREATE INDEX calls_created ON {schema}.calls (created_at, root_id, id);
-- Open calls, of all, by tenant, by user, by agent, by tool, by tree, and of those without reviewers. A call that is no longer
-- open leaves them.
CREATE INDEX calls_open ON {schema}.calls (created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_tenant ON {schema}.calls (left(root_id, greatest(strpos(root_id, '::') - 1, 0)), created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_user ON {schema}.calls (user_id, created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_agent ON {schema}.calls (agent, created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_tool ON {schema}.calls (tool, created_at, root_id, id) WHERE status = 'open';
CREATE INDEX calls_open_root ON {schema}.calls (root_id, created_at, id) WHERE status = 'open';
CREATE INDEX calls_open_free ON {schema}.calls (created_at, root_id, id) WHERE status = 'open' AND reviewers = '[]';
-- Effects that are not settled, as the gauge of unknown effects counts them.
CREATE INDEX calls_unsettled ON {schema}.calls (created_at, root_id, id) WHERE kind = 'effect' AND status <> 'settled';
-- Calls by the reviewer who claimed them.
CREATE INDEX calls_claimed ON {schema}.calls (claimed_by, created_at, root_id, id) WHERE claimed_by <> '';

-- The open calls that each reviewer is assigned to, in the order of their list.
CREATE TABLE {schema}.assignments (
    reviewer   text        COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    root_id    text        COLLATE "C" NOT NULL,
    id         text        COLLATE "C" NOT NULL,
    PRIMARY KEY (reviewer, created_at, root_id, id)
);

-- Whom a call is assigned to, when it is written again.
CREATE INDEX assignments_call ON {schema}.assignments (root_id, id);

-- The queued turns, in order.
CREATE TABLE {schema}.queue (
    session bigint NOT NULL,
    number  bigint GENERATED ALWAYS AS IDENTITY,
    id      text   COLLATE "C" NOT NULL,
    data    text   NOT NULL, -- JSON array of messages
    PRIMARY KEY (session, number)
);

-- A turn by its id; a turn is queued once.
CREATE UNIQUE INDEX queue_id ON {schema}.queue (session, id);

-- Results of tools by the key of their call.
CREATE TABLE {schema}.cache (
    session bigint NOT NULL,
    key     text   COLLATE "C" NOT NULL,
    data    text   NOT NULL, -- JSON of the entry
    PRIMARY KEY (session, key)
);
