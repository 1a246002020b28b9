// Package user calls user code: tools, hooks, guards, conditions, models, and methods of users' types. If that code
// panics, ends its goroutine, hangs, ignores its context or returns an unusable error, only the one call fails. The
// package provides the handle that the code is given, which ends with the call, and the scope that collects what is
// written through it. It does not decide which code is called when, or what its outcome means, and it has no store.
package user

import (
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/store/driver"
)

// Caller calls user code. Its fields are set before first use. It is safe for concurrent use.
type Caller struct {
	*settings.Options
	// Go runs a function in a goroutine of its own, like the go statement.
	Go func(func())
	// Executes returns why statements of a dialect cannot be executed with a step's commit; nil if they can.
	Executes func(dialect string) error
	// StoreBlob stores a part of an artifact for a session tree and returns its key.
	StoreBlob func(ctx context.Context, owner driver.BlobOwner, part []byte) (key string, err error)

	abandoned atomic.Int64
}

// Abandoned returns how many abandoned calls have not returned yet.
func (c *Caller) Abandoned() int { return int(c.abandoned.Load()) }

// Code describes one call of user code.
type Code struct {
	// What names the code at the start of a sentence about it: "the tool", "a BeforeTool hook".
	What string
	// Err is the code of the error if it panics or ends its goroutine.
	Err cairn.Code
	// Limit bounds the duration of the call; 0 for no limit.
	Limit time.Duration
	// Idle bounds the time between two beats of Pulse; 0 for no limit.
	Idle  time.Duration
	Pulse *Pulse
	// Session and Agent are those that the code is called for. Call is the tool call that it is about, if any.
	Session, Agent string
	Call           *cairn.Call
}

// attrs returns the attributes of a log line.
func (u *Code) attrs(more ...any) []any {
	more = append(more, "what", u.What)
	if u.Session != "" {
		more = append(more, "session", u.Session)
	}
	if u.Agent != "" {
		more = append(more, "agent", u.Agent)
	}
	if u.Call != nil {
		more = append(more, "tool", u.Call.Tool, "call", u.Call.ID)
	}
	return more
}

// job is a call of user code under way.
type job[T any] struct {
	by    *Caller
	u     Code
	ctx   context.Context
	fn    func(context.Context) (T, error)
	state atomic.Int32
	done  chan struct{} // closed once value and err are set
	value T
	err   error
}

// The states of a job.
const (
	jobRunning int32 = iota
	jobReturned
	jobAbandoned
)

// Call calls user code in a goroutine of its own and returns its result. A panic, runtime.Goexit or an unusable error
// value becomes the error. Code that still runs when its limit has passed, or StopGrace after ctx has ended, is
// abandoned: its result is dropped, and the error says why.
func Call[T any](ctx context.Context, by *Caller, u Code, fn func(context.Context) (T, error)) (T, error) {
	ctx, cancel := u.bounded(ctx)
	if cancel != nil {
		defer cancel(nil)
	}
	j := &job[T]{by: by, u: u, ctx: ctx, fn: fn, done: make(chan struct{})}
	by.Go(j.run)
	back := await(ctx, j.done, &u, cancel, by.StopGrace)
	timeout := timedOut(ctx)
	var none T
	switch {
	case !back && j.state.CompareAndSwap(jobRunning, jobAbandoned):
		n := by.abandoned.Add(1)
		by.Logger.Warn("user code abandoned", u.attrs("cause", context.Cause(ctx), "abandoned", n)...)
		if timeout == nil {
			return none, context.Cause(ctx)
		}
	default:
		<-j.done
	}
	if timeout != nil { // a result after the limit does not count
		return none, timeout
	}
	return j.value, j.err
}

// run calls the user code in the job's goroutine, and survives whatever it does.
func (j *job[T]) run() {
	returned := false
	defer func() {
		if !returned { // the code has ended the goroutine
			j.err = cairn.Errorf(j.u.Err, "%s ended its goroutine", j.u.What)
		}
		late := !j.state.CompareAndSwap(jobRunning, jobReturned)
		close(j.done)
		if late {
			n := j.by.abandoned.Add(-1)
			j.by.Logger.Info("abandoned user code has returned", j.u.attrs("abandoned", n)...)
		}
	}()
	j.protected()
	returned = true
}

// protected calls the user code and turns a panic into its error.
func (j *job[T]) protected() {
	defer func() {
		if v := recover(); v != nil {
			text := printed(v)
			j.by.Logger.Error("user code panicked", j.u.attrs("panic", text, "stack", string(debug.Stack()))...)
			j.err = cairn.Errorf(j.u.Err, "%s panicked: %s", j.u.What, text)
		}
	}()
	value, err := j.fn(j.ctx)
	err = Tamed(err)
	j.value, j.err = value, err
}

// bounded returns the context for user code, and the function that ends it; nil if the context is the caller's.
func (u *Code) bounded(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	if u.Limit <= 0 && u.Idle <= 0 {
		return ctx, nil
	}
	var cause error
	if u.Limit > 0 {
		cause = &timeoutError{cairn.Errorf(cairn.ErrTimeout, "%s did not end within %s", u.What, u.Limit)}
	}
	if u.Idle <= 0 { // nothing but the limit ends it before the code has returned
		ctx, stop := context.WithTimeoutCause(ctx, u.Limit, cause)
		return ctx, func(error) { stop() }
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if u.Limit <= 0 {
		return ctx, cancel
	}
	ctx, stop := context.WithTimeoutCause(ctx, u.Limit, cause)
	return ctx, func(cause error) {
		cancel(cause)
		stop()
	}
}

// await waits until user code has returned. It reports false if the code is to be abandoned.
func await(ctx context.Context, done <-chan struct{}, u *Code, cancel context.CancelCauseFunc, grace time.Duration) bool {
	if u.Idle > 0 && !awaitPulse(ctx, done, u, cancel) {
		return false
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	if timedOut(ctx) != nil {
		return false
	}
	if errors.Is(context.Cause(ctx), cairn.ErrClosed) {
		grace = min(grace, closeGrace)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// awaitPulse waits until user code has returned or its context has ended. If the code has been silent for too long, it
// cancels the context and reports false.
func awaitPulse(ctx context.Context, done <-chan struct{}, u *Code, cancel context.CancelCauseFunc) bool {
	timer := time.NewTimer(u.Idle)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return true
		case <-ctx.Done():
			return true
		case <-timer.C:
		}
		silent := u.Pulse.silent()
		if silent >= u.Idle {
			cancel(&timeoutError{cairn.Errorf(cairn.ErrTimeout, "%s made no progress for %s", u.What, u.Idle)})
			return false
		}
		timer.Reset(u.Idle - silent)
	}
}

// closeGrace caps how long user code may keep running after its engine was closed and stopped waiting.
const closeGrace = 2 * time.Second

// timeoutError is the cancellation cause of user code that has taken too long.
type timeoutError struct{ err *cairn.Error }

func (t *timeoutError) Error() string { return t.err.Error() }

func (t *timeoutError) Unwrap() error { return t.err }

// timedOut returns the error of user code that has taken too long, or nil.
func timedOut(ctx context.Context) error {
	if t, ok := context.Cause(ctx).(*timeoutError); ok {
		return t.err
	}
	return nil
}

// Pulse records when user code last did something. Code is not silent while its caller works for it.
type Pulse struct {
	began time.Time
	last  atomic.Int64 // since began; negative while busy
}

// NewPulse returns a pulse that begins now.
func NewPulse() *Pulse { return &Pulse{began: time.Now()} }

// Busy records that the caller works for the code.
func (p *Pulse) Busy() { p.last.Store(-1) }

// Beat records that the code has done something.
func (p *Pulse) Beat() { p.last.Store(int64(time.Since(p.began))) }

func (p *Pulse) silent() time.Duration {
	last := time.Duration(p.last.Load())
	if last < 0 {
		return 0
	}
	return time.Since(p.began) - last
}
