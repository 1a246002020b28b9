package effects

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
)

// userCall describes one call of user code: a tool, a hook, a guard, a model, a method of a user's type. Every such
// call goes through callUser, so that whatever the code does costs that call and nothing else.
type userCall struct {
	// what names the code at the beginning of a sentence that says what it did: "the tool", "a BeforeTool hook".
	what string
	// code is that of the error if it panics or ends its goroutine.
	code cairn.Code
	// limit is the most that it may take; 0 for no limit.
	limit time.Duration
	// idle is the longest time between two beats of pulse; 0 for no limit.
	idle  time.Duration
	pulse *pulse
	// session and agent are those that it is called for; call is the call of a tool that it is about.
	session, agent string
	call           *cairn.CallInfo
}

// attrs returns what the log is told.
func (u *userCall) attrs(more ...any) []any {
	more = append(more, "what", u.what)
	if u.session != "" {
		more = append(more, "session", u.session)
	}
	if u.agent != "" {
		more = append(more, "agent", u.agent)
	}
	if u.call != nil {
		more = append(more, "tool", u.call.Tool, "call", u.call.ID)
	}
	return more
}

// job is a call of user code under way.
type job[T any] struct {
	fx    *Effects
	u     userCall
	ctx   context.Context
	fn    func(context.Context) (T, error)
	state atomic.Int32
	done  chan struct{} // closed when value and err are there
	value T
	err   error
}

// The states of a job.
const (
	jobAtWork int32 = iota
	jobReturned
	jobGivenUp
)

// callUser calls user code in a goroutine of its own and returns what it returns. A panic, runtime.Goexit and an error
// value that cannot be used are its error. Code that is still at work when its limit has passed, or a grace time after
// ctx has ended, is given up: it has no outcome any more, and the error says why.
func callUser[T any](ctx context.Context, fx *Effects, u userCall, fn func(context.Context) (T, error)) (T, error) {
	ctx, cancel := u.bounded(ctx)
	if cancel != nil {
		defer cancel(nil)
	}
	j := &job[T]{fx: fx, u: u, ctx: ctx, fn: fn, done: make(chan struct{})}
	fx.Go(j.run)
	back := await(ctx, j.done, &u, cancel, fx.StopGrace)
	timeout := timedOut(ctx)
	var none T
	switch {
	case !back && j.state.CompareAndSwap(jobAtWork, jobGivenUp):
		n := fx.abandoned.Add(1)
		fx.Logger.Warn("user code was given up", u.attrs("cause", context.Cause(ctx), "abandoned", n)...)
		if timeout == nil {
			return none, context.Cause(ctx)
		}
	default:
		<-j.done
	}
	if timeout != nil { // what came too late does not count
		return none, timeout
	}
	return j.value, j.err
}

// run calls the user code, in the job's goroutine, and survives whatever it does.
func (j *job[T]) run() {
	returned := false
	defer func() {
		if !returned { // it has ended the goroutine
			j.err = cairn.Errorf(j.u.code, "%s ended its goroutine", j.u.what)
		}
		late := !j.state.CompareAndSwap(jobAtWork, jobReturned)
		close(j.done)
		if late {
			n := j.fx.abandoned.Add(-1)
			j.fx.Logger.Info("user code that was given up has returned", j.u.attrs("abandoned", n)...)
		}
	}()
	j.protected()
	returned = true
}

// protected calls the user code and makes a panic its error.
func (j *job[T]) protected() {
	defer func() {
		if v := recover(); v != nil {
			text := printed(v)
			j.fx.Logger.Error("user code panicked", j.u.attrs("panic", text, "stack", string(debug.Stack()))...)
			j.err = cairn.Errorf(j.u.code, "%s panicked: %s", j.u.what, text)
		}
	}()
	value, err := j.fn(j.ctx)
	err = tamed(err)
	j.value, j.err = value, err
}

// bounded returns the context that user code is given, and what ends it; nil if it is the caller's.
func (u *userCall) bounded(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	if u.limit <= 0 && u.idle <= 0 {
		return ctx, nil
	}
	var cause error
	if u.limit > 0 {
		cause = &timeoutError{cairn.Errorf(cairn.CodeTimeout, "%s did not end within %s", u.what, u.limit)}
	}
	if u.idle <= 0 { // nothing else ends it before the code has returned
		ctx, stop := context.WithTimeoutCause(ctx, u.limit, cause)
		return ctx, func(error) { stop() }
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if u.limit <= 0 {
		return ctx, cancel
	}
	ctx, stop := context.WithTimeoutCause(ctx, u.limit, cause)
	return ctx, func(cause error) {
		cancel(cause)
		stop()
	}
}

// await waits until user code has returned. It reports false if that is to be given up.
func await(ctx context.Context, done <-chan struct{}, u *userCall, cancel context.CancelCauseFunc, grace time.Duration) bool {
	if u.idle > 0 && !awaitPulse(ctx, done, u, cancel) {
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

// awaitPulse waits until user code has returned or its context has ended. It reports false, and ends the context, if
// there has been no sign of life for too long.
func awaitPulse(ctx context.Context, done <-chan struct{}, u *userCall, cancel context.CancelCauseFunc) bool {
	timer := time.NewTimer(u.idle)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return true
		case <-ctx.Done():
			return true
		case <-timer.C:
		}
		silent := u.pulse.silent()
		if silent >= u.idle {
			cancel(&timeoutError{cairn.Errorf(cairn.CodeTimeout, "%s has given no sign of life for %s", u.what, u.idle)})
			return false
		}
		timer.Reset(u.idle - silent)
	}
}

// closeGrace is how long user code may go on at most after its engine was closed and gave up waiting.
const closeGrace = 2 * time.Second

// timeoutError is the cause with which the context of user code ends that has taken too long.
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

// pulse tells when user code last did something. While the caller's own code works for it, it is not silent.
type pulse struct {
	began time.Time
	last  atomic.Int64 // since began; negative while busy
}

func newPulse() *pulse { return &pulse{began: time.Now()} }

func (p *pulse) busy() { p.last.Store(-1) }

func (p *pulse) beat() { p.last.Store(int64(time.Since(p.began))) }

func (p *pulse) silent() time.Duration {
	last := time.Duration(p.last.Load())
	if last < 0 {
		return 0
	}
	return time.Since(p.began) - last
}

// printed returns a panic's value in words, whatever the value does when it is printed.
func printed(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T that cannot be printed", v)
		}
	}()
	return strings.ToValidUTF8(fmt.Sprint(v), "\uFFFD")
}

// tamed returns an error of user code as one that can be printed, compared and unwrapped without calling user code in a
// way that could do harm. It is called in the user code's own goroutine.
func tamed(err error) error { return tame(err, 0) }

// maxCauses bounds how many causes an error keeps, since they may go round in a circle.
const maxCauses = 16

func tame(err error, depth int) error {
	switch e, ours := err.(*cairn.Error); {
	case err == nil || depth > maxCauses:
		return nil
	case ours && e != nil && e.Cause == nil:
		return e
	case ours && e != nil:
		safe := *e
		safe.Cause = tame(e.Cause, depth+1)
		return &safe
	}
	t := &foreignError{err: err, text: errorText(err)}
	var known *cairn.Error
	if attempt(func() bool { return errors.As(err, &known) }) && known != nil {
		t.known, _ = tame(known, depth+1).(*cairn.Error)
	}
	for i, target := range contextErrors {
		t.context[i] = attempt(func() bool { return errors.Is(err, target) })
	}
	return t
}

var contextErrors = [...]error{context.Canceled, context.DeadlineExceeded}

// errorText returns what an error says.
func errorText(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			if r := reflect.ValueOf(err); r.Kind() == reflect.Pointer && r.IsNil() {
				text = fmt.Sprintf("a nil %T as an error, which has no message; return nil of type error where there is none", err)
			} else {
				text = fmt.Sprintf("an error of type %T, whose Error method panicked: %s", err, printed(v))
			}
		}
	}()
	return strings.ToValidUTF8(err.Error(), "\uFFFD")
}

// attempt calls a method of an error. One that panics has said no.
func attempt(fn func() bool) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return fn()
}

// foreignError is an error of user code. What the engine asks of errors it knows already.
type foreignError struct {
	err     error
	text    string
	known   *cairn.Error // that err is or wraps; nil if there is none
	context [len(contextErrors)]bool
}

func (e *foreignError) Error() string { return e.text }

func (e *foreignError) Is(target error) bool {
	if _, ours := target.(*cairn.Error); ours {
		return e.known != nil && errors.Is(e.known, target)
	}
	for i, known := range contextErrors {
		if target == known {
			return e.context[i]
		}
	}
	return attempt(func() bool { return errors.Is(e.err, target) })
}

func (e *foreignError) As(target any) bool {
	if into, ours := target.(**cairn.Error); ours {
		if e.known != nil {
			*into = e.known
		}
		return e.known != nil
	}
	return attempt(func() bool { return errors.As(e.err, target) })
}

// Abandoned returns how many calls of user code that were given up have not returned yet.
func (fx *Effects) Abandoned() int { return int(fx.abandoned.Load()) }
