package main

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"
)

// contender is a system in the comparison.
type contender struct {
	name string
	on   server
	system
}

// plan defines the measurements.
type plan struct {
	lengths []int // lengths of history in messages, even numbers
	writers []int
	steps   int           // minimum number of steps left to a writer at its system's turn
	rounds  int           // number of rounds, of which the median counts
	slice   time.Duration // time that a system runs per round
	budget  time.Duration // time for a system per cell, including filling, after which it gets no further round
}

// room is the number of steps that may be added to a session with a history of n messages, so that its history
// keeps about the same length.
func room(n int) int { return max(10, n/20) }

// storageTime is how long a system may write to measure the bytes per step; it stops at the plan's number of steps.
const storageTime = 2 * time.Second

// results are the measurements of a plan.
type results struct {
	plan  plan
	cells map[cellKey]*cell
	bytes map[bytesKey]float64 // bytes stored per step
}

type cellKey struct {
	contender       int
	length, writers int
}

type bytesKey struct{ contender, length int }

// cell is the result of a system for a length of history and a number of writers.
type cell struct {
	rates []float64 // steps/s in each round
	spent time.Duration

	lanes [][]*entry // sessions of each writer that still have room
	made  int
}

// rate returns the median of the rounds; 0 if there are none.
func (c *cell) rate() float64 {
	if len(c.rates) == 0 {
		return 0
	}
	list := slices.Sorted(slices.Values(c.rates))
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// measure runs the plan on the contenders, which take turns.
func measure(ctx context.Context, list []contender, c *conversation, p plan, progress io.Writer) (*results, error) {
	r := &results{plan: p, cells: map[cellKey]*cell{}, bytes: map[bytesKey]float64{}}
	for i := range list {
		if err := verify(ctx, &list[i], c); err != nil {
			return nil, fmt.Errorf("%s on %s: %w", list[i].name, list[i].on, err)
		}
	}
	for _, n := range p.lengths {
		for i := range list {
			size, err := list[i].bytesPerStep(ctx, n, p.steps)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", list[i].name, list[i].on, err)
			}
			r.bytes[bytesKey{i, n}] = size
			fmt.Fprintf(progress, "%-10s %-10s after %6d messages: %10.0f bytes a step\n", list[i].on, list[i].name, n, size)
		}
	}
	for _, n := range p.lengths {
		for _, writers := range p.writers {
			for round := range p.rounds {
				for i := range list {
					key := cellKey{i, n, writers}
					if r.cells[key] == nil {
						r.cells[key] = &cell{lanes: make([][]*entry, writers)}
					}
					if s, ok := list[i].system.(limited); ok && !s.takes(n, writers) {
						continue
					}
					if err := r.cells[key].round(ctx, &list[i], fmt.Sprintf("n%d-w%d", n, writers), n, p); err != nil {
						return nil, fmt.Errorf("%s on %s, %d messages, %d writers: %w", list[i].name, list[i].on, n, writers, err)
					}
				}
				fmt.Fprintf(progress, "%6d messages, %2d writers, round %d of %d:", n, writers, round+1, p.rounds)
				for i := range list {
					fmt.Fprintf(progress, " %s", number(r.cells[cellKey{i, n, writers}].rate()))
				}
				fmt.Fprintln(progress, " steps/s")
			}
		}
	}
	return r, nil
}

// round measures a system once, unless the system has used up its budget.
func (c *cell) round(ctx context.Context, x *contender, name string, n int, p plan) error {
	if len(c.rates) > 0 && c.spent >= p.budget {
		return nil
	}
	began := time.Now()
	defer func() { c.spent += time.Since(began) }()
	var lanes []lane
	for i, sessions := range c.lanes {
		sessions = slices.DeleteFunc(sessions, func(e *entry) bool { return e.left == 0 })
		steps := 0
		for _, e := range sessions {
			steps += e.left
		}
		for steps < p.steps {
			s, err := x.open(ctx, fmt.Sprintf("%s-%d", name, c.made), n)
			if err != nil {
				return err
			}
			c.made++
			sessions = append(sessions, &entry{s, room(n)})
			steps += room(n)
		}
		c.lanes[i] = sessions
		lanes = append(lanes, sessions)
	}
	paces, err := drive(ctx, x.system, lanes, p.slice)
	if err != nil {
		return err
	}
	c.rates = append(c.rates, rate(paces))
	return nil
}

// bytesPerStep measures how much each step adds to the data on the server.
func (x *contender) bytesPerStep(ctx context.Context, n, steps int) (float64, error) {
	var l lane
	for i := range (steps + room(n) - 1) / room(n) {
		s, err := x.open(ctx, fmt.Sprintf("bytes-%d-%d", n, i), n)
		if err != nil {
			return 0, err
		}
		l = append(l, &entry{s, min(room(n), steps)})
	}
	before, err := x.stored(ctx)
	if err != nil {
		return 0, err
	}
	paces, err := drive(ctx, x.system, []lane{l}, storageTime)
	if err != nil {
		return 0, err
	}
	after, err := x.stored(ctx)
	return float64(after-before) / float64(paces[0].steps), err
}

// verify makes a system write the conversation and read it back, so that only working systems are compared.
func verify(ctx context.Context, x *contender, c *conversation) error {
	const history, steps = 6, 2*fields + 3 // the state reaches a keyframe, and each field is written twice
	s, err := x.open(ctx, "verified", history)
	if err != nil {
		return err
	}
	for range steps {
		if err := s.step(ctx); err != nil {
			return err
		}
	}
	got, err := s.read(ctx)
	if err != nil {
		return err
	}
	want := c.after(history, steps)
	if !reflect.DeepEqual(got.State, want.State) {
		return fmt.Errorf("the state read back is not what was written: %.200s, want %.200s", encode(got.State), encode(want.State))
	}
	if len(got.Messages) != len(want.Messages) {
		return fmt.Errorf("%d messages are read back, want %d", len(got.Messages), len(want.Messages))
	}
	got.settle(want.Messages)
	for i := range want.Messages {
		if got.Messages[i] != want.Messages[i] {
			return fmt.Errorf("message %d is read back as %.200s, want %.200s", i, encode(got.Messages[i]), encode(want.Messages[i]))
		}
	}
	return nil
}

// settle puts messages that the system does not order among themselves into the order of want.
func (t *transcript) settle(want []message) {
	for i := 0; i < len(t.Messages); {
		end := i + 1
		for end < len(t.Messages) && t.Times != nil && t.Times[end].Equal(t.Times[i]) {
			end++
		}
		for ; i < end; i++ {
			if at := slices.Index(t.Messages[i:end], want[i]); at > 0 {
				t.Messages[i], t.Messages[i+at] = t.Messages[i+at], t.Messages[i]
			}
		}
	}
}
