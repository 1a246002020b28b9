package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// ending is the way in which a process is stopped.
type ending string

const (
	byKill ending = "SIGKILL"
	byTerm ending = "SIGTERM"
	// byBoth kills the process while it shuts down.
	byBoth ending = "SIGTERM, then SIGKILL"
	// byClose is for the test's own process, which has released its runs.
	byClose ending = "no signal"
)

// plan is when and how a process is stopped.
type plan struct {
	moment string
	end    ending
	// signal, if it has a point, is awaited for at most impatience. Otherwise delay counts from the start, or from
	// the time the victim is ready.
	signal     signal
	impatience time.Duration
	fromStart  bool
	delay      time.Duration
	// frozen is how long the victim sleeps before the delay begins. When it wakes up, its leases have lapsed.
	frozen time.Duration
	// grace is the time that a victim gives its runs after SIGTERM, closing the time until it is then killed.
	grace, closing time.Duration
}

const (
	patience   = 2 * time.Minute        // time for a process to start or to end
	impatience = 250 * time.Millisecond // time to wait for a signal
)

// newPlan draws a plan. Half of the stops come at a critical point or within a millisecond of it. Most others come
// at a random time soon after the start, few during the start, or after the process had time to take over runs.
// Some processes sleep before that, long enough for others to take over their sessions.
func newPlan(rng *rand.Rand) plan {
	p := newMoment(rng)
	switch rng.IntN(8) {
	case 0, 1, 2:
		p.end = byTerm
	case 3:
		p.end, p.closing = byBoth, between(rng, 0, 20)
	default:
		p.end = byKill
	}
	p.grace = []time.Duration{0, time.Millisecond, between(rng, 1, 20), between(rng, 20, 200)}[rng.IntN(4)]
	return p
}

func newMoment(rng *rand.Rand) plan {
	switch n := rng.IntN(100); {
	case n < 45:
		p := plan{impatience: impatience, signal: signal{Point: points[rng.IntN(len(points))], Nth: 1 + rng.Int64N(30)}}
		p.moment = string(p.signal.Point)
		if rng.IntN(2) == 0 {
			p.delay = time.Duration(rng.IntN(1000)) * time.Microsecond
		}
		return p
	case n < 52:
		at := signal{Point: points[rng.IntN(len(points))], Nth: 1 + rng.Int64N(20), Stop: true}
		return plan{moment: "asleep", signal: at, impatience: impatience, frozen: between(rng, 300, 500), delay: between(rng, 20, 100)}
	case n < 85:
		return plan{moment: "running", delay: between(rng, 5, 150)}
	case n < 92:
		return plan{moment: "starting", fromStart: true, delay: between(rng, 1, 60)}
	}
	return plan{moment: "settled", delay: between(rng, 300, 600)}
}

// between draws a duration between two numbers of milliseconds.
func between(rng *rand.Rand, from, to int) time.Duration {
	return time.Duration(from)*time.Millisecond + time.Duration(rng.Int64N(int64(to-from)*int64(time.Millisecond)))
}

// slowed returns the plan for a process on which everything takes pace times as long. A process that sleeps then
// sleeps for longer than its leases.
func (p plan) slowed(pace int, lease time.Duration) plan {
	for _, d := range []*time.Duration{&p.impatience, &p.delay, &p.frozen, &p.grace, &p.closing} {
		*d *= time.Duration(pace)
	}
	if p.frozen > 0 {
		p.frozen = max(p.frozen, lease*5/4)
	}
	return p
}

// victim is a process that is to be stopped.
type victim struct {
	name  string
	cmd   *exec.Cmd
	ready time.Duration // start time; 0 if it was not awaited
	said  chan byte     // its signals
	ended chan error    // its end
	err   bytes.Buffer
	// last is the time at which it was stopped.
	last time.Time
}

// startVictim starts this binary again with an order.
func startVictim(t *testing.T, o *order) *victim {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{name: o.Name, cmd: exec.Command(os.Args[0]), said: make(chan byte, 2), ended: make(chan error, 1)}
	v.cmd.Env = append(os.Environ(), orderVariable+"="+string(raw), "GORACE=halt_on_error=1 atexit_sleep_ms=0")
	v.cmd.ExtraFiles = []*os.File{w}
	v.cmd.Stderr = &v.err
	if _, err := v.cmd.StdinPipe(); err != nil { // its end shows the victim that the killer is gone
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		defer r.Close()
		word := make([]byte, 1)
		for {
			if _, err := io.ReadFull(r, word); err != nil {
				v.ended <- v.cmd.Wait()
				return
			}
			v.said <- word[0]
		}
	}()
	return v
}

// stop waits as planned and stops the victim. The error reports that the victim died before, wrote to standard
// error, or did not end as planned.
func (v *victim) stop(p plan) error {
	if err := v.wait(p); err != nil {
		v.cmd.Process.Kill()
		return err
	}
	v.last = time.Now()
	how := syscall.SIGTERM
	if p.end == byKill {
		how = syscall.SIGKILL
	}
	if err := v.cmd.Process.Signal(how); err != nil {
		return err
	}
	if p.end == byBoth {
		select {
		case err := <-v.ended:
			return v.died(p, err)
		case <-time.After(p.closing):
			v.cmd.Process.Kill()
		}
	}
	for late := time.After(p.grace + patience); ; {
		select {
		case err := <-v.ended:
			return v.died(p, err)
		case <-time.After(100 * time.Millisecond):
			v.cmd.Process.Signal(syscall.SIGCONT) // it may only now have reached the point where it stops itself
		case <-late:
			v.cmd.Process.Signal(syscall.SIGQUIT) // to print its goroutines
			<-v.ended
			return fmt.Errorf("process %s was asked to end within %s and did not\n%s", v.name, p.grace, v.err.Bytes())
		}
	}
}

// died checks how the victim ended. A starting process does not handle SIGTERM yet.
func (v *victim) died(p plan, err error) error {
	status, ok := v.cmd.ProcessState.Sys().(syscall.WaitStatus)
	by := status.Signal()
	switch {
	case !ok || v.err.Len() > 0:
	case p.end != byTerm && by == syscall.SIGKILL, p.end != byKill && status.ExitStatus() == 0, p.fromStart && by == syscall.SIGTERM:
		return nil
	}
	return fmt.Errorf("process %s did not end as it should (%s): %v\n%s", v.name, p.end, err, v.err.Bytes())
}

// wait waits for the planned moment.
func (v *victim) wait(p plan) error {
	began := time.Now()
	if !p.fromStart {
		if err := v.await(time.After(patience), sayReady); err != nil {
			return fmt.Errorf("not ready: %w", err)
		}
		v.ready = time.Since(began)
		began = time.Now()
		if p.signal.Point != "" {
			if err := v.await(time.After(p.impatience), sayPoint); err != nil && err != errSilent {
				return err
			}
			began = time.Now()
		}
	}
	if p.frozen > 0 {
		v.cmd.Process.Signal(syscall.SIGSTOP) // if it did not reach the point where it stops itself
		err := v.outlive(time.Now().Add(p.frozen))
		v.cmd.Process.Signal(syscall.SIGCONT)
		if err != nil {
			return err
		}
		began = time.Now()
	}
	return v.outlive(began.Add(p.delay))
}

var errSilent = errors.New("a process said nothing in time")

// outlive waits until the given time. The error reports that the victim died before.
func (v *victim) outlive(until time.Time) error {
	wait := time.Until(until)
	if wait <= 0 {
		return nil
	}
	for over := time.After(wait); ; {
		select {
		case <-over:
			return nil
		case <-v.said:
		case err := <-v.ended:
			return v.diedEarly(err)
		}
	}
}

func (v *victim) diedEarly(err error) error {
	return fmt.Errorf("process %s ended by itself: %v\n%s", v.name, err, v.err.Bytes())
}

// await waits until the victim reports a word.
func (v *victim) await(deadline <-chan time.Time, word byte) error {
	for {
		select {
		case said := <-v.said:
			if said == word {
				return nil
			}
		case err := <-v.ended:
			return v.diedEarly(err)
		case <-deadline:
			return errSilent
		}
	}
}
