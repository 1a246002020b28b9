-- The event logs. first and last are the sequences of the first event kept and of the last one ever written.
CREATE TABLE logs (
    key   INTEGER PRIMARY KEY AUTOINCREMENT,
    name  TEXT    NOT NULL,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL
) STRICT;

-- Every call that names a log.
CREATE UNIQUE INDEX logs_name ON logs (name);

CREATE TABLE events (
    log      INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    data     TEXT    NOT NULL, -- JSON of the event; its sequence is the column
    PRIMARY KEY (log, sequence)
) STRICT, WITHOUT ROWID;

-- The highest fencing token that was seen of each session that writes to a log.
CREATE TABLE fences (
    log     INTEGER NOT NULL,
    session TEXT    NOT NULL,
    token   INTEGER NOT NULL,
    PRIMARY KEY (log, session)
) STRICT, WITHOUT ROWID;
