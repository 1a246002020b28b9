package server

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// Unready determines how a turn is handled if its session cannot take it at once.
type Unready struct {
	// OnBusy is one of reject, enqueue, interrupt, rollback, steer: see [engine.OnBusy]. Empty means the value that the
	// server's Options.Unready returns, else reject; for a chat client's message, else enqueue.
	OnBusy string `json:"on_busy,omitempty" schema:"enum=reject|enqueue|interrupt|rollback|steer"`
	// OnWaiting is one of refuse, withdraw, enqueue: see [engine.OnWaiting]. Empty means the value that the server's
	// Options.Unready returns, else refuse.
	OnWaiting string `json:"on_waiting,omitempty" schema:"enum=refuse|withdraw|enqueue"`
}

func (u *Unready) options() ([]engine.RunOption, error) {
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
