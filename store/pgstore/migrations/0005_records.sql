-- Small rows that belong to no session.
CREATE TABLE {schema}.records (
    version    bigint GENERATED ALWAYS AS IDENTITY, -- a new one with each write
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz, -- null for never
    namespace  text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    position   text COLLATE "C" NOT NULL, -- the index of the record; empty for none
    value      text NOT NULL, -- JSON
    PRIMARY KEY (namespace, key)
);

-- List by index.
CREATE INDEX records_position ON {schema}.records (namespace, position, key) WHERE position <> '';
-- The expired records that a Put removes, the longest expired first.
CREATE INDEX records_expiry ON {schema}.records (expires_at) WHERE expires_at IS NOT NULL;
