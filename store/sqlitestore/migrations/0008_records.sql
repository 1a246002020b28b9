-- Small rows that belong to no session.

-- A write replaces the row, so that it has a version that was never used.
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
-- What a Put removes of what has expired, the longest ago first.
CREATE INDEX records_expiry ON records (expires_at) WHERE expires_at > 0;
