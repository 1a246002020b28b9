-- The event logs. first and last are the sequences of the first event kept and of the last one ever written. fences
-- holds the highest fencing token that was seen of each session that writes to the log; it is in this row because the
-- row's lock is what orders the writers.
CREATE TABLE {schema}.logs (
    key    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name   text   COLLATE "C" NOT NULL,
    first  bigint NOT NULL,
    last   bigint NOT NULL,
    fences jsonb  NOT NULL DEFAULT '{}',
    -- What the writers that held the lease under a fence's token have added: by session and the writer's ID, the number
    -- of its last batch and the sequence at which that ended.
    batches    jsonb NOT NULL DEFAULT '{}',
    -- When the log was dropped: the row remains for a while, so that no writer begins it anew; null for a log that is
    -- there.
    dropped_at timestamptz,
    -- From when on the log is due for a sweep: from its first event on, or the first since the last sweep, or the time
    -- which that gave. What is appended further leaves it as it is, and so writes no index.
    sweep_at   timestamptz NOT NULL DEFAULT statement_timestamp()
) WITH (fillfactor = 50);

-- Every call that names a log.
CREATE UNIQUE INDEX logs_name ON {schema}.logs (name);
CREATE INDEX logs_dropped ON {schema}.logs (dropped_at) WHERE dropped_at IS NOT NULL;
-- Unswept: the logs, the longest due first.
CREATE INDEX logs_sweep ON {schema}.logs (sweep_at, name) WHERE dropped_at IS NULL;

-- What one append or one commit added is one row. Of the first one, the events before logs.first do not count.
CREATE TABLE {schema}.events (
    log      bigint NOT NULL,
    last     bigint NOT NULL, -- the sequence of the last event in it
    dated_at timestamptz,     -- the time of events that have none in data; null if all have one, or none is known
    data     bytea  NOT NULL, -- the events, in the form of backend.Events
    PRIMARY KEY (log, last)
);
