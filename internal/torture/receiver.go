package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
)

// The effectful tools. They send to a receiver that writes down what arrives: in the journal, outside of every store.
const (
	toolSend = "send" // its Confirm looks at what has arrived, and sometimes cannot find out
	toolWire = "wire" // only people can find out
)

// effectfulTools returns the effectful tools. Confirm cannot find out about every seventh call.
func effectfulTools(j *journal) []cairn.Tool {
	probe := cairn.Confirm(func(_ context.Context, key string) (bool, receipt, error) {
		if key[len(key)-1]%7 == 0 {
			return false, receipt{}, errors.New("no answer")
		}
		there, err := j.arrived(key)
		return there, receipt{}, err
	})
	return []cairn.Tool{newEffect(j, toolSend, probe), newEffect(j, toolWire)}
}

func newEffect(j *journal, name string, opts ...cairn.ToolOption) cairn.Tool {
	return cairn.Func(name, "Sends something.", func(ctx context.Context, call *cairn.Call, in amount) (receipt, error) {
		r := record{Kind: toolStarted, Session: call.SessionID, Call: call.ID, Key: call.IdempotencyKey()}
		j.write(r)
		defer func() { r.Kind = toolEnded; j.write(r) }()
		wait := func() error {
			timer := time.NewTimer(time.Duration(in.N%20) * 50 * time.Microsecond)
			defer timer.Stop()
			select {
			case <-timer.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := wait(); err != nil {
			return receipt{}, err
		}
		if in.N%25 == 0 {
			return receipt{}, errors.New("refused " + strconv.Itoa(in.N))
		}
		arrival := r
		arrival.Kind = arrived
		j.write(arrival)
		if in.N%25 == 1 {
			panic("the line broke")
		}
		return receipt{N: in.N}, wait()
	}, append([]cairn.ToolOption{cairn.Effectful()}, opts...)...)
}

// arrived reports whether something with a key has arrived at the receiver.
func (j *journal) arrived(key string) (bool, error) {
	raw, err := os.ReadFile(j.file.Name())
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(raw) {
		if bytes.HasPrefix(line, []byte(`{"kind":"`+string(arrived)+`"`)) && bytes.Contains(line, []byte(key)) {
			return true, nil
		}
	}
	return false, nil
}

// finds returns what a person finds out about an effect: mostly the truth at the time, sometimes nothing but that it
// should be tried again.
func (c *clerk) finds(call *cairn.PendingCall) cairn.Submission {
	there, err := c.journal.arrived(call.Effect.Key)
	switch {
	case err != nil || c.rng.IntN(5) == 0:
		return cairn.AnswerError(call.CallRef, "cannot find out")
	case c.rng.IntN(4) == 0:
		return cairn.TryAgain(call.CallRef)
	case there:
		return cairn.Happened(call.CallRef, receipt{N: 1000 + c.answers})
	}
	return cairn.DidNotHappen(call.CallRef, "nothing has arrived")
}

// effectsSettled finds effects that the ledger does not account for: sent without a row, sent more often than an attempt
// was recorded, or than a person or Confirm allowed, or confirmed although nothing has arrived. It also finds effects whose
// step was discarded and that no message describes. A session at work has more in its step in progress.
func effectsSettled(h *History) error {
	if h.Session.Status == cairn.SessionActive {
		return nil
	}
	arrivals := map[string]int{} // by key
	for _, r := range h.Journal {
		if r.Kind == arrived {
			arrivals[r.Key]++
		}
	}
	results, least, most := h.results(), map[string]int{}, map[string]int{} // number of messages about effects without results, by run
	for i := range h.Calls {
		c := &h.Calls[i]
		if c.Kind != cairn.CallEffect {
			continue
		}
		if c.Effect == nil {
			return fmt.Errorf("row %s is not one of the ledger", c.ID)
		}
		n, choices := arrivals[c.Effect.Key], inbox.Choices(c)
		delete(arrivals, c.Effect.Key)
		switch {
		case n > c.Effect.Attempts:
			return fmt.Errorf("effect %s arrived %d times, the ledger has %d attempts", c.ID, n, c.Effect.Attempts)
		case n > 1+choices:
			return fmt.Errorf("effect %s arrived %d times, %d further attempts were allowed: %+v", c.ID, n, choices, c.Trail)
		case c.Effect.State == cairn.EffectConfirmed && n == 0:
			return fmt.Errorf("effect %s is confirmed, and never arrived", c.ID)
		}
		if err := effectShown(c, results[c.ToolCallID]); err != nil {
			return err
		}
		if len(results[c.ToolCallID]) > 0 || waits(c) {
			continue
		}
		if most[c.RunID]++; c.Effect.State != cairn.EffectFailed { // a person may have found out that it failed
			least[c.RunID]++
		}
	}
	for _, t := range h.turns() {
		if n := len(t.left); !t.undone && (n < least[t.run.ID] || n > most[t.run.ID]) {
			return fmt.Errorf("run %s left %d to %d effects, and %d messages describe them", t.run.ID, least[t.run.ID], most[t.run.ID], n)
		}
	}
	for key, n := range arrivals {
		return fmt.Errorf("%d effects with the key %s arrived, and the ledger does not have it", n, key)
	}
	return nil
}

// waits reports whether a run waits for the answer to a call.
func waits(c *cairn.PendingCall) bool {
	return c.Status == cairn.CallOpen || c.Status == cairn.CallAnswered
}

// effectShown checks that the model read what the ledger has of an effect. A call of a run that was undone has no result,
// and one of a step that was discarded when its run ended has a message instead.
func effectShown(c *cairn.PendingCall, results []*cairn.ToolResult) error {
	switch {
	case len(results) > 1 || waits(c) && len(results) > 0:
		return fmt.Errorf("effect %s is %s and has %d results", c.ID, c.Status, len(results))
	case len(results) == 0:
		return nil
	}
	r := results[0]
	switch c.Effect.State {
	case cairn.EffectConfirmed:
		if r.IsError {
			return fmt.Errorf("effect %s is confirmed, its result is %s %s", c.ID, r.Code, r.Output)
		}
	case cairn.EffectFailed:
		if r.Code != cairn.ErrTool && r.Code != cairn.ErrToolPanic {
			return fmt.Errorf("effect %s failed, its result is %s %s", c.ID, r.Code, r.Output)
		}
	default:
		if r.Code != cairn.ErrEffectUnknown {
			return fmt.Errorf("effect %s is %s, its result is %s %s", c.ID, c.Effect.State, r.Code, r.Output)
		}
	}
	if (c.Effect.State == cairn.EffectUnknown) == (c.Status == cairn.CallSettled) {
		return fmt.Errorf("effect %s is %s, its row %s", c.ID, c.Effect.State, c.Status)
	}
	return nil
}

// answeredEffect reports whether the trail of an effect has an accepted answer.
func answeredEffect(c *cairn.PendingCall, r *record) bool {
	n := 0
	for _, d := range c.Trail {
		var value json.RawMessage
		if d.Kind == cairn.DecisionResult {
			value = d.Value
		}
		if d.Reviewer == r.Reviewer && d.Kind == r.Decision && compact(value) == compact(r.Value) {
			n++
		}
	}
	return n == 1
}
