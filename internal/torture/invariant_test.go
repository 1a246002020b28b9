package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// sound returns the tree of a session with a few turns and no accidents.
func sound(t *testing.T, kind string) *Tree {
	t.Helper()
	o := order{Dir: t.TempDir(), Name: "p", LeaseTTL: time.Minute}
	j, st, eng, _, err := o.assemble(inProcess, func(string) (driver.Store, error) { return memstore.New(nil), nil }, func(point) {})
	if err != nil {
		t.Fatal(err)
	}
	c := &clerk{name: "p", eng: eng, journal: j, rng: rand.New(rand.NewPCG(1, 1))}
	id := "group." + kind
	for n := range 5 {
		run, err := eng.Execute(t.Context(), id, kind, cairn.Text(fmt.Sprint("turn ", n)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !kindOf(kind).waits {
			continue
		}
		if err := settle(t.Context(), st, eng, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := eng.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tree := loadAll(t, st, o.Dir, id)
	tree.Answered = true
	return tree
}

// loadAll reads a settled tree, with the journal in its directory.
func loadAll(t *testing.T, st driver.Store, dir, root string) *Tree {
	t.Helper()
	list, _, err := readJournal(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	journal := map[string][]record{}
	for _, r := range list {
		journal[r.Session] = append(journal[r.Session], r)
	}
	tree, err := placeOf(st).load(t.Context(), root, journal, true)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestSoundHistoriesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			tree := sound(t, kind.name)
			for _, h := range tree.Sessions {
				h.balance()
			}
			for _, err := range tree.check() {
				t.Error(err)
			}
		})
	}
}

// copies returns a function that makes deep copies of a tree.
func copies(t *testing.T, tree *Tree) func() *Tree {
	t.Helper()
	raw, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return func() *Tree {
		c := new(Tree)
		if err := json.Unmarshal(raw, c); err != nil {
			panic(err)
		}
		return c
	}
}

func TestEveryInvariantCanFail(t *testing.T) {
	t.Parallel()
	alone, family := copies(t, sound(t, "per-tool")), copies(t, soundFamily(t))
	for _, inv := range Invariants {
		fails := func(what string, tree func() *Tree, damage func(*Tree)) {
			t.Run(inv.Name+"/"+what, func(t *testing.T) {
				t.Parallel()
				c := tree()
				damage(c)
				err := inv.Check(c)
				if err == nil {
					t.Fatal("it was accepted")
				}
				t.Log(err)
			})
		}
		for what, damage := range damages[inv.Name] {
			fails(what, alone, func(c *Tree) {
				damage(c.Sessions[0])
				c.Events = c.Sessions[0].Events
			})
		}
		for what, damage := range familyDamages[inv.Name] {
			fails(what, family, damage)
		}
		if len(damages[inv.Name])+len(familyDamages[inv.Name]) == 0 {
			t.Errorf("%s: nothing makes it fail", inv.Name)
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(damages)), slices.Collect(maps.Keys(familyDamages))) {
		if !slices.ContainsFunc(Invariants, func(inv Invariant) bool { return inv.Name == name }) {
			t.Errorf("there is no invariant %q", name)
		}
	}
}

// A process that lost its lease without noticing may repeat what another has acknowledged: its results are refused.
func TestLateProcessesAreNoFault(t *testing.T) {
	t.Parallel()
	tree := sound(t, "per-tool")
	clone, h := copies(t, tree), tree.Sessions[0]
	slices.Reverse(h.Journal) // a late process repeats the session's last records
	tool, model := *h.record(toolStarted), *h.record(modelCalled)
	slices.Reverse(h.Journal)
	for name, again := range map[string]record{"tool": tool, "model": model} {
		for token, fault := range map[int64]bool{1: false, h.Session.Lease.Token + 100: true} {
			for _, began := range []record{{Kind: committed, Took: true}, {Kind: working}} {
				c := clone().Sessions[0]
				began.Process, began.Token, again.Process = "late", token, "late"
				c.Journal = append(c.Journal, began, again)
				if err := nothingStagedAgain(c); (err != nil) != fault {
					t.Errorf("the %s again under lease %d (%s): %v", name, token, began.Kind, err)
				}
				if err := nothingCommittedAgain(c); (err != nil) != fault {
					t.Errorf("the %s again under lease %d (%s): %v", name, token, began.Kind, err)
				}
			}
		}
	}
}

// A process may sleep between a commit and its record. Meanwhile the run may be undone, and its turn made again.
func TestCommitRecordedBehindItsUndoingIsNoFault(t *testing.T) {
	t.Parallel()
	tree := sound(t, "per-step")
	h := tree.Sessions[0]
	at := slices.IndexFunc(h.Journal, func(r record) bool { return r.Kind == committed && len(r.Results) > 0 })
	step := h.Journal[at]
	step.Step = "gone/1"
	again := record{Kind: toolStarted, Session: h.Session.ID, Process: "another", Call: step.Results[0]}
	began := record{Kind: committed, Session: h.Session.ID, Process: "another", Took: true, Began: "next", Token: step.Token + 100}
	undo := record{Kind: undoing, Session: h.Session.ID, Process: "another", Undone: "gone"}
	for name, test := range map[string]struct {
		journal []record
		fault   bool
	}{
		"before":   {[]record{step, undo, began, again}, false},
		"behind":   {[]record{undo, step, began, again}, false},
		"not once": {[]record{step, began, again}, true},
	} {
		if err := nothingCommittedAgain(&History{Session: h.Session, Journal: test.journal}); (err != nil) != test.fault {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The second of two attempts at an effect may have read the stage before the first staged its result.
func TestAnAttemptThatHadJoinedBeforeIsNoFault(t *testing.T) {
	t.Parallel()
	tree := sound(t, "per-tool")
	clone, h := copies(t, tree), tree.Sessions[0]
	kept := slices.IndexFunc(h.Journal, func(r record) bool { return r.Kind == staged && r.Call != "" })
	call, at := h.Journal[kept].Call, h.Journal[kept].At
	again := h.Journal[slices.IndexFunc(h.Journal, func(r record) bool { return r.Kind == toolStarted && r.Call == call })]
	again.Process, again.At = "second", at.Add(time.Millisecond)
	for since, fault := range map[time.Duration]bool{-time.Millisecond: false, time.Microsecond: true, -time.Minute: true} {
		c := clone().Sessions[0]
		c.Journal = slices.Insert(c.Journal, kept+1,
			record{Kind: working, Process: "second", Session: h.Session.ID, Token: h.Journal[kept].Token, At: at},
			record{Kind: looked, Process: "second", Session: h.Session.ID, Since: at.Add(since), At: at}, again)
		if err := nothingStagedAgain(c); (err != nil) != fault {
			t.Errorf("an attempt that joined %v from the staging on: %v", since, err)
		}
	}
}

// In a history that is not settled, a run may be open; on a log elsewhere, the last marks may be missing.
func TestUnsettledHistoriesMayLackTheirEnd(t *testing.T) {
	t.Parallel()
	tree := sound(t, "per-step")
	h := tree.Sessions[0]
	last := slices.IndexFunc(h.Events, func(ev cairn.Event) bool {
		return ev.Type == cairn.EventStepCommitted && ev.RunID == h.Session.RunID
	})
	h.Events, h.Session.LogSequence = h.Events[:last], int64(last)
	tree.Events = h.Events
	if len(tree.check()) == 0 {
		t.Error("a settled tree without its end was accepted")
	}
	tree.Settled, h.Settled = false, false
	if len(tree.check()) == 0 {
		t.Error("a log of the store's own without the marks of a commit was accepted")
	}
	tree.Own, h.Own = false, false
	for _, err := range tree.check() {
		t.Error(err)
	}
}

// record returns the first record of a kind; for committed, of a step; for staged, of a call.
func (h *History) record(kind recordKind) *record {
	i := slices.IndexFunc(h.Journal, func(r record) bool {
		return r.Kind == kind && (kind != committed || r.Step != "") && (kind != staged || r.Call != "")
	})
	return &h.Journal[i]
}

// event returns the index of the first event of a type.
func (h *History) event(et cairn.EventType) int {
	return slices.IndexFunc(h.Events, func(ev cairn.Event) bool { return ev.Type == et })
}

// insert inserts an event and renumbers all events.
func (h *History) insert(at int, ev cairn.Event) {
	h.Events = slices.Insert(h.Events, at, ev)
	h.number()
}

func (h *History) remove(at int) {
	h.Events = slices.Delete(h.Events, at, at+1)
	h.number()
}

func (h *History) number() {
	for i := range h.Events {
		h.Events[i].Sequence = int64(i + 1)
	}
}

// answered returns the index of the first message with results.
func (h *History) answered() int {
	return slices.IndexFunc(h.Messages, func(m cairn.Message) bool { return m.Role == cairn.RoleTool })
}

func (h *History) drop(at, n int) {
	h.Messages = slices.Delete(h.Messages, at, at+n)
	h.Session.MessageCount = len(h.Messages)
}

// balance sets the rows that the session's calls would have added.
func (h *History) balance() {
	var err error
	if h.Books, err = h.due(); err != nil {
		panic(err)
	}
}

// ledger changes the state.
func (h *History) ledger(change func(*ledger)) {
	var l ledger
	if err := json.Unmarshal(h.State, &l); err != nil {
		panic(err)
	}
	change(&l)
	raw, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	h.State = raw
}
