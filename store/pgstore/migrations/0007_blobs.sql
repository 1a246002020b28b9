-- Values that are found by the hash of their bytes, for all sessions of a tenant. Who adds or removes a name locks the row.
CREATE TABLE {schema}.blobs (
    key        bigint      GENERATED ALWAYS AS IDENTITY UNIQUE,
    unnamed_at timestamptz, -- since when the blob may be without a name; null for one that has one
    size       integer     NOT NULL,
    tenant     text        COLLATE "C" NOT NULL,
    hash       text        COLLATE "C" NOT NULL, -- SHA-256 in hexadecimal
    data       bytea       NOT NULL,
    PRIMARY KEY (tenant, hash)
);

-- Sweep: the blobs that may be without a name.
CREATE INDEX blobs_unnamed ON {schema}.blobs (unnamed_at) WHERE unnamed_at IS NOT NULL;

-- The session trees that name blobs.
CREATE TABLE {schema}.blob_owners (
    key         bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    root        text   COLLATE "C" NOT NULL,
    incarnation text   COLLATE "C" NOT NULL,
    PRIMARY KEY (root, incarnation)
);

CREATE TABLE {schema}.blob_names (
    owner bigint NOT NULL,
    blob  bigint NOT NULL,
    PRIMARY KEY (owner, blob)
);

-- Whether a blob has a name.
CREATE INDEX blob_names_blob ON {schema}.blob_names (blob);
