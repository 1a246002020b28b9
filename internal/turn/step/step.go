package step

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn"
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
	Spent cairn.Usage
	// Carried reports whether an earlier run committed the reply: the step was suspended, and this run continues it.
	Carried bool
	// Inherited reports whether a process died driving the step, so how far its calls got is unknown.
	Inherited bool

	tools [2][]cairn.Tool
	// Offered returns the tools of the agent's toolsets, given the messages that were added to the request for the
	// step; nil if it has no toolsets.
	Offered func(context []cairn.Message) []cairn.Tool
}

// Call is a call of a step: the fold of its facts.
type Call struct {
	Use *cairn.ToolUse
	// Tool is the agent's current tool of that name; nil for an unknown tool, one that is off, and for __finish__.
	Tool *define.Tool
	// Off reports whether the tool was switched off when the model was asked.
	Off bool
	// Round is when the call runs, see [turn.Planned]: after all calls of earlier rounds, whose writes it sees.
	Round int
	// Cut is why the arguments are incomplete; empty if they are complete.
	Cut cairn.FinishReason
	// Row is the row of an approval or of a client tool's call, pending or answered; its Version is 0 until it is
	// committed. Asked lists the rows of the tool's questions, in order.
	Row   *cairn.PendingCall
	Asked []*cairn.PendingCall
	// Starts lists the starts of the other agent's session, the latest last.
	Starts []*Started
	// Published reports whether this process has published the call's start.
	Published bool
	// Attempts counts the known attempts at its tool.
	Attempts int
	// Wait is why the call has, or had, no result.
	Wait *Wait
	// Moved reports whether the session that the call waits for is no longer suspended, because another call gave it
	// work.
	Moved bool
	// Result is nil until the call has a result.
	Result *Result
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
	case *Wait:
		if c := s.Call(f.CallID); c != nil {
			c.Wait = f
			if f.Pending != nil {
				c.attach(f.Pending)
			}
		}
	case *Row:
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
	return slices.ContainsFunc(s.Calls, func(c *Call) bool { return c.Waits() || c.ready() })
}

// Delegates reports whether any call is one of a sub-agent or a companion.
func (s *Step) Delegates() bool { return slices.ContainsFunc(s.Calls, (*Call).Delegates) }

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
	for _, c := range s.Calls {
		if p := c.Open(); p != nil && p.Version == 0 && p.WaitAtMost > 0 && p.Deadline.IsZero() {
			p.Deadline = at.Add(time.Duration(p.WaitAtMost)).Truncate(time.Microsecond)
		}
	}
}

// Suspension returns what the step waits for, under the id of the step that opened its calls.
func (s *Step) Suspension(openedBy string) *cairn.Suspension {
	w := &cairn.Suspension{StepID: openedBy}
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

// Done reports whether the turn ends with the call.
func (c *Call) Done() bool { return c.Result != nil && c.Result.Completion != nil }

// Finishing reports whether the call may end the turn.
func (c *Call) Finishing() bool {
	return c.Use.Tool == cairn.FinishTool || c.Tool != nil && c.Tool.Finishes
}

// Ends reports whether the call of an agent ends the turn if it succeeds.
func (c *Call) Ends(a *cairn.Agent) bool {
	return c.Use.Tool == cairn.FinishTool && a.Output != nil || c.Tool != nil && c.Tool.Finishes
}

// Delegates reports whether the call is one of a sub-agent or a companion.
func (c *Call) Delegates() bool {
	return c.Tool != nil && (c.Tool.Delegates())
}

// Child returns the reference to the session that the call consults.
func (c *Call) Child(sessionID, agent string) *cairn.ChildRef {
	kind := cairn.ChildCompanion
	if c.Tool != nil && c.Tool.Agent != nil {
		kind = cairn.ChildSubAgent
	}
	return &cairn.ChildRef{CallID: c.Use.CallID, SessionID: sessionID, Agent: agent, Kind: kind}
}

// Consults reports whether the call gives an agent work.
func (c *Call) Consults() bool {
	return c.Delegates() && (c.Tool.Agent != nil || ConsultsCompanion(c.Use.Tool))
}

// ConsultsCompanion reports whether a tool is one of those that give a companion work.
func ConsultsCompanion(tool string) bool {
	return tool == cairn.CompanionSpawn || tool == cairn.CompanionSend
}

// Started returns the latest start of the consultation, or nil.
func (c *Call) Started() *Started {
	if n := len(c.Starts); n > 0 {
		return c.Starts[n-1]
	}
	return nil
}

// Announced reports whether hooks were called for the consultation and the log has it.
func (c *Call) Announced() bool {
	return slices.ContainsFunc(c.Starts, func(s *Started) bool { return s.Announced })
}

// RanChild reports whether the call, which has its result, ran another agent's session, in this run or an earlier one.
func (s *Step) RanChild(c *Call) bool {
	return c.Consults() && (s.Carried && len(c.Rows()) == 0 || c.Result.Result.Background != "" ||
		c.Result.Consulted != nil && c.Result.Consulted.Status != "" ||
		slices.ContainsFunc(c.Starts, func(s *Started) bool { return s.Run != nil }))
}

// HandedOver returns the run with the given id that was handed over to be driven, or nil.
func (c *Call) HandedOver(runID string) *turn.Begun {
	for _, s := range c.Starts {
		if s.Run != nil && s.Run.RunID == runID {
			return s.Run
		}
	}
	return nil
}

// Waits reports whether the call has no result because an answer from outside is pending.
func (c *Call) Waits() bool {
	return c.Result == nil && (c.awaitsChild() && !c.Moved || c.Open() != nil)
}

// Continues reports whether the tool asked a question in an earlier run, whose log has the call's start.
func (c *Call) Continues() bool { return len(c.Asked) > 0 && c.Asked[0].Version > 0 }

// attach makes a row the call's own, or that of one of its questions.
func (c *Call) attach(row *cairn.PendingCall) {
	if !row.Kind.Asked() {
		c.Row = row
		return
	}
	at, there := slices.BinarySearchFunc(c.Asked, row.Number, func(q *cairn.PendingCall, n int) int { return q.Number - n })
	if there {
		c.Asked[at] = row
	} else {
		c.Asked = slices.Insert(c.Asked, at, row)
	}
}

// Rows returns the rows that the call has in the table of calls, in the order in which they were opened.
func (c *Call) Rows() []*cairn.PendingCall {
	if c.Row == nil {
		return c.Asked
	}
	return append([]*cairn.PendingCall{c.Row}, c.Asked...)
}

// Open returns the row that is still unanswered, or nil. A call has at most one.
func (c *Call) Open() *cairn.PendingCall {
	if n := len(c.Asked); n > 0 && c.Asked[n-1].Status == cairn.CallOpen {
		return c.Asked[n-1]
	}
	if c.Row != nil && c.Row.Status == cairn.CallOpen {
		return c.Row
	}
	return nil
}

// ready reports whether the call has no result yet although its answer has arrived: it came after the call's effect.
func (c *Call) ready() bool {
	return c.Result == nil && (c.Moved || slices.ContainsFunc(c.Rows(), func(p *cairn.PendingCall) bool { return p.Status == cairn.CallAnswered }))
}

// awaitsChild reports whether the call waits, or waited, for a suspended session.
func (c *Call) awaitsChild() bool { return c.Wait != nil && c.Wait.Waiting != nil }

// AwaitsCompanion returns the session id of the companion that the call waits for, or "".
func (c *Call) AwaitsCompanion() string {
	if !c.Waits() || !c.awaitsChild() || c.Tool == nil || !c.Tool.Companion {
		return ""
	}
	return c.Wait.Child.SessionID
}

// AwaitsChild reports whether the call waits for another session.
func (c *Call) AwaitsChild() bool { return c.Result == nil && c.awaitsChild() }

// Input returns the arguments that the call's tool runs with: the model's, unless the approving reviewer changed them.
func (c *Call) Input() json.RawMessage {
	if edited := c.Edited(); edited != nil {
		return edited
	}
	return c.Use.Input
}

// Edited returns the arguments with which the approving reviewer replaced the model's; nil if they are unchanged.
func (c *Call) Edited() json.RawMessage {
	if c.Row == nil || c.Row.Answer == nil || c.Row.Answer.Kind != cairn.DecisionApproved || len(c.Row.Answer.Value) == 0 {
		return nil
	}
	was, err := ops.Canonical(c.Use.Input)
	if is, failed := ops.Canonical(c.Row.Answer.Value); err == nil && failed == nil && bytes.Equal(is, was) {
		return nil
	}
	return c.Row.Answer.Value
}

// Writes returns what the call's hooks and its tool have written so far; nil if nothing.
func (c *Call) Writes() *Writes {
	switch {
	case c.Result != nil:
		return &c.Result.Writes
	case c.Wait != nil:
		return &c.Wait.Writes
	case len(c.Starts) > 0:
		return &c.Started().Writes
	}
	return nil
}

// CheckpointID returns the id of the checkpoint that a step of a run makes.
func CheckpointID(runID string, number int) string {
	return "cp_" + strings.TrimPrefix(runID, "run_") + "_" + strconv.Itoa(number)
}
