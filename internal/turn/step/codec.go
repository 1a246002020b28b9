package step

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Staged is a fact read from the store.
type Staged struct {
	Fact Fact
	// By names the attempt that staged it.
	By string
}

// Encode returns the stored form of a fact of a step. If lease, a fencing token, is not 0, the fact is valid under that
// lease only: the next lease holder ignores it. With lease 0 it is valid under every lease.
func Encode(stepID string, lease int64, by string, f Fact) (driver.Staged, error) {
	raw, err := json.Marshal(f)
	if err == nil {
		raw, err = json.Marshal(envelope{Kind: kind(f), By: by, Fact: raw})
	}
	if err != nil {
		return driver.Staged{}, cairn.Errorf(cairn.ErrInternal, "step %s: %w", stepID, err)
	}
	return driver.Staged{StepID: stepID, Key: key(f, lease), Data: raw}, nil
}

func key(f Fact, lease int64) string {
	if lease == 0 {
		return f.place()
	}
	return strconv.FormatInt(lease, 10) + "/" + f.place()
}

// Decode returns the facts of a step that are valid under a lease, in the order in which they were staged. If a place
// has two facts, the one that is valid under every lease wins.
func Decode(list []driver.Staged, stepID string, lease int64) ([]Staged, error) {
	lasting := func(place string) bool {
		return slices.ContainsFunc(list, func(p driver.Staged) bool { return p.StepID == stepID && p.Key == place })
	}
	prefix := strconv.FormatInt(lease, 10) + "/"
	var facts []Staged
	for i := range list {
		p := &list[i]
		if p.StepID != stepID {
			continue
		}
		if place, leased := strings.CutPrefix(p.Key, prefix); leased && lasting(place) || !leased && ofOneLease(p.Key) {
			continue
		}
		f, err := decode(p)
		if err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "step %s: staged %s: %w", stepID, p.Key, err)
		}
		facts = append(facts, f)
	}
	return facts, nil
}

// Lasting reports whether any of a session's staged facts are work that the next lease holder continues.
func Lasting(list []driver.Staged) bool {
	return slices.ContainsFunc(list, func(p driver.Staged) bool { return !ofOneLease(p.Key) && !strings.HasPrefix(p.Key, spentPlace) })
}

// LastEnded returns the number of the last step of a run that has ended under a lease: committed, the number of the last
// of which is given, or deferred to a later commit, according to staged facts.
func LastEnded(list []driver.Staged, runID string, committed int, lease int64) int {
	last, ended := committed, key(&Ended{}, lease)
	for slices.ContainsFunc(list, func(p driver.Staged) bool { return p.StepID == ID(runID, last+1) && p.Key == ended }) {
		last++
	}
	return last
}

// spentPlace begins the places of [Spent].
const spentPlace = "spent:"

// SpentIn returns what models were paid, according to staged facts of a step, for work that is not stored. It leaves
// out facts that do not decode.
func SpentIn(list []driver.Staged, stepID string) (sum Bill) {
	for i := range list {
		if p := &list[i]; p.StepID == stepID && strings.HasPrefix(p.Key, spentPlace) {
			if f, err := decode(p); err == nil {
				if spent, ok := f.Fact.(*Spent); ok {
					sum = sum.Add(spent.Usage)
				}
			}
		}
	}
	return sum
}

// ofOneLease reports whether a key belongs to a fact that is valid under one lease only.
func ofOneLease(key string) bool {
	token, _, ok := strings.Cut(key, "/")
	_, err := strconv.ParseInt(token, 10, 64)
	return ok && err == nil
}

func decode(p *driver.Staged) (Staged, error) {
	var e envelope
	if err := json.Unmarshal(p.Data, &e); err != nil {
		return Staged{}, err
	}
	fresh, ok := stored[e.Kind]
	if !ok {
		return Staged{}, cairn.Errorf(cairn.ErrCorrupt, "unknown fact kind %q", e.Kind)
	}
	f := fresh()
	if err := json.Unmarshal(e.Fact, f); err != nil {
		return Staged{}, err
	}
	if r, ok := f.(*Result); ok && r.Result == nil {
		return Staged{}, cairn.Errorf(cairn.ErrCorrupt, "fact of a result has no result")
	}
	return Staged{Fact: f, By: e.By}, nil
}

// EffectsIn returns the rows that calls have in the ledger of effects, according to the facts of their step.
func EffectsIn(facts []Staged) (rows []cairn.PendingCall) {
	calls := map[string]*Call{}
	var order []*Call
	of := func(id string) *Call {
		if calls[id] == nil {
			calls[id] = &Call{}
			order = append(order, calls[id])
		}
		return calls[id]
	}
	for _, s := range facts {
		switch f := s.Fact.(type) {
		case *Sent:
			if c := of(f.CallID); c.Sent == nil || f.Number > c.Sent.Number {
				c.Sent = f
			}
		case *Wait:
			if c := of(f.CallID); f.Pending != nil {
				c.Wait = f
				c.attach(f.Pending)
			}
		case *Result:
			of(f.Result.CallID).Result = f
		}
	}
	for _, c := range order {
		if row := c.Ledger(); row != nil && row.Effect != nil {
			rows = append(rows, *row)
		}
	}
	return rows
}

// Standing returns the fact that has the place of another one, and the attempt that staged it; nil if there is none.
func Standing(facts []Staged, of Fact) (f Fact, by string) {
	for _, s := range facts {
		if s.Fact.place() == of.place() {
			return s.Fact, s.By
		}
	}
	return nil, ""
}
