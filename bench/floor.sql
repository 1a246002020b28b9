WITH head AS (
	UPDATE cairn.heads
	SET version = version + 1, updated_at = $3, message_count = $4, step = $5, checkpoints = $6, checkpoint_before = checkpoint_id,
		checkpoint_id = $7, log_sequence = $8, lease_until = $9, usage = $10, run_usage = $10, state_position = $11,
		keyframe_bytes = $12, change_bytes = $13
	WHERE session = $1 AND version = $2
	RETURNING session, version, checkpoint_before
), messages AS (
	INSERT INTO cairn.messages (session, number, created_at, data)
	SELECT session, $4::bigint - 3 + m.number, $3, m.data FROM head, unnest($14::text[]) WITH ORDINALITY m (data, number)
), state AS (
	INSERT INTO cairn.state (session, position, keyframe, data)
	SELECT session, $11, $15, $16 FROM head
), checkpoint AS (
	INSERT INTO cairn.checkpoints (session, number, turn, step, message_count, state_position, log_sequence, created_at,
		id, step_id, run_id, parent_id)
	SELECT session, $6, 1, $5, $4, $11, $8, $3, $7, $17, $18, checkpoint_before FROM head
), staged AS (
	DELETE FROM cairn.staged WHERE session = $1
)
SELECT version FROM head
