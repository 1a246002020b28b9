-- Due: what each agent has.

-- The agent of the root of the session's tree.
ALTER TABLE {schema}.heads ADD COLUMN agent text COLLATE "C" NOT NULL DEFAULT '';
UPDATE {schema}.heads h SET agent = coalesce(r.agent, s.agent)
FROM {schema}.sessions s LEFT JOIN {schema}.sessions r ON r.id = s.root_id
WHERE s.key = h.session;

DROP INDEX {schema}.heads_active;
DROP INDEX {schema}.heads_due;
-- Due: the active sessions. The lease's time is left out so that renewing a lease does not write the index.
CREATE INDEX heads_active ON {schema}.heads (agent) WHERE status = 'active';
-- Due: the sessions that are not active, the longest due first.
CREATE INDEX heads_due ON {schema}.heads (agent, due_at) WHERE due_at IS NOT NULL;
