package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// workers returns the registered workers, by the part of their owners' names after the process.
func workers(t *testing.T, eng *engine.Engine) map[string]engine.Worker {
	t.Helper()
	synctest.Wait()
	all := map[string]engine.Worker{}
	for w, err := range eng.Workers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all[w.Owner[strings.LastIndexByte(w.Owner, ':')+1:]] = w
	}
	return all
}

// An engine is registered while it works and no longer, with the store's times.
func TestWorkerRegisters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		helper := &cairn.Agent{Name: "helper", Model: scripted.New()}
		boss := bot(scripted.New(), cairn.SubAgent(helper))
		eng := open(t, st, boss, quiet, with(func(o *engine.Options) {
			o.Version = "v1.2.3"
			o.Now = func() time.Time { return time.Now().Add(-time.Hour) } // the process's clock is wrong
		}))
		if all := workers(t, eng); len(all) > 0 {
			t.Errorf("before it works there are %+v", all)
		}
		began := time.Now().UTC()
		stop := work(t, eng)
		w := workers(t, eng)["engine_1"]
		if !slices.Equal(w.Agents, []string{"bot", "helper"}) || w.Version != "v1.2.3" || w.Host != "" || !w.Since.Equal(began) ||
			!w.HeartbeatAt.Equal(began) || !w.Until.Equal(began.Add(30*time.Second)) || !w.AsOf.Equal(began) {
			t.Errorf("registered at %v: %+v", began, w)
		}
		testclock.Advance(time.Hour + time.Second)
		w = workers(t, eng)["engine_1"]
		if late := w.AsOf.Sub(w.HeartbeatAt); !w.Since.Equal(began) || late < 0 || late > 10*time.Second || !w.Until.Equal(w.HeartbeatAt.Add(30*time.Second)) {
			t.Errorf("an hour later: %+v", w)
		}
		stop()
		if all := workers(t, eng); len(all) > 0 {
			t.Errorf("after its end there are %+v", all)
		}
	})
}

// muted is a store of which one process cannot write records any more, as if it had died.
type muted struct {
	*memstore.Store
	dead *atomic.Bool
}

func (m muted) Records() store.Records { return mutedRecords{m.Store.Records(), m.dead} }

type mutedRecords struct {
	store.Records
	dead *atomic.Bool
}

func (m mutedRecords) Put(ctx context.Context, w store.RecordWrite) (*store.Record, error) {
	if m.dead.Load() {
		return nil, cairn.Errorf(cairn.ErrUnavailable, "the store cannot be reached")
	}
	return m.Records.Put(ctx, w)
}

func (m mutedRecords) Delete(ctx context.Context, namespace, key string, seen int64) error {
	if m.dead.Load() {
		return cairn.Errorf(cairn.ErrUnavailable, "the store cannot be reached")
	}
	return m.Records.Delete(ctx, namespace, key, seen)
}

// Of two workers, the one that dies lapses and the other one stays. When it returns, it registers again.
func TestDeadWorkerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New(nil)
		var dead atomic.Bool
		var log bytes.Buffer
		first := open(t, muted{shared, &dead}, bot(scripted.New()), quiet, named("a"),
			with(func(o *engine.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }))
		second := open(t, shared, bot(scripted.New()), quiet, named("b"))
		defer work(t, second)()
		testclock.Advance(5 * time.Second)
		defer work(t, first)()
		testclock.Advance(12 * time.Second)
		if all := workers(t, second); len(all) != 2 || all["engine_a1"].Since.Sub(all["engine_b1"].Since) != 5*time.Second {
			t.Errorf("two workers: %+v", all)
		}
		dead.Store(true)
		lapses := workers(t, second)["engine_a1"].Until
		testclock.Advance(time.Until(lapses) - time.Nanosecond)
		if all := workers(t, second); len(all) != 2 {
			t.Errorf("just before the registration lapses: %+v", all)
		}
		testclock.Advance(time.Nanosecond)
		if all := workers(t, second); len(all) != 1 || all["engine_b1"].Owner == "" {
			t.Errorf("when it lapses: %+v", all)
		}
		testclock.Advance(time.Minute)
		if said := strings.Count(log.String(), "worker cannot register"); said != 1 {
			t.Errorf("that it cannot register was logged %d times:\n%s", said, log.String())
		}
		dead.Store(false)
		back := time.Now()
		testclock.Advance(10 * time.Second)
		if w := workers(t, second)["engine_a1"]; w.Since.Before(back) {
			t.Errorf("the worker that came back: %+v", w)
		}
	})
}

// An engine that works twice is registered until the last one ends.
func TestWorkerThatWorksTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := open(t, memstore.New(nil), bot(scripted.New()), quiet)
		first, second := work(t, eng), work(t, eng)
		for i, stop := range []func(){first, second} {
			if all := workers(t, eng); len(all) != 1 {
				t.Errorf("with %d ended: %+v", i, all)
			}
			stop()
		}
		if all := workers(t, eng); len(all) != 0 {
			t.Errorf("with both ended: %+v", all)
		}
	})
}

// Due sessions of an agent that no registered worker serves are found behind anything else that is due.
func TestUnserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(nil)
		abandoned(t, st, "bot", 1200)
		abandoned(t, st, "orphan", 2)
		eng := open(t, st, bot(scripted.New()), quiet, named("a"))
		unserved := func() (list []string) {
			t.Helper()
			synctest.Wait()
			for d, err := range eng.Unserved(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, fmt.Sprint(d.Agent, " ", d.SessionID, " ", d.Kind))
			}
			return list
		}
		if list := unserved(); len(list) != 1202 {
			t.Errorf("without a worker %d sessions are not served", len(list))
		}
		// A worker that serves the agent but cannot claim the session yet: it has no slot.
		idle := open(t, blockedDue{st}, bot(scripted.New()), quiet, named("b"))
		stop := work(t, idle)
		if list, want := unserved(), []string{"orphan orphan0 crashed", "orphan orphan1 crashed"}; !slices.Equal(list, want) {
			t.Errorf("not served: %q, want %q", list, want)
		}
		stop()
		if list := unserved(); len(list) != 1202 {
			t.Errorf("after the worker's end %d sessions are not served", len(list))
		}
	})
}

// blockedDue is a store whose list of due sessions never arrives.
type blockedDue struct{ *memstore.Store }

func (blockedDue) Due(ctx context.Context, _ driver.DueQuery) (store.Page[store.Due], error) {
	<-ctx.Done()
	return store.Page[store.Due]{}, ctx.Err()
}

// frugal is a store that has an event log and nothing else beyond the contract.
type frugal struct {
	store.Store
	driver.LogProvider
}

func (s frugal) Self() store.Store { return s }

// A store without records has no workers, and everything that is due is unserved. Work works all the same.
func TestWorkersOfAStoreWithoutRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New(nil)
		st := frugal{mem, mem}
		abandoned(t, mem, "bot", 1)
		eng := open(t, st, bot(scripted.New(scripted.Text("done"))), quiet)
		n := 0
		for range eng.Unserved(t.Context()) {
			n++
		}
		serve(t, eng, 3*time.Second)
		if row := load(t, mem, "bot0"); n != 1 || row.Status != cairn.SessionCompleted || len(workers(t, eng)) > 0 {
			t.Errorf("%d were not served, the session is %s, workers %+v", n, row.Status, workers(t, eng))
		}
	})
}

// An owner's name that is no identifier is registered under one derived from it.
func TestWorkerOfALongName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("long", 60)
		eng := open(t, memstore.New(nil), bot(scripted.New()), quiet, named(long))
		defer work(t, eng)()
		if all := workers(t, eng); !strings.HasSuffix(all["engine_"+long+"1"].Owner, long+"1") {
			t.Errorf("workers: %+v", all)
		}
	})
}
