package engine_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// collect reads events until it has seen the end of a number of runs.
func collect(t *testing.T, eng *engine.Engine, after int64, ends int) []cairn.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var list []cairn.Event
	for ev := range until(t, ctx, eng.Events(ctx, "s", cairn.After(after))) {
		list = append(list, ev)
		if ev.Type == cairn.EventRunEnd {
			if ends--; ends == 0 {
				return list
			}
		}
	}
	t.Fatalf("the events ended early, after %d", len(list))
	return nil
}

func TestReplayUpToAnyEventAndFollowFromThereIsTheWhole(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, eventful(cairn.PerStep))
	turn(t, eng, "s", "go")
	turn(t, eng, "s", "go on")
	whole := history(t, st, "s")
	for n := range whole[:len(whole)-1] {
		head, err := eng.History(t.Context(), "s", cairn.Cursor{}, n+1)
		if err != nil {
			t.Fatal(err)
		}
		ends := 0
		for _, ev := range whole[n+1:] {
			if ev.Type == cairn.EventRunEnd {
				ends++
			}
		}
		if got := append(head, collect(t, eng, int64(n+1), ends)...); !reflect.DeepEqual(got, whole) {
			t.Fatalf("cut at %d: %d events, the whole has %d", n+1, len(got), len(whole))
		}
	}
}

// Readers that come at any time, in any process, see the same events, live or not.
func TestReadersOfALiveRunSeeTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(
			scripted.Reply(scripted.Text("let me see whether I find that "), scripted.Call("note", in{"x"})).Pace(10*time.Millisecond),
			scripted.Text("there it is, right where it was").Pace(10*time.Millisecond)), note()), with(func(o *engine.Options) { o.Coalesce = 0 }))
		other := open(t, tapOn(st.Store), bot(scripted.New()), named("b"))
		run := start(t, eng, "s", "go")
		seen := make(chan []cairn.Event, 100)
		readers := 0
		for range 15 {
			for _, e := range []*engine.Engine{eng, other} {
				readers += 2
				head := history(t, st, "s")
				go func() { seen <- append(head, collect(t, e, int64(len(head)), 1)...) }()
				r := attach(t, e, "s")
				go func() {
					var list []cairn.Event
					for ev, err := range r.Events(t.Context()) {
						if err != nil {
							t.Error(err)
						}
						list = append(list, ev)
					}
					seen <- list
				}()
			}
			testclock.Advance(10 * time.Millisecond)
		}
		wait(t, run)
		whole := history(t, st, "s")
		for range readers {
			if got := <-seen; !reflect.DeepEqual(got, whole) {
				t.Fatalf("a reader saw %d events, the log has %d", len(got), len(whole))
			}
		}
		res, err := attach(t, other, "s").Wait(t.Context())
		if err != nil || res.Text != "there it is, right where it was" {
			t.Errorf("wait elsewhere: %+v, %v", res, err)
		}
	})
}

func TestSnapshotAtAnyMomentShowsEachWordOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		fail := scripted.Fail(cairn.Errorf(cairn.ErrOverloaded, "busy"))
		eng := open(t, st, bot(scripted.New(
			scripted.Reply(scripted.Text("alpha beta gamma "), scripted.Call("note", in{"x"})).Pace(100*time.Millisecond),
			scripted.Reply(scripted.Text("delta eps"), fail).Pace(100*time.Millisecond),
			scripted.Text("delta epsilon zeta").Pace(100*time.Millisecond)), note()), with(func(o *engine.Options) { o.Coalesce = 50 * time.Millisecond }))
		run := start(t, eng, "s", "go")
		shown := make(chan string, 100)
		n := 0
		for load(t, st, "s").Status == cairn.SessionActive {
			snap, err := eng.Snapshot(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			n++
			go func() {
				var b strings.Builder
				for _, m := range snap.Messages {
					if m.Role == cairn.RoleAssistant {
						b.WriteString(m.Text())
					}
				}
				heard := textsOf(collect(t, eng, snap.Sequence, 1))
				for step := 1; step <= 2; step++ {
					b.WriteString(heard[fmt.Sprint(run.ID(), "/", step)])
				}
				shown <- b.String()
			}()
			testclock.Advance(30 * time.Millisecond)
		}
		wait(t, run)
		for range n {
			if got := <-shown; got != "alpha beta gamma delta epsilon zeta" {
				t.Errorf("a page shows %q", got)
			}
		}
		if n < 20 {
			t.Errorf("only %d snapshots", n)
		}
	})
}

func TestStuckReaderHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(counter(30), note()))
		stuck, release := make(chan struct{}), make(chan struct{})
		run := start(t, eng, "s", "go")
		n := 0
		go func() {
			for range run.Events(t.Context()) {
				if n++; n == 3 {
					close(stuck)
					<-release
				}
			}
		}()
		<-stuck
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		close(release)
		synctest.Wait()
		if want := len(history(t, st, "s")); n != want {
			t.Errorf("the reader got %d of %d events", n, want)
		}
	})
}

func TestTrimmedLogSaysSoAndTheOutcomeIsStillKnown(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(scripted.New(scripted.Text("a b c"), scripted.Text("next"))))
	turn(t, eng, "s", "go")
	if err := st.log.Trim(t.Context(), load(t, st, "s").Log(), 4); err != nil {
		t.Fatal(err)
	}
	for _, err := range eng.Events(t.Context(), "s", cairn.Cursor{}) {
		wantError(t, err, cairn.ErrTrimmed)
	}
	_, err := eng.History(t.Context(), "s", cairn.After(1), 0)
	wantError(t, err, cairn.ErrTrimmed)
	res, err := attach(t, open(t, tapOn(st.Store), bot(scripted.New())), "s").Wait(t.Context())
	if err != nil || res.Text != "a b c" {
		t.Errorf("wait: %+v, %v", res, err)
	}
	turn(t, eng, "s", "again")
}

func TestReadersLeaveWhenTheyLike(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		st := tapOn(nil)
		eng := open(t, st, bot(storyteller()))
		run := start(t, eng, "s", "go")
		for range run.Events(t.Context()) {
			break
		}
		for range eng.Events(t.Context(), "s", cairn.Cursor{}) {
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var last error
		for _, err := range eng.Events(ctx, "s", cairn.Cursor{}) {
			last = err
		}
		if last != context.DeadlineExceeded {
			t.Errorf("the events of a context that is over end with %v", last)
		}
	})
}
