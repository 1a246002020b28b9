-- What the writers that held the lease under a fence's token have added: by session and the writer's ID, the number of its
-- last batch and the sequence at which that ended.
ALTER TABLE {schema}.logs ADD COLUMN batches jsonb NOT NULL DEFAULT '{}';
