package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// attempt is an attempt at the first effect of a step: the third of its run, two of which are committed.
type attempt struct {
	*testing.T
	log  *memstore.Log
	runs *lifecycle.Runs
	live *session.Live
}

func newAttempt(t *testing.T) *attempt {
	t.Helper()
	st := memstore.New(nil)
	log := st.EventLog().(*memstore.Log)
	row, err := st.Commit(t.Context(), "s", &driver.Commit{Create: &cairn.Session{Agent: "bot"}, Status: cairn.SessionActive, Step: 2,
		StartRun: &cairn.Run{ID: "run", Agent: "bot", Status: cairn.RunRunning},
		Lease:    driver.LeaseChange{Action: driver.LeaseTake, Owner: "p", TTL: time.Hour},
		Events:   []cairn.Event{started("s", "run", 2), started("s", "run", 3)}}) // what is committed does not matter
	if err != nil {
		t.Fatal(err)
	}
	live, err := session.New(&driver.Contents{Session: row, State: json.RawMessage("{}")}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	runs := lifecycle.New(lifecycle.Config{Options: &settings.Options{Log: log, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}, Store: st, OwnLog: true})
	live.Run = &cairn.Run{ID: "run"}
	live.Emit = runs.Journal.Emitter(t.Context(), row, "run", row.LogSequence)
	t.Cleanup(live.Emit.Close)
	return &attempt{t, log, runs, live}
}

// add has others append to the log of the attempt's session.
func (a *attempt) add(events ...cairn.Event) {
	a.Helper()
	if _, err := a.log.Append(a.Context(), a.live.Row.Log(), driver.AnySequence, events...); err != nil {
		a.Fatal(err)
	}
}

// since returns the events behind a sequence.
func (a *attempt) since(after int64) []cairn.Event {
	a.Helper()
	list, err := a.log.Read(a.Context(), a.live.Row.Log(), after, 0)
	if err != nil {
		a.Fatal(err)
	}
	return list
}

func started(session, run string, step int) cairn.Event {
	return cairn.Event{Type: cairn.EventStepStart, SessionID: session, RunID: run, Step: step}
}

func discarded(step int) cairn.Event {
	return cairn.Event{Type: cairn.EventStepDiscarded, SessionID: "s", RunID: "run", Step: step}
}

// An attempt voids what a dead one has published of its step, and nothing else.
func TestDiscardAttempt(t *testing.T) {
	t.Parallel()
	verb := cairn.Event{Type: cairn.EventQueued, SessionID: "s", RunID: "later", Version: 7}
	for name, test := range map[string]struct {
		published []cairn.Event
		deferred  []int
		want      int // the step that is discarded; 0 for none
	}{
		"nothing":                      {nil, nil, 0},
		"a step":                       {[]cairn.Event{started("s", "run", 3)}, nil, 3},
		"a step beside a verb":         {[]cairn.Event{started("s", "run", 3), verb}, nil, 3},
		"only a verb":                  {[]cairn.Event{verb}, nil, 0},
		"two steps":                    {[]cairn.Event{started("s", "run", 3), started("s", "run", 4)}, nil, 3},
		"a later step":                 {[]cairn.Event{started("s", "run", 4)}, nil, 3},
		"a step that is void":          {[]cairn.Event{started("s", "run", 3), discarded(3)}, nil, 0},
		"a step void with another":     {[]cairn.Event{started("s", "run", 3), started("s", "run", 4), discarded(2)}, nil, 0},
		"a step before a void one":     {[]cairn.Event{started("s", "run", 3), started("s", "run", 4), discarded(4)}, nil, 3},
		"a step begun again":           {[]cairn.Event{started("s", "run", 3), discarded(3), started("s", "run", 3)}, nil, 3},
		"of another session":           {[]cairn.Event{started("child", "run", 3)}, nil, 0},
		"of another run":               {[]cairn.Event{started("s", "another", 3)}, nil, 0},
		"a deferred step":              {[]cairn.Event{started("s", "run", 3)}, []int{3}, 0},
		"the step after deferred ones": {[]cairn.Event{started("s", "run", 3), started("s", "run", 4), started("s", "run", 5)}, []int{3, 4}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttempt(t)
			for _, number := range test.deferred {
				a.live.Step = &step.Step{Number: number}
				a.live.Defer(&step.Ended{})
			}
			a.add(test.published...)
			asked := 0
			err := a.runs.DiscardAttempt(t.Context(), a.live, func(context.Context) (bool, error) {
				asked++
				return true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			at := a.live.Row.LogSequence + int64(len(test.published))
			got := a.since(at)
			switch {
			case test.want == 0 && (len(got) > 0 || asked > 0):
				t.Errorf("asked %d times, and appended %+v; want nothing", asked, got)
			case test.want > 0 && (asked != 1 || len(got) != 1 || got[0].Type != cairn.EventStepDiscarded || got[0].Step != test.want ||
				got[0].SessionID != "s" || got[0].RunID != "run" || got[0].Agent != "bot" || got[0].Time.IsZero()):
				t.Errorf("asked %d times, and appended %+v; want once, and a discard of step %d", asked, got, test.want)
			}
			if end := at + int64(len(got)); a.live.Emit.Position() != end {
				t.Errorf("the emitter is at %d, the log at %d", a.live.Emit.Position(), end)
			}
		})
	}
}

// Between its look at the log and its append others append. The attempt then looks again: it discards what is still
// open, behind what they have added.
func TestDiscardAttemptBesideOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		other cairn.Event
		want  []cairn.EventType
	}{
		"a verb":          {cairn.Event{Type: cairn.EventQueued, SessionID: "s", Version: 7}, []cairn.EventType{cairn.EventQueued, cairn.EventStepDiscarded}},
		"another attempt": {discarded(3), []cairn.EventType{cairn.EventStepDiscarded}},
		"a child":         {started("child", "its run", 1), []cairn.EventType{cairn.EventStepStart, cairn.EventStepDiscarded}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttempt(t)
			a.add(started("s", "run", 3))
			at, asked := a.live.Row.LogSequence+1, 0
			err := a.runs.DiscardAttempt(t.Context(), a.live, func(context.Context) (bool, error) {
				if asked++; asked == 1 {
					a.add(test.other)
				}
				return true, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []cairn.EventType
			for _, ev := range a.since(at) {
				got = append(got, ev.Type)
			}
			if !slices.Equal(got, test.want) || a.live.Emit.Position() != at+int64(len(got)) {
				t.Errorf("the log has %v and the emitter is at %d, want %v and %d", got, a.live.Emit.Position(), test.want, at+int64(len(got)))
			}
		})
	}
}

// An attempt whose step has got further, that cannot find that out, or that has lost its lease discards nothing.
func TestDiscardAttemptThatDoesNotHold(t *testing.T) {
	t.Parallel()
	broken := errors.New("the store is away")
	for name, test := range map[string]struct {
		holds func(a *attempt) (bool, error)
		want  error
	}{
		"the reply is staged": {func(*attempt) (bool, error) { return false, nil }, nil},
		"the store is away":   {func(*attempt) (bool, error) { return false, broken }, broken},
		"the lease was lost": {func(a *attempt) (bool, error) {
			w := driver.Writer{Session: "s", Token: a.live.Row.Lease.Token + 1}
			_, err := a.log.AppendFenced(a.Context(), a.live.Row.Log(), driver.AnySequence, w)
			return true, err
		}, cairn.ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttempt(t)
			a.add(started("s", "run", 3))
			err := a.runs.DiscardAttempt(t.Context(), a.live, func(context.Context) (bool, error) { return test.holds(a) })
			if !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if got := a.since(a.live.Row.LogSequence + 1); len(got) > 0 {
				t.Errorf("the log got %+v", got)
			}
		})
	}
}
