package remotestop

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
)

// stopperOf returns what a stop of a model's work is delivered by, perhaps a model that it wraps; nil if there is none.
func stopperOf(model cairn.Model) cairn.Stopper {
	for model != nil {
		if s, ok := model.(cairn.Stopper); ok {
			return s
		}
		if of, several := model.(interface{ Unwrap() []cairn.Model }); several {
			return stopperOfAny(of.Unwrap())
		}
		wraps, ok := model.(interface{ Unwrap() cairn.Model })
		if !ok {
			break
		}
		model = wraps.Unwrap()
	}
	return nil
}

// stopperOfAny returns what stops the work of any of some models; nil if there is none.
func stopperOfAny(models []cairn.Model) cairn.Stopper {
	var all stoppers
	for _, m := range models {
		if s := stopperOf(m); s != nil {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// stoppers are those of models of which it is not known which one has worked.
type stoppers []cairn.Stopper

// StopTurn stops the turn at each of them. Those that know nothing of it have nothing to do.
func (list stoppers) StopTurn(ctx context.Context, session string, runs []string) error {
	var failed []error
	for _, s := range list {
		failed = append(failed, s.StopTurn(ctx, session, runs))
	}
	return errors.Join(failed...)
}

// Elsewhere reports whether a stop may be owed to a model of an agent.
func Elsewhere(a *cairn.Agent) bool {
	if stopperOf(a.Model) != nil {
		return true
	}
	for _, m := range a.Models {
		if stopperOf(m) != nil {
			return true
		}
	}
	return false
}
