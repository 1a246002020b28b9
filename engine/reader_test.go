package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// asked is a store that counts how often it is asked about sessions.
type asked struct {
	*memstore.Store
	n atomic.Int64
}

func (a *asked) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	if !want.Messages {
		a.n.Add(1)
	}
	return a.Store.Read(ctx, id, want)
}

func (a *asked) List(ctx context.Context, q store.SessionQuery) (store.Page[cairn.Session], error) {
	a.n.Add(1)
	return a.Store.List(ctx, q)
}

// However many readers or waiters a tree has, a process asks for its sessions as often as for one of them, and not at
// all when they have left.
func TestReadersOfATreeShareOneLookAtIt(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(ctx context.Context, eng *engine.Engine, run *engine.Run){
		"events of an idle session": func(ctx context.Context, eng *engine.Engine, _ *engine.Run) {
			for range eng.Events(ctx, "s", cairn.Cursor{}) {
			}
		},
		"events of a run driven elsewhere": func(ctx context.Context, _ *engine.Engine, run *engine.Run) {
			for range run.Events(ctx) {
			}
		},
		"the end of a run driven elsewhere": func(ctx context.Context, _ *engine.Engine, run *engine.Run) {
			_, _ = run.Wait(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := &asked{Store: memstore.New(nil)}
				eng := open(t, st.Store, bot(scripted.New(scripted.Text("hi"), scripted.Reply(scripted.Pause(time.Hour), scripted.Text("there")))))
				turn(t, eng, "s", "hello")
				if name != "events of an idle session" {
					start(t, eng, "s", "go on")
				}
				other := open(t, st, bot(scripted.New()), named("b"))
				run := attach(t, other, "s")
				ctx, leave := context.WithCancel(t.Context())
				var readers sync.WaitGroup
				for range 1000 {
					readers.Go(func() { read(ctx, other, run) })
				}
				testclock.Advance(time.Second)
				before := st.n.Load()
				testclock.Advance(10 * time.Second)
				if n := st.n.Load() - before; n == 0 || n > 10 {
					t.Errorf("the store was asked %d times in 10 s", n)
				}
				leave()
				readers.Wait()
				before = st.n.Load()
				testclock.Advance(10 * time.Second)
				if n := st.n.Load() - before; n > 0 {
					t.Errorf("the store was asked %d times although nobody reads", n)
				}
			})
		})
	}
}
