package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var twoWriterTests = []storeTest{
	{name: "OneCreatorWins", run: oneHandle(createRace)},
	{name: "OneCommitPerVersion", run: oneHandle(staleRace)},
	{name: "OneBeginWins", run: oneHandle(beginRace)},
	{name: "OneBeginCreates", run: oneHandle(beginCreateRace)},
	{name: "OneWorkerTakesOver", run: oneHandle(takeoverRace)},
	{name: "OneBranchWins", run: oneHandle(branchRace)},
	{name: "OneAnswerWins", run: oneHandle(answerRace)},
	{name: "OneTakesATurn", run: oneHandle(takeRace)},
	{name: "ZombieIsFenced", run: oneHandle(zombie)},
	{name: "SnapshotIsOnePointInTime", run: oneHandle(tornReads)},

	{name: "TwoHandles/OneCreatorWins", run: twoHandles(createRace), needs: needsSecond},
	{name: "TwoHandles/OneCommitPerVersion", run: twoHandles(staleRace), needs: needsSecond},
	{name: "TwoHandles/OneBeginWins", run: twoHandles(beginRace), needs: needsSecond},
	{name: "TwoHandles/OneBeginCreates", run: twoHandles(beginCreateRace), needs: needsSecond},
	{name: "TwoHandles/OneWorkerTakesOver", run: twoHandles(takeoverRace), needs: needsSecond},
	{name: "TwoHandles/OneBranchWins", run: twoHandles(branchRace), needs: needsSecond},
	{name: "TwoHandles/OneAnswerWins", run: twoHandles(answerRace), needs: needsSecond},
	{name: "TwoHandles/OneTakesATurn", run: twoHandles(takeRace), needs: needsSecond},
	{name: "TwoHandles/ZombieIsFenced", run: twoHandles(zombie), needs: needsSecond},
	{name: "TwoHandles/SnapshotIsOnePointInTime", run: twoHandles(tornReads), needs: needsSecond},
}

// racers is the number of writers in a race.
const racers = 4

// handles are the stores that a race uses in turn.
type handles []driver.Store

func (hs handles) of(writer int) driver.Store { return hs[writer%len(hs)] }

func oneHandle(test func(*harness, handles)) func(*harness) {
	return func(h *harness) { test(h, handles{h.st}) }
}

func twoHandles(test func(*harness, handles)) func(*harness) {
	return func(h *harness) { test(h, handles{h.st, h.opts.Second(h, h.st)}) }
}

func createRace(h *harness, hs handles) {
	for n := range h.rounds(1000) {
		id := fmt.Sprintf("session-%d", n)
		errs := race(racers, func(i int) error {
			_, err := driver.Create(h.Context(), hs.of(i), &cairn.Session{ID: id, Agent: agentName, UserID: fmt.Sprint("creator-", i)}, nil)
			return err
		})
		winner, seen := h.oneWins(errs, cairn.ErrExists)
		want := fmt.Sprint("creator-", winner)
		for _, row := range append(seen, h.load(id)) {
			if row.UserID != want || row.Version != 1 {
				h.Fatalf("%s belongs to %s at version %d, but %s won", id, row.UserID, row.Version, want)
			}
		}
	}
}

// staleRace has writers commit over the version that they read, until a thousand commits were made: each version
// belongs to one commit, and the transcript holds exactly the winners' messages in the order of their versions.
func staleRace(h *harness, hs handles) {
	h.create("contested")
	total := h.rounds(1000)
	var mu sync.Mutex
	won := map[int64]string{} // by version
	written := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(won)
	}
	errs := race(racers, func(i int) error {
		for try := 0; ; try++ {
			s, err := driver.Load(h.Context(), hs.of(i), "contested")
			if err != nil {
				return err
			}
			if written() >= total {
				return nil
			}
			text := fmt.Sprintf("writer %d, try %d", i, try)
			row, err := hs.of(i).Commit(h.Context(), "contested", &driver.Commit{Guard: driver.Guard{Version: s.Version}, Messages: says(text)})
			if errors.Is(err, cairn.ErrStale) {
				continue
			}
			if err != nil {
				return err
			}
			mu.Lock()
			other, taken := won[row.Version]
			won[row.Version] = text
			mu.Unlock()
			if taken {
				return fmt.Errorf("version %d was given to %q and to %q", row.Version, other, text)
			}
		}
	})
	h.must(errors.Join(errs...))
	var want []string
	for _, v := range slices.Sorted(maps.Keys(won)) {
		want = append(want, won[v])
	}
	same(h.T, "transcript", h.texts("contested"), want)
}

func beginRace(h *harness, hs handles) {
	s := h.create("busy")
	for n := range h.rounds(100) {
		errs := race(racers, func(i int) error {
			_, err := hs.of(i).Commit(h.Context(), "busy", beginCommit(fmt.Sprintf("run-%d-%d", n, i), fmt.Sprint("worker-", i), time.Hour))
			return err
		})
		winner, seen := h.oneWins(errs, cairn.ErrAlreadyRunning)
		s = h.load("busy")
		for _, row := range append(seen, s) {
			if want := fmt.Sprintf("run-%d-%d", n, winner); row.RunID != want || row.Lease.Owner != fmt.Sprint("worker-", winner) {
				h.Fatalf("the row has run %q of %q, but %q won", row.RunID, row.Lease.Owner, want)
			}
		}
		if s.Turn != n+1 || s.MessageCount != n+1 || s.Lease.Token < s.CreatedAt.UnixMicro()+int64(n)+1 {
			h.Fatalf("after %d turns: turn %d, %d messages, fencing token %d", n+1, s.Turn, s.MessageCount, s.Lease.Token)
		}
		h.end(s)
	}
	if got := len(h.runs("busy")); got != s.Turn {
		h.Fatalf("%d runs were recorded, want %d", got, s.Turn)
	}
}

// beginCreateRace races for the first turn of a session as an engine writes it: creation and run in one commit.
func beginCreateRace(h *harness, hs handles) {
	for n := range h.rounds(100) {
		id := fmt.Sprintf("session-%d", n)
		errs := race(racers, func(i int) error {
			c := beginCommit(fmt.Sprint("run-", i), "worker", time.Hour)
			c.Create = &cairn.Session{Agent: agentName}
			c.InitialState = fmt.Appendf(nil, `{"creator":%d}`, i)
			_, err := hs.of(i).Commit(h.Context(), id, c)
			return err
		})
		winner, _ := h.oneWins(errs, cairn.ErrAlreadyRunning)
		s := h.load(id)
		if s.RunID != fmt.Sprint("run-", winner) || s.Turn != 1 || s.MessageCount != 1 {
			h.Fatalf("%s has run %q, turn %d, %d messages, but run-%d won", id, s.RunID, s.Turn, s.MessageCount, winner)
		}
		h.wantState(id, "", fmt.Sprintf(`{"creator":%d}`, winner))
	}
}

func takeoverRace(h *harness, hs handles) {
	crashed := h.crash("orphan", "run")
	errs := race(racers, func(i int) error {
		_, err := hs.of(i).Commit(h.Context(), "orphan", takeoverCommit(crashed, fmt.Sprint("worker-", i)))
		return err
	})
	winner, _ := h.oneWins(errs, cairn.ErrStale)
	s := h.load("orphan")
	if s.Lease.Owner != fmt.Sprint("worker-", winner) || s.Lease.Token <= crashed.Lease.Token || s.Recoveries != 1 {
		h.Fatalf("lease %+v after %d recoveries, but worker-%d won", s.Lease, s.Recoveries, winner)
	}
}

// takeoverCommit returns the commit with which a worker takes over a crashed run.
func takeoverCommit(crashed *cairn.Session, owner string) *driver.Commit {
	return &driver.Commit{
		Guard:     driver.Guard{Version: crashed.Version},
		Recovered: true,
		Lease:     driver.LeaseChange{Action: driver.LeaseTake, Owner: owner, TTL: time.Hour},
	}
}

func branchRace(h *harness, hs handles) {
	h.create("source")
	h.commit("source", &driver.Commit{Messages: says("one", "two")})
	for n := range h.rounds(50) {
		id := fmt.Sprintf("branch-%d", n)
		errs := race(racers, func(i int) error {
			_, err := hs.of(i).Branch(h.Context(), "source", driver.BranchPoint{}, &cairn.Session{ID: id, Agent: agentName, UserID: fmt.Sprint("user-", i)})
			return err
		})
		winner := -1
		for i, err := range errs {
			if err == nil {
				winner = i
				continue
			}
			h.wantError(err, cairn.ErrExists, "a branch that lost")
		}
		if winner < 0 || h.load(id).UserID != fmt.Sprint("user-", winner) {
			h.Fatalf("%s belongs to %q, writer %d won", id, h.load(id).UserID, winner)
		}
		same(h.T, "messages of "+id, h.texts(id), []string{"one", "two"})
	}
}

// answerRace has people answer a call over the same version: one answer is accepted, and nothing of the others is
// written.
func answerRace(h *harness, hs handles) {
	h.create("session")
	for n := range h.rounds(100) {
		id := fmt.Sprint("call-", n)
		h.write("session", asks(id, "step"))
		seen := h.call("session", id)
		errs := race(racers, func(i int) error {
			name := fmt.Sprint("reviewer-", i)
			_, err := hs.of(i).Commit(h.Context(), "session", &driver.Commit{Messages: says(name), Calls: []driver.CallWrite{answers(seen, name)}})
			return err
		})
		winner, rows := h.oneWins(errs, cairn.ErrStale)
		want := fmt.Sprint("reviewer-", winner)
		for _, st := range hs {
			got, err := driver.FindCall(h.Context(), st, "session", id)
			h.must(err)
			if got.Version != 2 || got.Answer.Reviewer != want || len(got.Trail) != 1 {
				h.Fatalf("the call is %+v, but %s won", got, want)
			}
		}
		if texts := h.texts("session"); len(texts) != n+1 || texts[n] != want {
			h.Fatalf("after %d answers the transcript has %d messages, the last of %q; %s won", n+1, len(texts), texts[len(texts)-1], want)
		}
		for _, row := range rows {
			if row.MessageCount != n+1 {
				h.Fatalf("a conflict saw %d messages, want %d", row.MessageCount, n+1)
			}
		}
	}
}

// zombie lets a worker's lease lapse and another worker take over: every later write of the first is refused.
func zombie(h *harness, hs handles) {
	dead := h.crash("session", "run")
	late, other := hs.of(0), h.on(hs.of(1))
	taken := other.commit("session", takeoverCommit(dead, "second worker"))
	if taken.Lease.Token <= dead.Lease.Token {
		h.Fatalf("fencing token %d after %d: it must grow with every holder", taken.Lease.Token, dead.Lease.Token)
	}
	stale := h.stepCommit(dead, "from beyond")
	tokenOnly := h.stepCommit(dead, "from beyond")
	tokenOnly.Guard.Version = 0
	for name, write := range map[string]func() error{
		"commit": func() error {
			_, err := late.Commit(h.Context(), "session", stale)
			return err
		},
		"commit without version": func() error {
			_, err := late.Commit(h.Context(), "session", tokenOnly)
			return err
		},
		"stage": func() error {
			return late.Stage(h.Context(), "session", dead.Lease.Token, driver.Staged{StepID: "step", Key: "reply", Data: []byte(`{}`)})
		},
		"renew": func() error {
			_, err := late.Renew(h.Context(), "session", dead.Lease.Token, time.Hour)
			return err
		},
	} {
		h.unchanged("session", name+" of a zombie", func() {
			seen := h.wantConflict(write(), cairn.ErrFenced, name+" of a zombie")
			if seen.Lease.Token != taken.Lease.Token {
				h.Fatalf("%s of a zombie: the conflict saw token %d, want %d", name, seen.Lease.Token, taken.Lease.Token)
			}
		})
	}
	s := other.step(taken, "alive")
	same(h.T, "transcript", h.texts("session"), []string{"question of run", "alive"})
	other.end(s)
}

// tornReads takes snapshots while a writer commits messages together with their count in the state.
func tornReads(h *harness, hs handles) {
	s := h.createWith("counted", `{"count":0}`)
	total := h.rounds(300)
	errs := race(2, func(i int) error {
		st := hs.of(i)
		if i == 0 {
			for n := 1; n <= total; n++ {
				_, err := st.Commit(h.Context(), s.ID, &driver.Commit{Messages: says(fmt.Sprint(n)), State: counted(n)})
				if err != nil {
					return err
				}
			}
			return nil
		}
		for {
			snap, err := st.Read(h.Context(), s.ID, driver.ToDrive(0))
			if err != nil {
				return err
			}
			n := len(snap.Messages)
			if snap.Session.MessageCount != n || count(snap.State) != n {
				return fmt.Errorf("row says %d messages, there are %d, state is %s", snap.Session.MessageCount, n, snap.State)
			}
			if n == total {
				return nil
			}
		}
	})
	h.must(errors.Join(errs...))
}

func counted(n int) *driver.StateChange {
	return &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/count", Value: fmt.Appendf(nil, "%d", n)}}}
}

func count(state json.RawMessage) int {
	s := struct{ Count int }{-1}
	if json.Unmarshal(state, &s) != nil {
		return -1
	}
	return s.Count
}
