package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
)

// recorder is a scheduler that plays a script and records what it was asked to do.
type recorder struct {
	plans    []Planned
	finishes map[string]bool // calls that end the turn
	waits    map[string]bool // calls that get no result
	// Runs of another agent's session that must be driven, one after the other.
	runs     []string
	children map[string]error // the errors of driving them
	fail     string           // the effect that fails
	steps    int              // the step that ends the run
	asked    []string
}

var errHost = errors.New("host trouble")

func (r *recorder) Do(e Effect) error {
	// A durable host keeps the input and the output as JSON.
	raw, err := json.Marshal(e.In)
	if err != nil {
		return err
	}
	var in ChildIn
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	name := fmt.Sprint(e.Name, " ", in.Step)
	if in.CallID != "" {
		name += " " + in.CallID
	}
	if in.Driven != "" {
		name += " after " + in.Driven
	}
	if in.Failed != nil {
		name += " failed"
	}
	r.asked = append(r.asked, name)
	if name == r.fail {
		return errHost
	}
	switch out := e.Out.(type) {
	case *Planned:
		*out = r.plans[in.Step-1]
	case *ToolOut:
		out.Finished, out.Waits = r.finishes[in.CallID], r.waits[in.CallID]
	case *ChildOut:
		if i := slices.Index(r.runs, in.Driven) + 1; i < len(r.runs) && in.Failed == nil {
			out.Drive = &Begun{Position: Position{RunID: r.runs[i]}}
		}
	case *Committed:
		if in.Step == r.steps {
			*out = Committed{Committed: host.Committed{Ended: true, Status: cairn.RunCompleted}}
		}
	}
	return nil
}

func (r *recorder) All(n int, branch func(Scheduler, int) error) error {
	r.asked = append(r.asked, fmt.Sprint("together ", n))
	var errs []error
	for i := range n {
		errs = append(errs, branch(r, i))
	}
	return errors.Join(errs...)
}

func (r *recorder) Child(of ToolIn, b Begun) error {
	r.asked = append(r.asked, fmt.Sprint("drive ", of.CallID, " ", b.RunID))
	return r.children[b.RunID]
}

func TestLoopOrdersTheEffects(t *testing.T) {
	t.Parallel()
	alone := func(id string) Round { return Round{Parallel: []string{id}} }
	plans := []Planned{{Round: alone("a")}, {Round: Round{Parallel: []string{"b", "c"}}, Later: []Round{alone("d"), alone("e"), alone("f")}}, {}}
	rounds := []Planned{{Round: Round{Parallel: []string{"a"}, Children: []string{"x"}}, Later: []Round{alone("s"), {Parallel: []string{"b", "c"}}}}}
	for name, c := range map[string]struct {
		host recorder
		from int
		want []string
		err  bool
	}{
		"a whole turn": {recorder{plans: plans, steps: 3}, 0, []string{"plan 1", "tool 1 a", "commit 1",
			"plan 2", "together 2", "tool 2 b", "tool 2 c", "tool 2 d", "tool 2 e", "tool 2 f", "commit 2", "plan 3", "commit 3"}, false},
		"rounds": {recorder{plans: rounds, steps: 1}, 0,
			[]string{"plan 1", "together 2", "tool 1 a", "child 1 x", "tool 1 s", "together 2", "tool 1 b", "tool 1 c", "commit 1"}, false},
		"no round after a call that waits": {recorder{plans: rounds, steps: 1, waits: map[string]bool{"s": true}}, 0,
			[]string{"plan 1", "together 2", "tool 1 a", "child 1 x", "tool 1 s", "commit 1"}, false},
		"no round after one in which a call waits": {recorder{plans: rounds, steps: 1, waits: map[string]bool{"a": true}}, 0,
			[]string{"plan 1", "together 2", "tool 1 a", "child 1 x", "commit 1"}, false},
		"a failing serial tool": {recorder{plans: rounds, fail: "tool 1 s"}, 0,
			[]string{"plan 1", "together 2", "tool 1 a", "child 1 x", "tool 1 s"}, true},
		"finishing stops at the first success": {recorder{plans: plans, steps: 2, finishes: map[string]bool{"e": true}}, 1,
			[]string{"plan 2", "together 2", "tool 2 b", "tool 2 c", "tool 2 d", "tool 2 e", "commit 2"}, false},
		"from the last committed step": {recorder{plans: plans, steps: 3}, 2, []string{"plan 3", "commit 3"}, false},
		"a failing plan":               {recorder{plans: plans, fail: "plan 1"}, 0, []string{"plan 1"}, true},
		"a failing tool":               {recorder{plans: plans, fail: "tool 1 a"}, 0, []string{"plan 1", "tool 1 a"}, true},
		"a failing parallel tool":      {recorder{plans: plans, fail: "tool 2 b"}, 1, []string{"plan 2", "together 2", "tool 2 b", "tool 2 c"}, true},
		"a failing finish":             {recorder{plans: plans, fail: "tool 2 d"}, 1, []string{"plan 2", "together 2", "tool 2 b", "tool 2 c", "tool 2 d"}, true},
		"a child": {recorder{plans: []Planned{{Round: Round{Children: []string{"x"}}}}, runs: []string{"r1", "r2"}, steps: 1}, 0,
			[]string{"plan 1", "child 1 x", "drive x r1", "child 1 x after r1", "drive x r2", "child 1 x after r2", "commit 1"}, false},
		"a child beside a tool": {recorder{plans: []Planned{{Round: Round{Parallel: []string{"a"}, Children: []string{"x"}}}}, steps: 1}, 0,
			[]string{"plan 1", "together 2", "tool 1 a", "child 1 x", "commit 1"}, false},
		"a child that fails": {recorder{plans: []Planned{{Round: Round{Children: []string{"x"}}}}, runs: []string{"r1", "r2"}, steps: 1,
			children: map[string]error{"r1": errors.New("no")}}, 0,
			[]string{"plan 1", "child 1 x", "drive x r1", "child 1 x after r1 failed", "commit 1"}, false},
		"a child that is lost": {recorder{plans: []Planned{{Round: Round{Children: []string{"x"}}}}, runs: []string{"r1"},
			children: map[string]error{"r1": fmt.Errorf("%w: %w", errHost, cairn.ErrFenced)}}, 0,
			[]string{"plan 1", "child 1 x", "drive x r1"}, true},
		"a failing commit": {recorder{plans: plans, fail: "commit 1"}, 0, []string{"plan 1", "tool 1 a", "commit 1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end, err := Loop(&c.host, Begun{Position: Position{SessionID: "s", RunID: "r", Step: c.from}})
			if !slices.Equal(c.host.asked, c.want) {
				t.Errorf("asked for %q, want %q", c.host.asked, c.want)
			}
			if errors.Is(err, errHost) != c.err || end.Ended == c.err {
				t.Errorf("end %+v, error %v", end, err)
			}
		})
	}
}
