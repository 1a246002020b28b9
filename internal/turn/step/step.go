package step

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/budget"
)

// Step is a step under way: the fold of its facts. Facts of different calls may be added concurrently; all other facts
// by one goroutine at a time.
type Step struct {
	Number int
	// ID identifies the step within its session.
	ID      string
	Opening *Opening
	// Reply is nil until the model has answered.
	Reply *Reply
	// Calls lists the calls of the reply, in its order. In a carried step it lists those that had no result when the
	// run began.
	Calls  []*Call
	Judged *Judgement
	// Spent is what models were paid for work that this step repeats.
	Spent Bill
	// Carried reports whether an earlier run committed the reply: the step was suspended, and this run continues it.
	Carried bool
	// Budget is the row of the call that asked to raise a budget, if an earlier run was suspended before the step's model
	// call; otherwise nil.
	Budget *cairn.PendingCall
	// Inherited reports whether a process died driving the step, so how far its calls got is unknown.
	Inherited bool

	tools [2][]cairn.Tool
	// Offered returns the tools of the agent's toolsets, given the messages that were added to the request for the
	// step; nil if it has no toolsets.
	Offered func(context []cairn.Message) []cairn.Tool
}

// ID returns the id of a run's step.
func ID(runID string, number int) string { return runID + "/" + strconv.Itoa(number) }

// New returns a step without facts. own and given are the tools of its agent.
func New(runID string, number int, own, given []cairn.Tool) *Step {
	return &Step{Number: number, ID: ID(runID, number), tools: [2][]cairn.Tool{own, given}}
}

// Carry makes s a continued step whose reply was committed when its run was suspended. open lists the uses that have no
// result yet.
func (s *Step) Carry(reply *cairn.Message, open []*cairn.ToolUse) {
	s.Carried = true
	s.Add(&Reply{Message: reply})
	s.Calls = slices.DeleteFunc(s.Calls, func(c *Call) bool { return !slices.Contains(open, c.Use) })
}

// Attach gives the step's calls the rows that the store has for them.
func (s *Step) Attach(rows []cairn.PendingCall) {
	for i := range rows {
		s.Add(&Row{&rows[i]})
	}
}

// Add adds a fact. It replaces what an earlier fact said of the same thing.
func (s *Step) Add(f Fact) {
	switch f := f.(type) {
	case *Opening:
		s.Opening = f
	case *Reply:
		s.Reply = f
		s.setCalls()
	case *Judgement:
		s.Judged = f
	case *Spent:
		s.Spent = s.Spent.Add(f.Usage)
	case *Started:
		if c := s.Call(f.CallID); c != nil {
			c.Starts = append(c.Starts, f)
		}
	case *Attempt:
		if c := s.Call(f.CallID); c != nil {
			c.Attempts = max(c.Attempts, f.Number)
		}
	case *Sent:
		if c := s.Call(f.CallID); c != nil && f.Number > c.Attempts {
			c.Sent, c.Attempts = f, f.Number
		}
	case *Wait:
		if c := s.Call(f.CallID); c != nil {
			c.Wait = f
			if f.Pending != nil {
				c.attach(f.Pending)
			}
		}
	case *Row:
		if f.Call.Kind == cairn.CallBudget {
			s.Budget = f.Call
		}
		if c := s.Call(inbox.ToolCall(f.Call)); c != nil {
			c.attach(f.Call)
		}
	case *Result:
		if c := s.Call(f.Result.CallID); c != nil {
			c.Result = f
		}
	}
}

// AddAll adds facts. It adds the reply before the facts of its calls.
func (s *Step) AddAll(facts []Staged) {
	for _, f := range facts {
		if _, ok := f.Fact.(*Reply); ok {
			s.Add(f.Fact)
		}
	}
	for _, f := range facts {
		if _, ok := f.Fact.(*Reply); !ok {
			s.Add(f.Fact)
		}
	}
}

func (s *Step) setCalls() {
	s.Calls = nil
	if s.Reply.Message == nil {
		return
	}
	n := 0
	for i := range s.Reply.Message.Parts {
		if s.Reply.Message.Parts[i].Type == cairn.PartToolUse {
			n++
		}
	}
	if n == 0 {
		return
	}
	var offered []cairn.Tool
	if s.Offered != nil {
		offered = s.Offered(s.Reply.Context)
	}
	s.Calls = make([]*Call, 0, n)
	for i := range s.Reply.Message.Parts {
		if p := &s.Reply.Message.Parts[i]; p.Type == cairn.PartToolUse {
			c := &Call{Use: p.ToolUse, Cut: cutOf(s.Reply.Message, p.ToolUse), Off: slices.Contains(s.Reply.Refused, p.ToolUse.CallID)}
			if !c.Off {
				if c.Tool = s.tool(p.ToolUse.Tool, offered); p.ToolUse.Awaits != nil {
					c.Tool = define.Awaiting(p.ToolUse)
				}
			}
			s.Calls = append(s.Calls, c)
		}
	}
	s.setRounds()
}

// IsCut reports whether the arguments of a use were cut, because the model stopped before its reply was done. Such
// arguments are stored as a JSON string, which no schema accepts.
func IsCut(m *cairn.Message, use *cairn.ToolUse) bool {
	return m.Cut != "" && bytes.HasPrefix(use.Input, []byte(`"`))
}

// cutOf returns what has cut the arguments of a use; empty if they are complete.
func cutOf(m *cairn.Message, use *cairn.ToolUse) cairn.FinishReason {
	if IsCut(m, use) {
		return m.Cut
	}
	return ""
}

// setRounds divides the calls into rounds, in call order. A serial call has a round of its own, and so has each call
// that may finish the turn, after all others.
func (s *Step) setRounds() {
	n, shared := 0, false
	for _, c := range s.Calls {
		if c.Finishing() {
			continue
		}
		serial := c.Tool != nil && c.Tool.Serial
		if serial && shared {
			n++
		}
		c.Round, shared = n, !serial
		if serial {
			n++
		}
	}
	if shared {
		n++
	}
	for _, c := range s.Calls {
		if c.Finishing() {
			c.Round = n
			n++
		}
	}
}

// Effects returns the rows that the step's calls have in the ledger of effects.
func (s *Step) Effects() (rows []cairn.PendingCall) {
	for _, c := range s.Calls {
		if row := c.Ledger(); row != nil && row.Effect != nil {
			rows = append(rows, *row)
		}
	}
	return rows
}

// Order returns the calls in the order in which their writes take effect: by rounds, and within a round in call order.
func (s *Step) Order() []*Call {
	byRound := func(a, b *Call) int { return a.Round - b.Round }
	if slices.IsSortedFunc(s.Calls, byRound) {
		return s.Calls
	}
	list := slices.Clone(s.Calls)
	slices.SortStableFunc(list, byRound)
	return list
}

// tool returns the agent's tool of a name, or nil.
func (s *Step) tool(name string, offered []cairn.Tool) *define.Tool {
	for _, list := range [][]cairn.Tool{s.tools[0], s.tools[1], offered} {
		if t := define.ToolOf(list, name); t != nil {
			return t
		}
	}
	return nil
}

// Call returns the call of an id, or nil.
func (s *Step) Call(id string) *Call {
	for _, c := range s.Calls {
		if c.Use.CallID == id {
			return c
		}
	}
	return nil
}

// Planned reports whether the model call is over, with an answer or without.
func (s *Step) Planned() bool { return s.Reply != nil }

// Message returns the model's answer, or nil.
func (s *Step) Message() *cairn.Message {
	if s.Reply == nil {
		return nil
	}
	return s.Reply.Message
}

// Passed returns the events of another server that the model passed on.
func (s *Step) Passed() []cairn.Event {
	if s.Reply == nil {
		return nil
	}
	return s.Reply.Passed
}

// Failed returns why the model call failed, or nil.
func (s *Step) Failed() *cairn.Error {
	if s.Reply == nil {
		return nil
	}
	return s.Reply.Failed
}

// Plan lists the calls that have no result yet.
func (s *Step) Plan() turn.Planned {
	var p turn.Planned
	at, number := &p.Round, -1
	for _, c := range s.Order() {
		if c.Result != nil && !c.Done() {
			continue
		}
		if p.Tools == nil {
			p.Tools = map[string]string{}
		}
		p.Tools[c.Use.CallID] = c.Use.Tool
		switch {
		case number < 0:
			number = c.Round
		case c.Round != number:
			p.Later, number = append(p.Later, turn.Round{}), c.Round
			at = &p.Later[len(p.Later)-1]
		}
		if c.Delegates() {
			at.Children = append(at.Children, c.Use.CallID)
		} else {
			at.Parallel = append(at.Parallel, c.Use.CallID)
		}
	}
	return p
}

// Waits reports whether calls of the step are pending, or would be had their answer not come so early.
func (s *Step) Waits() bool {
	return s.Limit() != nil || slices.ContainsFunc(s.Calls, func(c *Call) bool { return c.Waits() || c.ready() })
}

// Limit returns the row of the call that asks to raise a budget before the step's model call; nil if none is used up.
func (s *Step) Limit() *cairn.PendingCall {
	if s.Reply == nil {
		return nil
	}
	return s.Reply.Limit
}

// EndedByBudget reports whether the turn is to end because a person did not raise its budget, and it is still the same
// period.
func (s *Step) EndedByBudget() bool {
	return s.Budget != nil && !budget.Raises(s.Budget) && !budget.Renewed(s.Budget)
}

// Delegates reports whether any call is one of a sub-agent or a companion.
func (s *Step) Delegates() bool { return slices.ContainsFunc(s.Calls, (*Call).Delegates) }

// WouldSend reports whether the step will have effectful calls once a reply is added.
func (s *Step) WouldSend(r *Reply) bool {
	if r.Message == nil {
		return false
	}
	var offered []cairn.Tool
	if s.Offered != nil {
		offered = s.Offered(r.Context)
	}
	return slices.ContainsFunc(r.Message.Parts, func(p cairn.Part) bool {
		if p.Type != cairn.PartToolUse || slices.Contains(r.Refused, p.ToolUse.CallID) {
			return false
		}
		t := s.tool(p.ToolUse.Tool, offered)
		return t != nil && t.Effectful
	})
}

// WouldDelegate reports whether the step will delegate once a reply is added.
func (s *Step) WouldDelegate(r *Reply) bool {
	if r.Message == nil {
		return false
	}
	return slices.ContainsFunc(r.Message.Parts, func(p cairn.Part) bool {
		if p.Type != cairn.PartToolUse || slices.Contains(r.Refused, p.ToolUse.CallID) {
			return false
		}
		t := s.tool(p.ToolUse.Tool, nil) // a toolset offers none that do
		return t != nil && (t.Delegates())
	})
}

// Begun reports whether a call without a result may have had effects: its tool was called, the agent that it consults
// was started, or a process that died may have reached it.
func (s *Step) Begun(c *Call) bool {
	switch {
	case c.Consults():
		return c.Announced() || s.Carried && len(c.Rows()) == 0
	case c.Attempts > 0 || c.Continues():
		return true
	case c.Tool != nil && c.Tool.Effectful: // its start would have been staged
		return false
	case !s.Inherited || c.Tool == nil || c.Tool.Func == nil || c.Row != nil && c.Row.Status != cairn.CallAnswered:
		return false
	}
	return !slices.ContainsFunc(s.Calls, func(other *Call) bool {
		return other.Round < c.Round && (other.Result == nil || other.Result.Closed)
	})
}

// Below returns what a call sees on top of the session's state: the writes of the hooks before it, and those of the
// calls of earlier rounds. With a nil call it returns the hooks' writes only. Empty writes are left out.
func (s *Step) Below(c *Call) (below []*Writes) {
	if s.Opening != nil && !s.Opening.Writes.Empty() {
		below = append(below, &s.Opening.Writes)
	}
	if s.Reply != nil && !s.Reply.Writes.Empty() {
		below = append(below, &s.Reply.Writes)
	}
	if c == nil || c.Round == 0 {
		return below
	}
	for _, other := range s.Order() {
		if other.Round >= c.Round { // it may run now
			continue
		}
		if w := other.Writes(); !w.Empty() {
			below = append(below, w)
		}
	}
	return below
}

// WaitReason is why a step that waits suspends its run.
func (s *Step) WaitReason() cairn.Reason {
	own, children, results := 0, 0, 0
	for _, c := range s.Calls {
		switch {
		case c.Result != nil:
			results++
		case !c.Waits():
		case c.awaitsChild():
			children++
		default:
			own++
		}
	}
	switch {
	case own == 0 && children > 0:
		return cairn.ReasonChildren
	case results+children > 0:
		return cairn.ReasonStepPartial
	}
	return cairn.ReasonCalls
}

// Opens sets the deadlines of the calls that are opened at a time, by the session's clock, from which they count.
func (s *Step) Opens(at time.Time) {
	for _, p := range s.open() {
		if (p.Version == 0 || p.Kind == cairn.CallEffect) && p.WaitAtMost > 0 && p.Deadline.IsZero() {
			p.Deadline = at.Add(time.Duration(p.WaitAtMost)).Truncate(time.Microsecond)
		}
	}
}

// open returns the rows that are still unanswered.
func (s *Step) open() (rows []*cairn.PendingCall) {
	if p := s.Limit(); p != nil {
		rows = append(rows, p)
	}
	for _, c := range s.Calls {
		if p := c.Open(); p != nil {
			rows = append(rows, p)
		}
	}
	return rows
}

// Suspension returns what the step waits for, under the id of the step that opened its calls.
func (s *Step) Suspension(openedBy string) *cairn.Suspension {
	w := &cairn.Suspension{StepID: openedBy}
	if p := s.Limit(); p != nil {
		w.Calls = append(w.Calls, p.CallRef)
	}
	for _, c := range s.Calls {
		switch {
		case !c.Waits():
		case c.awaitsChild():
			w.Children = append(w.Children, *c.Wait.Child)
			w.Calls = append(w.Calls, c.Wait.Waiting.Calls...)
		default:
			w.Calls = append(w.Calls, c.Open().CallRef)
		}
	}
	return w
}

// ConsultsCompanion reports whether a tool is one of those that give a companion work.
func ConsultsCompanion(tool string) bool {
	return tool == cairn.CompanionSpawn || tool == cairn.CompanionSend
}

// RanChild reports whether the call, which has its result, ran another agent's session, in this run or an earlier one.
func (s *Step) RanChild(c *Call) bool {
	return c.Consults() && (s.Carried && len(c.Rows()) == 0 || c.Result.Result.Background != "" ||
		c.Result.Consulted != nil && c.Result.Consulted.Status != "" ||
		slices.ContainsFunc(c.Starts, func(s *Started) bool { return s.Run != nil }))
}

// CheckpointID returns the id of the checkpoint that a step of a run makes.
func CheckpointID(runID string, number int) string {
	return "cp_" + strings.TrimPrefix(runID, "run_") + "_" + strconv.Itoa(number)
}
