package pgstore_test

import (
	"context"
	"os"
	"testing"

	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/pgstore"
)

func init() { torture.Victim(openTortured) }

// serverVariable tells the processes that are killed which server they share.
const serverVariable = "CAIRN_PGSTORE_TORTURE_SERVER"

func openTortured(string) (store.Store, error) {
	s, err := pgstore.Open(context.Background(), os.Getenv(serverVariable), &pgstore.Options{Schema: "tortured"})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func TestTorture(t *testing.T) {
	t.Setenv(serverVariable, testenv.FastPostgres(t))
	torture.Run(t, openTortured)
}
