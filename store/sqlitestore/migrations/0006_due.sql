-- Due: what each agent has.

-- The agent of the root of the session's tree.
ALTER TABLE heads ADD COLUMN agent TEXT NOT NULL DEFAULT '';
UPDATE heads SET agent = (
    SELECT coalesce(r.agent, s.agent) FROM sessions s LEFT JOIN sessions r ON r.id = s.root_id WHERE s.key = heads.session);

DROP INDEX heads_active;
DROP INDEX heads_due;
-- Due: the active sessions. The lease's time is left out so that renewing a lease does not write the index.
CREATE INDEX heads_active ON heads (agent) WHERE status = 'active';
-- Due: the sessions that are not active, the longest due first.
CREATE INDEX heads_due ON heads (agent, due_at) WHERE due_at > 0;
