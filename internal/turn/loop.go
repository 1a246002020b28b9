// Package turn is the agent loop. The loop itself decides nothing but order: it does no I/O, reads no clock, draws no
// random number and ranges over no map. What happens is in the effects, plain functions that a host runs wherever it
// likes: at once, as activities of a workflow engine, as recorded steps. Effects pass ids, not payloads, and each is
// idempotent by run, step and call, because a durable host may run one more than once.
package turn

import "github.com/cairn-agents/cairn"

// Position says which step of which run an effect works on, and under which lease.
type Position struct {
	SessionID string `json:"session_id"`
	Agent     string `json:"agent"`
	RunID     string `json:"run_id"`
	Token     int64  `json:"token"`
	Step      int    `json:"step"`
}

// Begun is the outcome of beginning or recovering a run.
type Begun struct {
	Position
	// RootID is the session whose log the run writes to.
	RootID        string `json:"root_id"`
	Turn          int    `json:"turn"`
	StartSequence int64  `json:"start_sequence"`
}

// Planned is the outcome of a model call: which tools are to run.
type Planned struct {
	// Parallel are calls that run together, from the same state, and Children are those of sub-agents, which run beside
	// them. Finishing run after all of them, one by one, until one ends the turn.
	Parallel  []string `json:"parallel,omitempty"`
	Children  []string `json:"children,omitempty"`
	Finishing []string `json:"finishing,omitempty"`
}

// ToolIn asks for one call to be run.
type ToolIn struct {
	Position
	CallID string `json:"call_id"`
}

// ToolOut is the outcome of a call.
type ToolOut struct {
	// Finished says that the call ends the turn.
	Finished bool `json:"finished,omitempty"`
	// Waits says that the call has no result yet, because somebody outside must give one.
	Waits bool `json:"waits,omitempty"`
}

// Committed is the outcome of a step's end.
type Committed struct {
	// Ended says that the run is over, or suspended.
	Ended  bool            `json:"ended,omitempty"`
	Status cairn.RunStatus `json:"status,omitempty"`
}

// The names of the effects.
const (
	EffectPlan   = "plan"
	EffectTool   = "tool"
	EffectChild  = "child"
	EffectCommit = "commit"
)

// Effect is one thing to be done: its name, its input and where its output goes, both of which encode as JSON.
// Plan: Position → Planned. Tool and Child: ToolIn → ToolOut. Commit: Position → Committed.
type Effect struct {
	Name string
	In   any
	Out  any
}

// Scheduler runs effects for the loop.
type Scheduler interface {
	// Do runs one effect.
	Do(Effect) error
	// All runs several at once and returns when every one has ended, with the first error by position.
	All([]Effect) error
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
		if err := s.Do(Effect{EffectPlan, in, &plan}); err != nil {
			return Committed{}, err
		}
		if err := tools(s, at, plan); err != nil {
			return Committed{}, err
		}
		if err := s.Do(Effect{EffectCommit, in, &end}); err != nil {
			return Committed{}, err
		}
		if end.Ended {
			return end, nil
		}
	}
}

// tools runs the calls of a step. Those that would finish the turn are left for later while others wait.
func tools(s Scheduler, at Position, plan Planned) error {
	outs := make([]ToolOut, len(plan.Parallel)+len(plan.Children))
	batch := make([]Effect, 0, len(outs))
	for _, id := range plan.Parallel {
		batch = append(batch, Effect{EffectTool, ToolIn{at, id}, &outs[len(batch)]})
	}
	for _, id := range plan.Children {
		batch = append(batch, Effect{EffectChild, ToolIn{at, id}, &outs[len(batch)]})
	}
	if err := together(s, batch); err != nil {
		return err
	}
	for i := range outs {
		if outs[i].Waits {
			return nil
		}
	}
	for _, id := range plan.Finishing {
		var out ToolOut
		if err := s.Do(Effect{EffectTool, ToolIn{at, id}, &out}); err != nil {
			return err
		}
		if out.Finished {
			return nil
		}
	}
	return nil
}

func together(s Scheduler, batch []Effect) error {
	switch len(batch) {
	case 0:
		return nil
	case 1:
		return s.Do(batch[0])
	}
	return s.All(batch)
}
