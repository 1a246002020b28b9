// Package turn is the agent loop. The loop itself decides nothing but order: it does no I/O, reads no clock, draws no
// random number and ranges over no map. What happens is in the effects, plain functions that a host runs wherever it
// likes: at once, as activities of a workflow engine, as recorded steps. Effects pass ids, not payloads, and each is
// idempotent by run, step and call, because a durable host may run one more than once.
package turn

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
)

// The contract with hosts, by the names that it has among the rooms of the loop. Plan: Position → Planned. Tool: ToolIn →
// ToolOut. Child: ChildIn → ChildOut. Judge: Position → Judged. Commit: Position → Committed. Notify: Position → Notified.
type (
	Position  = host.Position
	Begun     = host.Run
	ToolIn    = host.Call
	Effect    = host.Effect
	Scheduler = host.Scheduler
)

// The names of the effects.
const (
	EffectPlan   = host.EffectPlan
	EffectTool   = host.EffectTool
	EffectChild  = host.EffectChild
	EffectJudge  = host.EffectJudge
	EffectCommit = host.EffectCommit
	EffectNotify = host.EffectNotify
)

// Planned is the outcome of a model call: which tools are to run.
type Planned struct {
	// Parallel are calls that run together, from the same state, and Children are those of sub-agents, which run beside
	// them. Finishing run after all of them, one by one, until one ends the turn.
	Parallel  []string `json:"parallel,omitempty"`
	Children  []string `json:"children,omitempty"`
	Finishing []string `json:"finishing,omitempty"`
	// Judge says that user code has a say in how the step ends.
	Judge bool `json:"judge,omitempty"`
}

// Judged is the outcome of asking user code how a step ends. What it says is kept for the commit.
type Judged struct{}

// ToolOut is the outcome of a call.
type ToolOut struct {
	// Finished says that the call ends the turn.
	Finished bool `json:"finished,omitempty"`
	// Waits says that the call has no result yet, because a user or another system must give one.
	Waits bool `json:"waits,omitempty"`
}

// ChildIn asks for a call that consults another agent to be taken further.
type ChildIn struct {
	ToolIn
	// Driven is the run of the other agent's session that was driven since the effect asked for it, if it did.
	Driven string `json:"driven,omitempty"`
	// Failed is why that run could not be driven to its end, or why the host has given the effect up, see GivenUp.
	Failed *cairn.Error `json:"failed,omitempty"`
}

// ChildOut is how far a call that consults another agent has come.
type ChildOut struct {
	ToolOut
	// Drive is a run of the other agent's session that is to be driven before the call continues.
	Drive *Begun `json:"drive,omitempty"`
	// Launch is a run of the other agent's session that is to be driven by itself, whether or not the effect failed. The
	// process that carried the effect out begins with that before it answers.
	Launch *Begun `json:"-"`
}

// Committed is the outcome of a step's end.
type Committed struct {
	host.Committed
	Ending
	// Whole says that the process is about to end, and that the store and the log have all that the run has done: it can be
	// released here.
	Whole bool `json:"-"`
}

// Notified is the outcome of notifying hooks of a run's end.
type Notified struct{ Ending }

// Ending is a run that has come to its end in this process, with the session as that left it. A run whose hooks are still to
// see its end has not. It stays in the process that carried the effect out.
type Ending struct {
	Run     *cairn.Run     `json:"-"`
	Session *cairn.Session `json:"-"`
}

// GivenUp returns the effect that a host is to carry out in place of one that it has tried as often as it may: that keeps why
// as what the model call, the call of a tool or the judgement of a step came to, and calls no user code. A commit cannot be
// given up.
func GivenUp(e Effect, why *cairn.Error) (instead Effect, ok bool) {
	in := ChildIn{Failed: why}
	switch {
	case e.Name == EffectPlan, e.Name == EffectJudge, e.Name == EffectNotify:
		in.Position = e.In.(Position)
	case e.Name == EffectTool:
		in.ToolIn = e.In.(ToolIn)
	case e.Name == EffectChild:
		in.ToolIn, in.Driven = e.In.(ChildIn).ToolIn, e.In.(ChildIn).Driven
	default:
		return e, false
	}
	return Effect{Name: e.Name, In: in, Out: e.Out}, true
}

// Loop drives a run from its last committed step to its end. An error means that the run could not be driven on, not
// that it failed: what was committed stands, and the run can be recovered.
func Loop(s Scheduler, b Begun) (Committed, error) {
	at := b.Position
	var plan Planned
	var end Committed
	for {
		at.Step++
		plan, end = Planned{}, Committed{}
		in := any(at)
		if err := s.Do(Effect{Name: EffectPlan, In: in, Out: &plan}); err != nil {
			return Committed{}, err
		}
		if err := tools(s, at, plan); err != nil {
			return Committed{}, err
		}
		if plan.Judge {
			if err := s.Do(Effect{Name: EffectJudge, In: in, Out: new(Judged)}); err != nil {
				return Committed{}, err
			}
		}
		if err := s.Do(Effect{Name: EffectCommit, In: in, Out: &end}); err != nil {
			return Committed{}, err
		}
		if end.Notify {
			if err := s.Do(Effect{Name: EffectNotify, In: in, Out: new(Notified)}); err != nil {
				return Committed{}, err
			}
		}
		if end.Ended {
			return end, nil
		}
	}
}

// tools runs the calls of a step. Those that would finish the turn are left for later while others wait.
func tools(s Scheduler, at Position, plan Planned) error {
	if len(plan.Parallel)+len(plan.Children) > 0 {
		if wait, err := together(s, at, plan); wait || err != nil {
			return err
		}
	}
	for _, id := range plan.Finishing {
		var out ToolOut
		if err := s.Do(Effect{Name: EffectTool, In: ToolIn{Position: at, CallID: id}, Out: &out}); err != nil {
			return err
		}
		if out.Finished {
			return nil
		}
	}
	return nil
}

// together runs the calls of a step that may run at the same time, and reports whether any of them waits.
func together(s Scheduler, at Position, plan Planned) (wait bool, err error) {
	outs := make([]ChildOut, len(plan.Parallel)+len(plan.Children))
	branch := func(s Scheduler, i int) error {
		if n := len(plan.Parallel); i >= n {
			return consult(s, ToolIn{Position: at, CallID: plan.Children[i-n]}, &outs[i])
		}
		return s.Do(Effect{Name: EffectTool, In: ToolIn{Position: at, CallID: plan.Parallel[i]}, Out: &outs[i].ToolOut})
	}
	if len(outs) == 1 {
		err = branch(s, 0)
	} else {
		err = s.All(len(outs), branch)
	}
	for i := range outs {
		wait = wait || outs[i].Waits
	}
	return wait, err
}

// consult takes a call that consults another agent to its end, or until that agent's session waits.
func consult(s Scheduler, call ToolIn, out *ChildOut) error {
	in := ChildIn{ToolIn: call}
	for {
		*out = ChildOut{}
		if err := s.Do(Effect{Name: EffectChild, In: in, Out: out}); err != nil || out.Drive == nil {
			return err
		}
		err := s.Child(call, *out.Drive)
		if err != nil && Lost(err) {
			return err
		}
		in.Driven, in.Failed = out.Drive.RunID, cairn.AsError(err)
	}
}

// Lost reports whether an error says nothing about a run but that its driver can do so no longer.
func Lost(err error) bool {
	for _, target := range []error{cairn.ErrUnavailable, cairn.ErrFenced, cairn.ErrClosed, context.Canceled} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
