package pgstore

import "testing"

// Trees that are gathered are read by the keys of their sessions.
func TestGatherUsesIndexes(t *testing.T) {
	t.Parallel()
	s := openFilled(t)
	roots := []string{"session-7", "session-8", "session-9"}
	wantIndexes(t, "sessions", s.plan(t, sqlGatherSessions, roots), "sessions_(id|root)", "heads_pkey", "logs_name")
	for i, index := range []string{"state_pkey", "messages_pkey", "runs_pkey", "checkpoints_pkey", "calls_step", "queue_(id|pkey)", "staged_key",
		"cache_pkey", "events_pkey"} {
		wantIndexes(t, index, s.plan(t, gatherLists[i].text, roots, 1<<20, 101), index)
	}
}
