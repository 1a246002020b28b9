package budget

import (
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn"
)

// Account says what a budget counts: the usage of the session whose agent has the budget, and of the sessions below it.
type Account struct {
	*cairn.Budget
	// Session is the session whose agent has the budget. Run is its run in progress, which began at Began.
	Session string
	Run     string
	Began   time.Time
	// Resumed is the run that Run resumed, of a budget of a run: a raise that was asked for in it counts for Run.
	Resumed string
	// First is the first run that is counted, which began at Since. Before is what the runs from that one on have used
	// before Run. They are zero for a budget of a tree.
	First  string
	Since  time.Time
	Before Amount
}

// Per names what the budget applies to.
func (a *Account) Per() string {
	if a.Budget.Per == cairn.PerTurn {
		return "turn"
	}
	return string(a.Budget.Per)
}

// Own returns the committed amount of the account's own session, by its row.
func (a *Account) Own(row *cairn.Session) Amount {
	switch {
	case a.Budget.Per == cairn.PerTree:
		return Of(row.Usage)
	case row.RunID == a.Run:
		return a.Before.Plus(Of(row.RunUsage))
	}
	return a.Before
}

// Raised returns what the answer to a call has added to the account's limits.
func (a *Account) Raised(call *cairn.PendingCall) Amount {
	var r cairn.BudgetReport
	if json.Unmarshal(call.Payload, &r) != nil || r.SessionID != a.Session || r.RunID != a.First && (a.Resumed == "" || r.RunID != a.Resumed) {
		return Amount{}
	}
	return Raise(a.Budget, call)
}

// Report completes a report about the account.
func (a *Account) Report(r *cairn.BudgetReport) *cairn.BudgetReport {
	r.Per, r.SessionID, r.RunID = a.Per(), a.Session, a.First
	return r
}
