// Package turn is the agent loop. The loop decides order and nothing else: it does no I/O, reads no clock, draws no
// random number and ranges over no map. The work is done by effects: plain functions that a host runs inline, as
// activities of a workflow engine, or as recorded steps. Effects pass ids, not payloads, and each is idempotent by run,
// step and call, because a durable host may run one more than once.
package turn

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
)

// The contract with hosts, under the names that the packages of the loop use.
type (
	Position  = host.Position
	Begun     = host.Run
	ToolIn    = host.Call
	Effect    = host.Effect
	Scheduler = host.Scheduler
)

// Kind is a kind of effect: its name, with the types of its input and output.
type Kind[In, Out any] struct{ Name string }

// The effects.
var (
	Plan   = Kind[Position, Planned]{host.EffectPlan}
	Tool   = Kind[ToolIn, ToolOut]{host.EffectTool}
	Child  = Kind[ChildIn, ChildOut]{host.EffectChild}
	Judge  = Kind[Position, Judged]{host.EffectJudge}
	Commit = Kind[Position, Committed]{host.EffectCommit}
	Notify = Kind[Position, Notified]{host.EffectNotify}
)

// input is the input of one or more effects, in the form that they share.
type input[In any] struct{ value any }

func in[In any](value In) input[In] { return input[In]{value} }

// do has a host carry out an effect. tool is the tool of a call, for display.
func (k Kind[In, Out]) do(s Scheduler, tool string, in input[In], out *Out) error {
	return s.Do(Effect{Name: k.Name, Tool: tool, In: in.value, Out: out})
}

// Planned is the output of Plan: the calls that the model's reply asks for.
type Planned struct {
	// Round has the calls that run first. Later has the rounds that follow, one after the other, each once all calls of
	// the rounds before it have results, until a call ends the turn.
	Round
	Later []Round `json:"later,omitempty"`
	// Tools are the names of the calls' tools, by call id.
	Tools map[string]string `json:"tools,omitempty"`
	// Judge reports whether user code has a say in how the step ends.
	Judge bool `json:"judge,omitempty"`
}

// Round lists calls that run concurrently, from the same state.
type Round struct {
	Parallel []string `json:"parallel,omitempty"`
	// Children lists the calls of sub-agents and companions, which run alongside the others.
	Children []string `json:"children,omitempty"`
}

// Judged is the output of Judge, which asks user code how a step ends. The answer is kept for the commit.
type Judged struct{}

// ToolOut is the output of Tool.
type ToolOut struct {
	// Finished reports whether the call ends the turn.
	Finished bool `json:"finished,omitempty"`
	// Waits reports whether the call has no result yet, because a user or another system must give one.
	Waits bool `json:"waits,omitempty"`
}

// ChildIn is the input of Child, which advances a call that consults another agent. It has the fields of every input.
type ChildIn struct {
	ToolIn
	// Driven is the id of the run of the other agent's session that was driven since the effect asked for it; empty if
	// it asked for none.
	Driven string `json:"driven,omitempty"`
	// Failed is why that run could not be driven to its end, or why the host abandoned the effect, see Instead.
	Failed *cairn.Error `json:"failed,omitempty"`
}

// ChildOut is the output of Child: how far a call that consults another agent got.
type ChildOut struct {
	ToolOut
	// Drive is a run of the other agent's session that must be driven before the call continues.
	Drive *Begun `json:"drive,omitempty"`
	// Launch is a run of the other agent's session that must be driven independently of the call, even if the effect
	// failed. The process that executed the effect starts driving it before it answers.
	Launch *Begun `json:"-"`
}

// Committed is the output of Commit.
type Committed struct {
	host.Committed
	Ending
	// Whole reports that the process is draining and that the store and the log have everything the run has done, so
	// the run can be released here.
	Whole bool `json:"-"`
}

// Notified is the output of Notify, which calls the hooks of a run's end.
type Notified struct{ Ending }

// Ending is a run that has ended in this process, with the session as the run left it. It is empty while hooks have yet
// to see the run's end. It stays in the process that executed the effect.
type Ending struct {
	Run     *cairn.Run     `json:"-"`
	Session *cairn.Session `json:"-"`
}

// Instead returns the effect that a host executes instead of one that has used up its attempts. It records why as the
// outcome of the model call, the tool call or the judgement of the step, and calls no user code. A commit cannot be
// abandoned.
func Instead(e Effect, why *cairn.Error) (instead Effect, ok bool) {
	in, ok := InputOf(e)
	if !ok || e.Name == Commit.Name {
		return e, false
	}
	in.Failed = why
	return Effect{Name: e.Name, Tool: e.Tool, In: in, Out: e.Out}, true
}

// InputOf returns an effect's input with the fields of every input. It reports false if it is none.
func InputOf(e Effect) (in ChildIn, ok bool) {
	switch of := e.In.(type) {
	case Position:
		in.Position = of
	case ToolIn:
		in.ToolIn = of
	case ChildIn:
		in = of
	default:
		return in, false
	}
	return in, true
}

// Loop drives a run from its last committed step to its end. An error means that the run could not be driven further,
// not that the run failed: committed steps stand, and the run can be recovered.
func Loop(s Scheduler, b Begun) (Committed, error) {
	var plan Planned
	var end Committed
	for {
		b.Step++
		plan, end = Planned{}, Committed{}
		at := in(b.Position)
		if err := Plan.do(s, "", at, &plan); err != nil {
			return Committed{}, err
		}
		if err := tools(s, b.Position, plan); err != nil {
			return Committed{}, err
		}
		if plan.Judge {
			if err := Judge.do(s, "", at, new(Judged)); err != nil {
				return Committed{}, err
			}
		}
		if err := Commit.do(s, "", at, &end); err != nil {
			return Committed{}, err
		}
		if end.Notify {
			if err := Notify.do(s, "", at, new(Notified)); err != nil {
				return Committed{}, err
			}
		}
		if end.Ended {
			return end, nil
		}
	}
}

// tools runs the calls of a step, round by round. The rounds after a call that is pending are left to the run that has
// its result, and those after a call that ends the turn are not run.
func tools(s Scheduler, at Position, plan Planned) error {
	last, err := together(s, at, plan.Round, plan.Tools)
	for i := 0; i < len(plan.Later) && !last && err == nil; i++ {
		last, err = together(s, at, plan.Later[i], plan.Tools)
	}
	return err
}

// together runs the calls of a round, whose tools have names. last reports whether no round may follow: a call is pending or ended the turn.
func together(s Scheduler, at Position, round Round, names map[string]string) (last bool, err error) {
	outs := make([]ChildOut, len(round.Parallel)+len(round.Children))
	branch := func(s Scheduler, i int) error {
		if n := len(round.Parallel); i >= n {
			id := round.Children[i-n]
			return consult(s, names[id], ToolIn{Position: at, CallID: id}, &outs[i])
		}
		id := round.Parallel[i]
		return Tool.do(s, names[id], in(ToolIn{Position: at, CallID: id}), &outs[i].ToolOut)
	}
	switch len(outs) {
	case 0:
	case 1:
		err = branch(s, 0)
	default:
		err = s.All(len(outs), branch)
	}
	for i := range outs {
		last = last || outs[i].Waits || outs[i].Finished
	}
	return last, err
}

// consult drives a call that consults another agent to its end, or until that agent's session is suspended.
func consult(s Scheduler, tool string, call ToolIn, out *ChildOut) error {
	ask := ChildIn{ToolIn: call}
	for {
		*out = ChildOut{}
		if err := Child.do(s, tool, in(ask), out); err != nil || out.Drive == nil {
			return err
		}
		err := s.Child(call, *out.Drive)
		if err != nil && Lost(err) {
			return err
		}
		ask.Driven, ask.Failed = out.Drive.RunID, cairn.AsError(err)
	}
}

// Lost reports whether an error means only that this driver can no longer drive the run. It says nothing about the run
// itself.
func Lost(err error) bool {
	for _, target := range []error{cairn.ErrUnavailable, cairn.ErrFenced, cairn.ErrClosed, context.Canceled} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
