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

// plan says when a process is killed.
type plan struct {
	kind string
	// signal, if it has a point, is awaited for as long as impatience; else what counts is the time from the start, or from
	// when the victim is ready.
	signal     signal
	impatience time.Duration
	fromStart  bool
	delay      time.Duration
	// frozen is for how long the victim is stopped before the delay begins: it wakes up without its leases.
	frozen time.Duration
}

const (
	patience   = 2 * time.Minute        // how long a process may take to start
	impatience = 250 * time.Millisecond // how long a signal is awaited
)

// newPlan draws a plan: half of the kills come at a point that matters or within a millisecond of it, most others at
// any time of the first moments, few while the process starts, or after it had time to take over what others left.
func newPlan(rng *rand.Rand) plan {
	ms := func(from, to int) time.Duration {
		return time.Duration(from)*time.Millisecond + time.Duration(rng.Int64N(int64(to-from)*int64(time.Millisecond)))
	}
	switch n := rng.IntN(100); {
	case n < 50:
		p := plan{impatience: impatience, signal: signal{Point: points[rng.IntN(len(points))], Nth: 1 + rng.Int64N(30)}}
		p.kind = string(p.signal.Point)
		if rng.IntN(2) == 0 {
			p.delay = time.Duration(rng.IntN(1000)) * time.Microsecond
		}
		return p
	case n < 85:
		return plan{kind: "running", delay: ms(5, 150)}
	case n < 92:
		return plan{kind: "starting", fromStart: true, delay: ms(1, 60)}
	}
	return plan{kind: "settled", delay: ms(300, 600)}
}

// slowed returns the plan for a process on which everything takes so many times as long.
func (p plan) slowed(pace int) plan {
	p.impatience *= time.Duration(pace)
	p.delay *= time.Duration(pace)
	p.frozen *= time.Duration(pace)
	return p
}

// victim is a process that is to be killed.
type victim struct {
	cmd   *exec.Cmd
	ready time.Duration // how long it took to start; 0 if it was not waited for
	said  chan byte     // what it says
	ended chan error    // its end
	err   bytes.Buffer
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
	v := &victim{cmd: exec.Command(os.Args[0]), said: make(chan byte, 2), ended: make(chan error, 1)}
	v.cmd.Env = append(os.Environ(), orderVariable+"="+string(raw), "GORACE=halt_on_error=1 atexit_sleep_ms=0")
	v.cmd.ExtraFiles = []*os.File{w}
	v.cmd.Stderr = &v.err
	if _, err := v.cmd.StdinPipe(); err != nil { // its end is how a victim notices that the killer is gone
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

// pair returns plans for two processes at once. Often one is frozen at a point that matters, for long enough that the
// other takes its sessions and gets on with them.
func pair(rng *rand.Rand) []plan {
	if rng.IntN(2) == 0 {
		return []plan{newPlan(rng), newPlan(rng)}
	}
	at := signal{Point: points[rng.IntN(len(points))], Nth: 1 + rng.Int64N(20), Stop: true}
	frozen := time.Duration(300+rng.IntN(200)) * time.Millisecond
	return []plan{
		{kind: "frozen " + string(at.Point), signal: at, impatience: impatience, frozen: frozen, delay: time.Duration(20+rng.IntN(80)) * time.Millisecond},
		{kind: "surviving", delay: impatience + frozen + time.Duration(rng.IntN(200))*time.Millisecond},
	}
}

// kill waits as planned and kills. The error says that the victim did not live that long, or complained.
func (v *victim) kill(p plan) error {
	began := time.Now()
	if !p.fromStart {
		if err := v.await(time.After(patience), sayReady); err != nil {
			v.cmd.Process.Kill()
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
		v.cmd.Process.Signal(syscall.SIGSTOP) // if it did not get to where it stops by itself
		err := v.outlive(time.Now().Add(p.frozen))
		v.cmd.Process.Signal(syscall.SIGCONT)
		if err != nil {
			return err
		}
		began = time.Now()
	}
	if err := v.outlive(began.Add(p.delay)); err != nil {
		return err
	}
	if err := v.cmd.Process.Kill(); err != nil {
		return err
	}
	err := <-v.ended
	status, ok := v.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGKILL || v.err.Len() > 0 {
		return fmt.Errorf("a process was not killed: %v\n%s", err, v.err.Bytes())
	}
	return nil
}

var errSilent = errors.New("a process said nothing in time")

// outlive waits for a time that the victim must live to see.
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
	return fmt.Errorf("a process ended by itself: %v\n%s", err, v.err.Bytes())
}

// await waits until the victim says a word.
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
