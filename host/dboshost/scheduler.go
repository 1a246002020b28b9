package dboshost

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
)

// scheduler drives one run as a workflow.
type scheduler struct {
	h   *Host
	ctx dbos.Context // the workflow's
	d   *drive
	at  host.Position
}

// Names of steps that are not effects.
const (
	stepChild = "child-run"
	stepNext  = "next"
)

func (s scheduler) Do(e host.Effect) error {
	ended, err := s.effect(e)
	if err != nil {
		return err
	}
	return s.result(ended, e.Out)
}

func (s scheduler) Child(_ host.Call, b host.Run) error {
	ended, err := s.child(b)
	if err != nil {
		return err
	}
	return s.result(ended, nil)
}

// effect begins a step that carries out an effect.
func (s scheduler) effect(e host.Effect) (<-chan dbos.StepOutcome[outcome], error) {
	in, err := json.Marshal(e.In)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInternal, "effect %s: %w", e.Name, err)
	}
	name := e.Name
	if e.Tool != "" {
		name += " " + e.Tool
	}
	return s.step(name, func(ctx context.Context) (outcome, error) { return s.h.effect(ctx, s.d, e.Name, in) })
}

// child begins a child workflow and a step that waits for it.
func (s scheduler) child(b host.Run) (<-chan dbos.StepOutcome[outcome], error) {
	id, err := s.h.workflowID(context.WithoutCancel(s.ctx), b)
	if err != nil {
		return nil, err
	}
	d := s.h.driving(id)
	w, err := dbos.RunWorkflow(s.ctx, s.h.turn, b, named(id, b)...)
	if err != nil {
		s.h.ended(id, d, outcome{}, err)
		return nil, s.lost(err)
	}
	if began := w.GetWorkflowID(); began != id { // begun under another lease, before this replay
		s.h.ended(id, d, outcome{}, nil)
		id, d = began, nil
	}
	return s.step(stepChild, func(ctx context.Context) (outcome, error) { return s.h.await(ctx, s.d, s.at, id, d) })
}

// step begins a step. It takes the workflow's next step id before it returns.
func (s scheduler) step(name string, do dbos.Step[outcome]) (<-chan dbos.StepOutcome[outcome], error) {
	ended, err := dbos.Go(s.ctx, do, dbos.WithStepName(name))
	if err != nil {
		return nil, s.lost(err)
	}
	return ended, nil
}

// lost returns the error for an operation that DBOS did not carry out.
func (s scheduler) lost(err error) error {
	switch {
	case s.ctx.Err() != nil:
		return cairn.Errorf(cairn.ErrClosed, "host is closed: %w", err)
	case errors.Is(err, dbos.ErrWorkflowCancelled): // by the process that took the run over, or by hand
		return cairn.Errorf(cairn.ErrFenced, "the workflow was cancelled: %w", err)
	}
	return unavailable(err)
}

// result waits for a step and decodes its output.
func (s scheduler) result(ended <-chan dbos.StepOutcome[outcome], out any) error {
	step := <-ended
	switch {
	case step.Err != nil:
		return s.lost(step.Err)
	case step.Result.Err != nil:
		return step.Result.Err
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(step.Result.Out, out); err != nil {
		return cairn.Errorf(cairn.ErrInternal, "decode output of a step: %w", err)
	}
	return nil
}

// All runs the branches in goroutines but hands out step ids in an order that a replay repeats: first in the order of
// the branches, then in the order in which they ask for their next step, which is recorded as a step each time. Most
// branches are one tool call and ask only once.
func (s scheduler) All(n int, branch func(host.Scheduler, int) error) error {
	j := junction{scheduler: s, asked: make(chan ask), waiting: make([]*ask, n), live: n}
	errs := make([]error, n)
	for i := range n {
		go func() {
			errs[i] = branch(lane{j.scheduler, i, j.asked}, i)
			j.asked <- ask{branch: i}
		}()
	}
	for range n {
		j.collect()
	}
	for i := range n {
		j.answer(i)
	}
	for j.live > 0 {
		if j.count == 0 {
			j.collect()
			continue
		}
		j.answer(j.next())
	}
	return errors.Join(errs...)
}

// ask is a branch's message to its workflow: a step to begin, or, with a nil begin, that the branch has ended.
type ask struct {
	branch int
	begin  func() error
	begun  chan error
}

// junction is where branches wait for their turn to take a step id.
type junction struct {
	scheduler
	asked   chan ask
	waiting []*ask // by branch
	count   int    // waiting
	live    int    // not ended
	err     error  // why no further step begins
}

// collect waits until a branch asks for a step or ends.
func (j *junction) collect() {
	a := <-j.asked
	switch {
	case a.begin == nil:
		j.live--
	case j.err != nil:
		a.begun <- j.err
	default:
		j.waiting[a.branch] = &a
		j.count++
	}
}

// answer begins the step that a branch asks for, if any.
func (j *junction) answer(i int) {
	if a := j.waiting[i]; a != nil {
		j.waiting[i] = nil
		j.count--
		a.begun <- a.begin()
	}
}

// next returns the branch whose turn it is. In a replay that branch may not have asked yet.
func (j *junction) next() int {
	i, err := dbos.RunAsStep(j.ctx, func(context.Context) (int, error) {
		for i, a := range j.waiting {
			if a != nil {
				return i, nil
			}
		}
		return 0, cairn.Errorf(cairn.ErrInternal, "no branch is waiting")
	}, dbos.WithStepName(stepNext))
	if err != nil {
		err = j.lost(err)
	}
	if err == nil && (i < 0 || i >= len(j.waiting)) {
		err = cairn.Errorf(cairn.ErrInternal, "unknown branch %d", i)
	}
	for err == nil && j.waiting[i] == nil {
		if j.live == j.count {
			err = cairn.Errorf(cairn.ErrInternal, "branch %d requests a different step than before", i)
			break
		}
		j.collect()
	}
	if err == nil {
		return i
	}
	j.err = err
	for k, a := range j.waiting {
		if a != nil {
			j.waiting[k] = nil
			j.count--
			a.begun <- err
		}
	}
	return 0
}

// lane is the scheduler of one branch.
type lane struct {
	scheduler
	branch int
	asked  chan<- ask
}

func (l lane) Do(e host.Effect) error {
	return l.await(e.Out, func() (<-chan dbos.StepOutcome[outcome], error) { return l.effect(e) })
}

func (l lane) Child(_ host.Call, b host.Run) error {
	return l.await(nil, func() (<-chan dbos.StepOutcome[outcome], error) { return l.child(b) })
}

// await begins a step when it is the branch's turn, and waits for its result.
func (l lane) await(out any, begin func() (<-chan dbos.StepOutcome[outcome], error)) error {
	var ended <-chan dbos.StepOutcome[outcome]
	begun := make(chan error)
	l.asked <- ask{l.branch, func() (err error) { ended, err = begin(); return err }, begun}
	if err := <-begun; err != nil {
		return err
	}
	return l.result(ended, out)
}
