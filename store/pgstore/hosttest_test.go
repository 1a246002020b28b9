package pgstore

import (
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// Processes have stores of their own on one schema.
func TestHost(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, hosttest.Host{
		Name:    "inprocess",
		Crashes: testenv.Choose(4, 0),
		Start: func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
			eng, err := engine.New(st, agents, opts)
			if err != nil {
				tb.Fatal(err)
			}
			return eng
		},
	}, onServer)
}

// FuzzDoors writes anything through an engine into a database.
func FuzzDoors(f *testing.F) { hosttest.FuzzDoors(f, onServer) }

var onServer = hosttest.Store{
	Name: "pgstore",
	Open: func(tb testing.TB, _ func() time.Time) driver.Store {
		return openAt(tb, testenv.FastPostgres(tb), &Options{Schema: emptySchema(tb)})
	},
	OwnClock: true,
	Set:      testenv.Choose(hosttest.OnStore, hosttest.Every),
	Another:  func(tb testing.TB, st driver.Store) driver.Store { return second(tb, st.(*Store)) },
}

func TestWrites(t *testing.T) {
	t.Parallel()
	hosttest.RunWrites(t, onServer)
}
