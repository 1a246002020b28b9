package pgstore

import (
	"errors"
	"testing"

	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/jackc/pgx/v5"
)

// execAt runs statements on a server without any store.
func execAt(t *testing.T, url string, texts ...string) error {
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if _, failed := c.PgConn().Exec(t.Context(), text).ReadAll(); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	return errors.Join(err, c.Close(t.Context()))
}

// waitForReplica returns when the replica has all that the primary has written so far.
func waitForReplica(t *testing.T, primary, replica *testenv.PostgresServer) {
	t.Helper()
	var position string
	oneValue(t, primary.URL(), "SELECT pg_current_wal_lsn()::text", &position)
	testclock.Await(t, "the replica to replay everything", func() (there bool) {
		oneValue(t, replica.URL(), "SELECT pg_last_wal_replay_lsn() >= '"+position+"'::pg_lsn", &there)
		return there
	})
}

func oneValue(t *testing.T, url, text string, into any) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err == nil {
		err = errors.Join(c.QueryRow(t.Context(), text).Scan(into), c.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
}
