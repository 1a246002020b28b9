package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

var stopTests = []storeTest{
	{name: "SeenByTheHeartbeat", run: stopSeen},
	{name: "AimedAtARun", run: stopAimed},
	{name: "AbortBeatsInterrupt", run: stopReplaces},
	{name: "DroppedWithItsRun", run: stopDropped},
	{name: "NotForTheNextRun", run: stopNotInherited},
	{name: "SurvivesATakeover", run: stopSurvivesTakeover},
	{name: "LeavesTheRowAlone", run: stopLeavesRow},
	{name: "RacesWithTheEnd", run: stopRacesEnd},
	{name: "Watch", run: watchStops, needs: watchesStops},
	{name: "WatchFindsWhatStands", run: watchFindsWhatStands, needs: watchesStops},
	{name: "WatchThroughASecondHandle", run: watchStopsSecond, needs: func(o *Options) bool { return watchesStops(o) && needsSecond(o) }},
}

func watchesStops(o *Options) bool { return o.watchesStops }

func interrupt(run, reason string) cairn.Stop {
	return cairn.Stop{RunID: run, Kind: cairn.StopInterrupt, Reason: reason}
}

func abort(run, reason string) cairn.Stop {
	return cairn.Stop{RunID: run, Kind: cairn.StopAbort, Reason: reason}
}

func (h *harness) requestStop(id string, stop cairn.Stop) {
	h.Helper()
	h.must(h.st.RequestStop(h.Context(), id, stop))
}

func (h *harness) wantStop(s *cairn.Session, want *cairn.Stop) {
	h.Helper()
	check := func(what string, got *cairn.Stop, err error) {
		h.Helper()
		h.must(err)
		if (got == nil) != (want == nil) {
			h.Fatalf("%s of %q sees %+v, want %+v", what, s.ID, got, want)
		}
		if got != nil && (got.RunID != want.RunID || got.Kind != want.Kind || got.Reason != want.Reason || got.By != want.By || got.At.IsZero()) {
			h.Fatalf("%s of %q sees %+v, want %+v and a time", what, s.ID, got, want)
		}
	}
	got, err := h.st.Renew(h.Context(), s.ID, s.Lease.Token, time.Hour)
	check("the heartbeat", got, err)
	for _, asked := range []driver.Want{{}, driver.ToDrive(0)} {
		snap, err := h.st.Read(h.Context(), s.ID, asked)
		h.must(err)
		check(fmt.Sprintf("a read of %+v", asked), snap.Stop, nil)
	}
}

func stopSeen(h *harness) {
	h.create("session")
	h.create("other")
	s, other := h.begin("session", "run"), h.begin("other", "run")
	h.wantStop(s, nil)
	stop := interrupt("run", "the user said stop ✋")
	stop.By = "Jörg ✋"
	h.requestStop("session", stop)
	for range 3 { // it stays until the run ends
		h.wantStop(s, &stop)
	}
	h.wantStop(other, nil)
}

func stopAimed(h *harness) {
	h.create("session")
	refused := func(id, run string) {
		h.Helper()
		what := fmt.Sprintf("stop of run %q of session %q", run, id)
		seen := h.wantConflict(h.st.RequestStop(h.Context(), id, abort(run, "")), cairn.ErrNotRunning, what)
		same(h.T, what+": the row the store saw", seen, h.load(id))
	}
	refused("session", "run")
	refused("session", "")
	s := h.begin("session", "run-1")
	refused("session", "run")
	refused("session", "")
	h.wantStop(s, nil)
	h.end(s)
	refused("session", "run-1")
	h.begin("session", "run-2")
	refused("session", "run-1")
	h.commit("session", &driver.Commit{Status: cairn.SessionPaused})
	refused("session", "run-2")
	h.wantError(h.st.RequestStop(h.Context(), "nobody", abort("run", "")), cairn.ErrNotFound, "stop of no session")
}

func stopReplaces(h *harness) {
	for i, test := range []struct {
		first, second cairn.Stop
		want          int
	}{
		{interrupt("run", "1"), interrupt("run", "2"), 1},
		{interrupt("run", "1"), abort("run", "2"), 2},
		{abort("run", "1"), interrupt("run", "2"), 1},
		{abort("run", "1"), abort("run", "2"), 1},
	} {
		id := fmt.Sprint("session-", i)
		h.create(id)
		s := h.begin(id, "run")
		h.requestStop(id, test.first)
		h.requestStop(id, test.second)
		want := test.first
		if test.want == 2 {
			want = test.second
		}
		h.wantStop(s, &want)
	}
}

func stopDropped(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	h.requestStop("session", abort("run", ""))
	h.commit("session", &driver.Commit{EndRun: &cairn.Run{ID: "run", Agent: agentName, Status: cairn.RunInterrupted}})
	h.wantStop(s, nil)
}

// stopNotInherited begins the next run in the commit that ends the previous one, and again without ending it.
func stopNotInherited(h *harness) {
	h.create("session")
	h.begin("session", "run-1")
	h.requestStop("session", abort("run-1", ""))
	next := beginCommit("run-2", "worker", time.Hour)
	next.Guard = driver.Guard{}
	next.EndRun = &cairn.Run{ID: "run-1", Agent: agentName, Status: cairn.RunInterrupted}
	s := h.commit("session", next)
	h.wantStop(s, nil)

	h.requestStop("session", abort("run-2", ""))
	next = beginCommit("run-3", "worker", time.Hour)
	next.Guard = driver.Guard{}
	s = h.commit("session", next)
	h.wantStop(s, nil)
	mine := interrupt("run-3", "mine")
	h.requestStop("session", mine)
	h.wantStop(s, &mine)
}

func stopSurvivesTakeover(h *harness) {
	dead := h.crash("session", "run")
	stop := interrupt("run", "before a takeover")
	h.requestStop("session", stop)
	s := h.commit("session", takeoverCommit(dead, "worker"))
	h.wantStop(s, &stop)
	s = h.step(s, "reply")
	h.wantStop(s, &stop)
}

func stopLeavesRow(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	h.requestStop("session", interrupt("run", ""))
	h.requestStop("session", abort("run", ""))
	same(h.T, "row", h.load("session"), s)
	h.step(s, "reply")
}

// stopRacesEnd requests a stop while the run ends: it is either refused or dropped with the run.
func stopRacesEnd(h *harness) {
	h.create("session")
	for n := range h.rounds(100) {
		run := fmt.Sprint("run-", n)
		s := h.begin("session", run)
		errs := race(2, func(i int) error {
			if i == 0 {
				return h.st.RequestStop(h.Context(), "session", abort(run, ""))
			}
			_, err := h.st.Commit(h.Context(), "session", endCommit(s))
			return err
		})
		h.must(errs[1])
		if errs[0] != nil {
			h.wantConflict(errs[0], cairn.ErrNotRunning, "stop of a run that ended")
		}
		s = h.begin("session", run+" and next")
		h.wantStop(s, nil)
		h.end(s)
	}
}

func watchStops(h *harness)       { watch(h, h.st) }
func watchStopsSecond(h *harness) { watch(h, h.opts.Second(h.T, h.st)) }

// watch watches one handle while stops are requested through the other. The contract does not say when a watch has
// begun, so requests are made until one is noticed; each later one must be noticed.
func watch(h *harness, watched driver.Store) {
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	var group sync.WaitGroup
	notices := make(chan driver.StopNotice, 10_000)
	failed := make(chan error, 1)
	group.Go(func() {
		for notice, err := range watched.(driver.StopWatcher).WatchStops(ctx) {
			if err != nil {
				failed <- err
				return
			}
			notices <- notice
		}
	})
	request := func() driver.StopNotice {
		id := h.newID("session")
		h.create(id)
		h.begin(id, "run")
		stop := abort("run", "because of "+id)
		h.requestStop(id, stop)
		return driver.StopNotice{SessionID: id, Stop: stop}
	}
	testclock.Await(h.T, "the watch to begin", func() bool {
		request()
		return len(notices) > 0
	})
	for range 10 {
		want := request()
		h.awaitNotice(notices, failed, want)
	}
	cancel()
	group.Wait()
	select {
	case err := <-failed:
		h.Fatalf("the end of a watch by its context is no error: %v", err)
	default:
	}
}

// watchFindsWhatStands starts a watch after a stop was requested. The watch yields the request, or a notice that
// requests may have been missed.
func watchFindsWhatStands(h *harness) {
	h.create("session")
	h.begin("session", "run")
	want := abort("run", "too late")
	h.requestStop("session", want)
	var watch func(more int)
	watch = func(more int) {
		ctx, cancel := context.WithTimeout(h.Context(), patience)
		defer cancel()
		for n, err := range h.st.(driver.StopWatcher).WatchStops(ctx) {
			h.must(err)
			if n.SessionID == "" || n.SessionID == "session" && n.Stop.RunID == want.RunID && n.Stop.Kind == want.Kind {
				if more > 0 {
					watch(more - 1) // while this one continues
				}
				return
			}
		}
		h.Fatalf("a watch with %d more to come does not yield an outstanding request within %v", more, patience)
	}
	watch(1)
}

func (h *harness) awaitNotice(notices chan driver.StopNotice, failed chan error, want driver.StopNotice) {
	h.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case got := <-notices:
			if got.SessionID == want.SessionID {
				if got.Stop.RunID != want.Stop.RunID || got.Stop.Kind != want.Stop.Kind || got.Stop.Reason != want.Stop.Reason {
					h.Fatalf("notice %+v, want %+v", got, want)
				}
				return
			}
		case err := <-failed:
			h.Fatal(errors.Join(errors.New("the watch failed"), err))
		case <-deadline.C:
			h.Fatalf("no notice of the stop of %s within %v", want.SessionID, patience)
		}
	}
}
