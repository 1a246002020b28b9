package dostore

import (
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// Each process has its own connections with one store. The clock is the objects'.
func TestHost(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, inProcess, onObjects)
}

func TestWrites(t *testing.T) {
	t.Parallel()
	hosttest.RunWrites(t, onObjects)
}

var onObjects = hosttest.Store{
	Name:     "dostore",
	OwnClock: true,
	Set:      testenv.Choose(hosttest.OnStore, hosttest.Every),
	Open:     func(tb testing.TB, _ func() time.Time) driver.Store { return openNew(tb) },
	Another:  func(tb testing.TB, st driver.Store) driver.Store { return second(tb, st.(*Store)) },
}

var inProcess = hosttest.Host{
	Name:    "inprocess",
	Crashes: testenv.Choose(2, 0),
	Start: func(tb testing.TB, st driver.Store, agents []*cairn.Agent, opts *engine.Options) *engine.Engine {
		eng, err := engine.New(st, agents, opts)
		if err != nil {
			tb.Fatal(err)
		}
		return eng
	},
}
