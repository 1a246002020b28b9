package pgstore_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/pgstore"
)

func init() { torture.Victim(openTortured) }

// serverVariable names the server that the killed processes share.
const serverVariable = "CAIRN_PGSTORE_TORTURE_SERVER"

// openTortured opens the store as soon as there is a server. One that was killed has to replay its log before it
// serves, which may take long on a busy machine.
func openTortured(string) (store.Store, error) {
	deadline := time.Now().Add(time.Minute)
	for {
		s, err := pgstore.Open(context.Background(), os.Getenv(serverVariable), &pgstore.Options{Schema: "tortured", RetryFor: time.Minute})
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, cairn.ErrUnavailable) || time.Now().After(deadline) {
			return nil, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestTorture(t *testing.T) {
	t.Setenv(serverVariable, testenv.FastPostgres(t))
	torture.Run(t, openTortured)
}

// The server is killed, too, and started again at once.
func TestTortureOfTheServer(t *testing.T) {
	server := testenv.NewPostgres(t)
	t.Setenv(serverVariable, server.URL())
	torture.RunOn(t, server, openTortured)
}
