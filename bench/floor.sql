WITH head AS (
	UPDATE cairn.heads
	SET version = version + 1, updated_at = $3, lease_until = $4, data = $5
	WHERE session = $1 AND version = $2
	RETURNING session, version
), messages AS (
	INSERT INTO cairn.messages (session, number, turn, created_at, data)
	SELECT session, $6::bigint - 3 + m.number, 1, $3, m.data FROM head, unnest($7::text[]) WITH ORDINALITY m (data, number)
), state AS (
	INSERT INTO cairn.state (session, position, keyframe, data)
	SELECT session, $8::bigint, $9::boolean, $10::text FROM head
), checkpoint AS (
	INSERT INTO cairn.checkpoints (session, number, turn, step, message_count, state_position, log_sequence, created_at,
		id, step_id, id_key, step_key)
	SELECT session, $11::bigint, 1, $12::bigint, $6::bigint, $8::bigint, $13::bigint, $3, $14, $15, $16, $17 FROM head
), staged AS (
	DELETE FROM cairn.staged WHERE session = $1
)
SELECT version FROM head
