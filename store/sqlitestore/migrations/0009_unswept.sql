-- From when on a log is due for a sweep: from its first event on, or the first since the last sweep, or the time which that
-- gave. What is appended further does not write it.
ALTER TABLE logs ADD COLUMN sweep_at INTEGER NOT NULL DEFAULT 1;
-- Unswept: the logs, the longest due first.
CREATE INDEX logs_sweep ON logs (sweep_at, name) WHERE dropped_at = 0;
