package storetest

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// before returns the parts of a tree as if they had been written before the clock was set back by jump.
func before(jump time.Duration, parts iter.Seq2[*driver.Part, error]) iter.Seq2[*driver.Part, error] {
	return func(yield func(*driver.Part, error) bool) {
		for part, err := range parts {
			if part != nil && part.Session != nil {
				head := *part.Session
				head.Row.UpdatedAt, head.Row.Lease.Until = head.Row.UpdatedAt.Add(jump), head.Row.Lease.Until.Add(jump)
				if driver.DueKindOf(&head.Row) != driver.DueDeadline && !head.Inside.DueSince.IsZero() {
					head.Inside.DueSince = head.Inside.DueSince.Add(jump)
				}
				own := *part
				own.Session, part = &head, &own
			}
			if !yield(part, err) {
				return
			}
		}
	}
}

// importsAhead copies trees into another store whose clock was an hour ahead when they were written.
func (h *harness) importsAhead(from *harness, roots ...string) {
	h.Helper()
	for _, root := range roots {
		h.must(h.importer().Import(h.Context(), root, before(time.Hour, store.Export(h.Context(), from.importer(), root))))
	}
}

// clockSetBack has a store whose clock was ahead for a while. A lease from that time has lapsed, unless its holder
// renews it, and what was due then is due now.
func clockSetBack(h *harness) {
	held := []string{"dead", "alive", "deleted"}
	for _, id := range held {
		h.create(id)
		h.commit(id, beginCommit("run of "+id, "worker", time.Minute))
	}
	h.waiting("ready", agentName, "", driver.DueReady)
	h.waiting("queued", agentName, "", driver.DueQueued)
	h.waiting("ending", agentName, "", driver.DueEnding)
	h.create("later")
	later := h.begin("later", "run of later")
	h.commit("later", ask("call", later.AsOf.Add(2*time.Hour)))
	to := h.other()
	to.importsAhead(h, append(held, "ready", "queued", "ending", "later")...)
	wantDue := func(what string, want ...string) {
		h.Helper()
		for _, n := range []int{1, 100} {
			list := strings.Fields(dueIDs(to.dueOf(n, agentName)))
			if slices.Sort(list); !slices.Equal(list, want) {
				h.Fatalf("%s: in pages of %d %q are due, want %q", what, n, list, want)
			}
		}
		if list := strings.Fields(dueIDs(to.dueOf(10))); len(list) != len(want) {
			h.Fatalf("%s: of all agents %q are due, want %q", what, list, want)
		}
	}
	wantDue("at first", "alive", "dead", "deleted", "ending", "queued", "ready")

	alive := to.load("alive")
	if alive.Running(alive.AsOf) || !alive.Crashed(alive.AsOf) || alive.Lease.TTL != cairn.Duration(time.Minute) {
		h.Fatalf("as of %v a lease of a minute is %+v", alive.AsOf, alive.Lease)
	}
	_, err := to.st.Renew(h.Context(), "alive", alive.Lease.Token, time.Minute)
	h.must(err)
	if alive = to.load("alive"); !alive.Running(alive.AsOf) {
		h.Fatalf("as of %v the renewed lease is %+v", alive.AsOf, alive.Lease)
	}
	to.step(alive, "reply")
	wantDue("with a living holder", "dead", "deleted", "ending", "queued", "ready")

	dead := to.load("dead")
	heir := to.commit("dead", &driver.Commit{Guard: driver.Guard{Lapsed: true}, Recovered: true,
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "heir", TTL: time.Minute}})
	if heir.Lease.Token <= dead.Lease.Token || !heir.Running(heir.AsOf) {
		h.Fatalf("taken over as of %v with %+v", heir.AsOf, heir.Lease)
	}
	to.step(heir, "reply")
	to.must(to.st.Delete(h.Context(), "deleted"))
	wantDue("at last", "ending", "queued", "ready")
}

// expiryClockSetBack has a tree expire although a lease from the time before the clock was set back has not ended.
func expiryClockSetBack(h *harness) {
	h.lasting("session", 0, time.Now().Add(time.Hour))
	h.commit("session", beginCommit("run", "worker", time.Minute))
	h.lasting("removed", time.Hour, time.Time{})
	h.commit("removed", beginCommit("another run", "worker", time.Minute))
	to := h.other()
	to.importsAhead(h, "session", "removed")
	soon := time.Now().Add(brief)
	_, err := driver.SetContext(h.Context(), to.st, "session", driver.ContextChange{ExpiresAt: &soon})
	h.must(err)
	testclock.Await(to.T, "the session to expire", func() bool {
		_, err := driver.Load(h.Context(), to.st, "session")
		return errors.Is(err, cairn.ErrExpired)
	})
	_, err = to.st.(driver.Sweeper).Remove(h.Context(), "removed", driver.Deleted)
	to.must(err)
}
