package sessions

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

// Each situation has a sentence that names who or what the session waits for, since when and until when.
func TestSentences(t *testing.T) {
	at := time.Date(2026, 11, 27, 14, 2, 0, 0, time.UTC)
	row := &cairn.Session{Agent: "catalogue", UserID: "j.amsel"}
	call := func(kind cairn.CallKind, change func(*cairn.CallBrief)) *cairn.CallBrief {
		c := &cairn.CallBrief{Kind: kind, Tool: "refund", Input: json.RawMessage(`{"order":42}`), CreatedAt: at}
		if change != nil {
			change(c)
		}
		return c
	}
	prompt := func(text string) func(*cairn.CallBrief) { return func(c *cairn.CallBrief) { c.Prompt = text } }
	for want, s := range map[string]cairn.Situation{
		`Waits for an approval since 2026-11-27 14:02:00. refund {"order":42}. Expires at 2026-11-27 17:02:00.`: {Kind: cairn.SituationApproval,
			Until: at.Add(3 * time.Hour), Call: call(cairn.CallApproval, nil)},
		`Waits for another approval by ben, claimed by ben since 2026-11-27 14:02:00. refund {"order":42}. Voted: k.ilves.`: {Kind: cairn.SituationApproval,
			Call: call(cairn.CallApproval, func(c *cairn.CallBrief) {
				c.Reviewers, c.Voted, c.ClaimedBy = []string{"k.ilves", "ben"}, []string{"k.ilves"}, "ben"
			})},
		`Waits for the answer of j.amsel since 2026-11-27 14:02:00: "Which address?".`:                {Kind: cairn.SituationAnswer, Call: call(cairn.CallQuestion, prompt("Which address?"))},
		`Waits for a client of j.amsel to run refund since 2026-11-27 14:02:00. refund {"order":42}.`: {Kind: cairn.SituationClientTool, Call: call(cairn.CallClientTool, nil)},
		`Waits for j.amsel to connect an account since 2026-11-27 14:02:00: "Connect the account.".`:  {Kind: cairn.SituationAccount, Call: call(cairn.CallConnect, prompt("Connect the account."))},
		`Waits for warehouse, which it consults, since 2026-11-27 14:02:00. warehouse waits for an approval by stock. refund {"order":42}.`: {
			Kind: cairn.SituationChild, Agent: "warehouse", Call: call(cairn.CallApproval, func(c *cairn.CallBrief) { c.Reviewers = []string{"stock"} })},
		"Waits for a worker since 2026-11-27 14:02:00. No registered worker serves catalogue.": {Kind: cairn.SituationWorker, Workers: new(0)},
		"Waits for a worker to begin 2 queued turns since 2026-11-27 14:02:00.":                {Kind: cairn.SituationQueue, Queued: 2, Workers: new(1)},
		"Attempt 3 at step 4 failed at 2026-11-27 14:02:00: overloaded. The next attempt begins at 2026-11-27 14:05:10.": {Kind: cairn.SituationRetry, Step: 4,
			Attempt: 4, Until: at.Add(190 * time.Second), Error: &cairn.Error{Message: "overloaded"}},
		"The budget was used up at 2026-11-27 14:02:00: 0.5 of 0.5 usd for this turn. Raise it or end the turn.": {Kind: cairn.SituationBudget,
			Call: call(cairn.CallBudget, func(c *cairn.CallBrief) {
				c.Budget = &cairn.BudgetReport{Unit: cairn.BudgetUSD, Spent: .5, Limit: .5, Per: "turn"}
			})},
		"Writes an answer since 2026-11-27 14:02:00. Step 3 of at most 20, on worker-2.": {Kind: cairn.SituationWriting, Step: 3, MaxSteps: 20, Attempt: 1, Owner: "worker-2"},
		"Runs refund since 2026-11-27 14:02:00. Step 3, attempt 2.":                      {Kind: cairn.SituationTool, Tool: "refund", Step: 3, Attempt: 2},
		"Is to be taken over since 2026-11-27 14:02:00: worker-1 was last seen 12s ago.": {Kind: cairn.SituationTakeover, Owner: "worker-1", AsOf: at, SeenAt: at.Add(-12 * time.Second)},
		"Is being stopped since 2026-11-27 14:02:00: enough.":                            {Kind: cairn.SituationStopping, Reason: "enough."},
		"Done at 2026-11-27 14:02:00 in 6.1s.":                                           {Kind: cairn.SituationDone, StartedAt: at.Add(-6100 * time.Millisecond), EndedAt: at},
		"Stopped by n.okt at 2026-11-27 14:02:00 after 2 steps: wrong order. The messages so far are kept.": {Kind: cairn.SituationStopped, Step: 2,
			StoppedBy: "n.okt", Reason: "wrong order"},
		"Stopped by the application at 2026-11-27 14:02:00 after 2 steps. The messages so far are kept.": {Kind: cairn.SituationStopped, Step: 2, Reason: "interrupted"},
		"Aborted by n.okt at 2026-11-27 14:02:00 in step 2.": {Kind: cairn.SituationFailed, Step: 1, StoppedBy: "n.okt", Reason: "aborted",
			Error: &cairn.Error{Code: cairn.ErrAborted, Message: "the run was aborted"}},
		"Failed at 2026-11-27 14:02:00 in step 2: the provider refused the key. A retry repeats the last step only.": {Kind: cairn.SituationFailed, Step: 1,
			Verbs: []cairn.Verb{cairn.VerbRetry}, Error: &cairn.Error{Code: cairn.ErrAuth, Message: "the provider refused the key"}},
		"refund was running when its process died since 2026-11-27 14:02:00. It may have happened: check before you settle it. refund {\"order\":42}.": {
			Kind: cairn.SituationEffect, Call: call(cairn.CallEffect, nil)},
		"No turn has begun yet.": {Kind: cairn.SituationNew},
	} {
		s.Since = at
		if got := sentence(&s, row); got != want {
			t.Errorf("%s:\n got %s\nwant %s", s.Kind, got, want)
		}
	}
}
