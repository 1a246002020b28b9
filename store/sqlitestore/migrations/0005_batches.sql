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
