package server

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
)

// Unready determines how a turn is handled if its session cannot take it at once.
type Unready = client.Unready

// unreadyOptions returns the options of a turn for it.
func unreadyOptions(u Unready) ([]engine.RunOption, error) {
	busy, ok := onBusy[u.OnBusy]
	if !ok {
		return nil, cairn.Invalid("on_busy", "unknown value %q: must be one of reject, enqueue, interrupt, rollback, steer", u.OnBusy)
	}
	waiting, ok := onWaiting[u.OnWaiting]
	if !ok {
		return nil, cairn.Invalid("on_waiting", "unknown value %q: must be one of refuse, withdraw, enqueue", u.OnWaiting)
	}
	return []engine.RunOption{engine.WithOnBusy(busy), engine.WithOnWaiting(waiting)}, nil
}

var (
	onBusy = map[string]engine.OnBusy{"": engine.BusyReject, "reject": engine.BusyReject, "enqueue": engine.BusyEnqueue,
		"interrupt": engine.BusyInterrupt, "rollback": engine.BusyRollback, "steer": engine.BusySteer}
	onWaiting = map[string]engine.OnWaiting{"": engine.WaitingRefuse, "refuse": engine.WaitingRefuse,
		"withdraw": engine.WaitingWithdraw, "enqueue": engine.WaitingEnqueue}
)
