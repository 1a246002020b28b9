package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
)

// ledger is the state of every session. A write that is lost or repeated shows in Entries, one out of order in
// Total and Last.
type ledger struct {
	Entries []entry `json:"entries"`
	Total   int     `json:"total"`
	Last    string  `json:"last"`
}

type entry struct {
	Call string `json:"call"`
	N    int    `json:"n"`
}

// amount is the tools' input, receipt their result: the total after their write.
type amount struct {
	N int `json:"n"`
}

type receipt struct {
	N     int `json:"n"`
	Total int `json:"total"`
	// Answers are the answers that toolInquire got, in the order of its questions.
	Answers []int `json:"answers,omitempty"`
}

// task is the input of a sub-agent's tool, message that of the companion tools.
type task struct {
	Input string `json:"input"`
}

type message struct {
	Agent   string `json:"agent,omitempty"`
	Name    string `json:"name"`
	Message string `json:"message,omitempty"`
}

// The tools. All except toolFail and client tools add to the ledger.
const (
	toolAdd   = "add"
	toolNote  = "note"  // also adds a context row
	toolMark  = "mark"  // also requests a checkpoint
	toolFail  = "fail"  // returns an error
	toolClose = "close" // ends the turn

	toolPay     = "pay"      // needs approval
	toolPaySoon = "pay_soon" // needs approval soon
	toolPayIf   = "pay_if"   // needs approval for odd amounts
	toolVote    = "vote"     // needs the approval of most voters

	toolAsk     = "ask" // client tool
	toolAskSoon = "ask_soon"

	toolInquire = "inquire" // asks questions while it runs
)

// voters decide together about calls of toolVote.
var voters = []string{"ann", "bob", "cy"}

// soon is the deadline of tools that have one.
const soon = 100 * time.Millisecond

// kind is a kind of agent.
type kind struct {
	name       string
	durability cairn.Durability
	typed      bool // has a typed output
	longest    int  // maximum number of steps of a turn
	// waits reports whether the agent has tools that need people.
	waits bool
	// sends reports whether the agent has effectful tools. Agents that defer commits with them would not.
	sends bool
	// consults names the kind's sub-agent, mate its blocking companion, scout its non-blocking one.
	consults, mate, scout string
}

// kinds are the agents of roots: some without children, some with people and a family.
var kinds = []*kind{
	{name: "per-step", durability: cairn.PerStep, longest: 5},
	{name: "per-step-typed", durability: cairn.PerStep, longest: 5, typed: true},
	{name: "per-tool", durability: cairn.PerTool, longest: 5},
	{name: "per-tool-typed", durability: cairn.PerTool, longest: 5, typed: true},
	{name: "interval", durability: cairn.Interval(5 * time.Millisecond), longest: 5},
	{name: "manual-typed", durability: cairn.Manual, longest: 5, typed: true},
	{name: "manual-sends", durability: cairn.Manual, longest: 5, sends: true},
	{name: "per-step-family", sends: true, durability: cairn.PerStep, longest: 5, waits: true, consults: child, mate: mate, scout: scout},
	{name: "per-tool-family-typed", sends: true, durability: cairn.PerTool, longest: 5, typed: true, waits: true, consults: child, mate: mate, scout: scout},
	{name: "manual-family", durability: cairn.Manual, longest: 5, waits: true, consults: child, mate: mate, scout: scout},
}

// The agents below the roots of families.
const (
	child      = "per-tool-child"
	grandchild = "per-step-grandchild-typed"
	mate       = "per-step-mate"
	scout      = "per-tool-scout"
)

var relatives = []*kind{
	{name: grandchild, durability: cairn.PerStep, longest: 2, typed: true, waits: true},
	{name: child, sends: true, durability: cairn.PerTool, longest: 3, waits: true, consults: grandchild},
	{name: mate, sends: true, durability: cairn.PerStep, longest: 2, waits: true},
	{name: scout, sends: true, durability: cairn.PerTool, longest: 2, waits: true},
}

// kindOf returns the kind of an agent.
func kindOf(agent string) *kind {
	for _, k := range slices.Concat(kinds, relatives) {
		if k.name == agent {
			return k
		}
	}
	panic("no agent " + agent)
}

// draw draws a tool use.
func (k *kind) draw(rng *rand.Rand) use {
	if k.sends && rng.IntN(5) == 0 {
		return use{[]string{toolSend, toolSend, toolWire}[rng.IntN(3)], amount{rng.IntN(100)}}
	}
	plain := use{[]string{toolAdd, toolAdd, toolNote, toolMark, toolFail}[rng.IntN(5)], amount{rng.IntN(100)}}
	if !k.waits || rng.IntN(10) < 4 {
		return plain
	}
	name := strconv.Itoa(rng.IntN(2))
	switch n := rng.IntN(22); {
	case n < 12:
		tool := []string{toolPay, toolPay, toolPaySoon, toolPayIf, toolVote, toolAsk, toolAsk, toolAsk, toolAskSoon, toolPayIf, toolInquire, toolInquire}[n]
		return use{tool, amount{rng.IntN(100)}}
	case n < 16 && k.consults != "":
		return use{k.consults, task{"go on with it " + name}}
	case n < 18 && k.mate != "":
		return use{cairn.CompanionSpawn, message{Agent: k.mate, Name: "mate" + name, Message: "and then"}}
	case n < 19 && k.mate != "":
		tool := []string{cairn.CompanionWait, cairn.CompanionStatus}[rng.IntN(2)]
		return use{tool, message{Name: "mate" + name}}
	case n < 21 && k.scout != "":
		return use{cairn.CompanionSpawn, message{Agent: k.scout, Name: "scout" + name, Message: "and then"}}
	case k.scout != "":
		return use{cairn.CompanionSend, message{Name: "scout" + name, Message: "what else"}}
	}
	return plain
}

// Books is a store whose database has an additional table of the test. Tools add rows to it.
type Books interface {
	// Enter records, with a call, a statement that adds a row with the call's session, its id and a number.
	Enter(call *cairn.Call, n int) error
	// Entered returns the ids and numbers of a session's rows, in order.
	Entered(ctx context.Context, session string) (calls []string, numbers []int, err error)
}

// entersBooks reports whether a tool that adds a number to the ledger adds a row as well. Tools that do not leave
// steps that agents with deferred commits commit later.
func entersBooks(n int) bool { return n%2 == 0 }

// actors returns the agents. Their models and tools write to the journal, and to the books if there are any.
func actors(j *journal, books Books) []*cairn.Agent {
	made := map[string]*cairn.Agent{}
	var list []*cairn.Agent
	for _, k := range slices.Concat(relatives, kinds) { // children come before their parents
		a := &cairn.Agent{
			Name: k.name, Durability: k.durability, State: cairn.StateOf(ledger{}), Model: newModel(j, k),
			Retry: &cairn.RetryPolicy{First: time.Millisecond},
			Tools: []cairn.Tool{newTool(j, books, toolAdd), newTool(j, books, toolNote), newTool(j, books, toolMark), newTool(j, books, toolFail)},
		}
		if k.typed {
			a.Output = cairn.OutputOf[amount]()
		} else {
			a.Tools = append(a.Tools, newTool(j, books, toolClose, cairn.FinishWith()))
		}
		if k.waits {
			a.Tools = append(a.Tools, waitingTools(j, books)...)
		}
		if k.sends {
			a.Tools = append(a.Tools, effectfulTools(j)...)
		}
		if k.consults != "" {
			a.Tools = append(a.Tools, cairn.SubAgent(made[k.consults]))
		}
		if k.mate != "" {
			a.Companions = []cairn.Companion{{Agent: made[k.mate]}, {Agent: made[k.scout], Mode: cairn.NonBlocking}}
		}
		made[k.name] = a
		list = append(list, a)
	}
	return list
}

func waitingTools(j *journal, books Books) []cairn.Tool {
	odd := func(_ context.Context, _ *cairn.Call, in amount) (bool, error) { return in.N%2 == 1, nil }
	return []cairn.Tool{
		newTool(j, books, toolPay, cairn.RequireApproval()),
		newTool(j, books, toolPaySoon, cairn.RequireApproval(), cairn.WaitAtMost(soon)),
		newTool(j, books, toolPayIf, cairn.RequireApprovalIf(odd)),
		newTool(j, books, toolVote, cairn.RequireApproval(), cairn.AssignTo(cairn.MostReviewers, voters...)),
		newTool(j, books, toolInquire),
		cairn.ClientTool[amount, amount](toolAsk, "Asks a user."),
		cairn.ClientTool[amount, amount](toolAskSoon, "Asks a user who answers at once.", cairn.WaitAtMost(soon)),
	}
}

func newTool(j *journal, books Books, name string, opts ...cairn.ToolOption) cairn.Tool {
	return cairn.Func(name, "Adds to the ledger.", func(ctx context.Context, call *cairn.Call, in amount) (receipt, error) {
		j.write(record{Kind: toolStarted, Session: call.SessionID, Call: call.ID, Key: call.IdempotencyKey()})
		defer j.write(record{Kind: toolEnded, Session: call.SessionID, Call: call.ID, Key: call.IdempotencyKey()})
		timer := time.NewTimer(time.Duration(in.N%20) * 100 * time.Microsecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return receipt{}, ctx.Err()
		}
		if name == toolFail {
			return receipt{}, errors.New("failed " + strconv.Itoa(in.N))
		}
		s, err := cairn.State[ledger](call)
		if err != nil {
			return receipt{}, err
		}
		out := receipt{N: in.N, Total: s.Total + in.N}
		switch name {
		case toolMark:
			call.Checkpoint()
		case toolNote:
			err = call.AddContext(note(call.ID))
		}
		if books != nil && entersBooks(in.N) {
			err = errors.Join(err, books.Enter(call, in.N))
		}
		err = errors.Join(err,
			call.Append([]string{"entries"}, entry{call.ID, in.N}),
			call.Set([]string{"total"}, out.Total),
			call.Set([]string{"last"}, call.ID))
		if err == nil && name == toolInquire { // the writes of an execution that asks are discarded
			out.Answers, err = inquire(ctx, j, call, in.N)
		}
		return out, err
	}, opts...)
}

// inquiries is the number of questions that toolInquire asks, one after the other.
const inquiries = 2

// inquire asks the questions of a call and returns the answers, [unanswered] for those without one. For some calls
// the last question has a short deadline.
func inquire(ctx context.Context, j *journal, call *cairn.Call, n int) (answers []int, err error) {
	for i := range inquiries {
		var opts []cairn.ToolOption
		if i+1 == inquiries && n%4 == 0 {
			opts = append(opts, cairn.WaitAtMost(soon))
		}
		var a amount
		err := call.Ask(ctx, question(call.ID, i+1), nil, &a, opts...)
		if errors.Is(err, cairn.ErrDenied) || errors.Is(err, &cairn.Error{Code: cairn.ErrTimeout}) {
			a.N = unanswered
		} else if err != nil {
			return nil, err
		}
		j.write(record{Kind: learned, Session: call.SessionID, Call: call.ID, Number: i + 1, Learned: a.N})
		answers = append(answers, a.N)
	}
	return answers, nil
}

// unanswered is the answer that toolInquire records for a question without one.
const unanswered = -1

// question is the text of a call's question.
func question(callID string, number int) string {
	return fmt.Sprintf("question %d of %s", number, callID)
}

// note is the text of the context row that toolNote adds.
func note(callID string) string { return fmt.Sprint("noted ", callID) }

// writesLedger reports whether a tool adds to the ledger.
func writesLedger(tool string) bool {
	switch tool {
	case toolAdd, toolNote, toolMark, toolClose, toolPay, toolPaySoon, toolPayIf, toolVote, toolInquire:
		return true
	}
	return false
}
