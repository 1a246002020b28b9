-- What a session is to its parent; empty for a root.
ALTER TABLE sessions         ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE removed_sessions ADD COLUMN kind TEXT NOT NULL DEFAULT '';
