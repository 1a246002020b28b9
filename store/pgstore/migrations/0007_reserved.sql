-- Sessions that keep their id when they are removed, until they are purged.

-- Tells a tree from others that had its root's id.
ALTER TABLE {schema}.sessions ADD COLUMN incarnation text NOT NULL DEFAULT '';

-- The id of a removed session stays in sessions, in a row that has another key, and so owns nothing, and no root.
ALTER TABLE {schema}.removed DROP COLUMN log;
ALTER TABLE {schema}.removed ADD COLUMN root_id text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE {schema}.removed ADD COLUMN incarnation text NOT NULL DEFAULT '';
-- By which removal a session is gone.
CREATE INDEX removed_id ON {schema}.removed (id);

-- When a log was dropped: the row remains for a while, so that nobody begins it anew; null for a log that is there.
ALTER TABLE {schema}.logs ADD COLUMN dropped_at timestamptz;
CREATE INDEX logs_dropped ON {schema}.logs (dropped_at) WHERE dropped_at IS NOT NULL;
