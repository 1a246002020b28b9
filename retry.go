package cairn

import "time"

// RetryPolicy says how a failed call of a model or a tool is tried again. Waits double from First, with up to a quarter of
// jitter, unless the error says how long to wait (Error.RetryAfter).
type RetryPolicy struct {
	// Max is the number of retries after the first attempt; 0 means 3, a negative number none.
	Max int
	// First is the wait before the first retry; 0 means one second.
	First time.Duration
	// Limit is the longest wait; 0 means one minute. After an error that asks for a longer one there is no other attempt: the
	// call fails at once, with an error whose RetryAfter says when another attempt makes sense.
	Limit time.Duration
	// When reports whether a call that failed with an error is tried again. nil means: if that is, or wraps, an *Error whose
	// Retryable is true. A function that panics, or takes longer than the engine's Options.HookTimeout, has said no.
	When func(err error) bool
}

// problem returns what is wrong with the policy, or "".
func (p *RetryPolicy) problem() string {
	if p != nil && (p.First < 0 || p.Limit < 0) {
		return "waits cannot be negative"
	}
	return ""
}

// Retry has a call of the tool that failed tried again, as the policy says; the zero policy means the defaults. What is
// worth another attempt the function says with an *Error that is retryable, such as
//
//	cairn.Errorf(cairn.CodeUnavailable, "the bank does not answer: %w", err)
//
// or the policy's When does. A call that took longer than its [Timeout], which bounds one attempt, is retryable. Each attempt
// has the same arguments and the same [Call.IdempotencyKey], and sees the state as the first one did: what a failed attempt
// wrote to the state, added as context or recorded for the store's database is dropped, the usage that it recorded and
// the events that it emitted stay. A stop ends the wait for the next attempt.
//
// The model and the hooks see the last attempt alone; its EventToolEnd has the number of Attempts. With [PerTool], and on
// hosts that carry out effects in other processes, attempts are recorded, so that a process that takes the call over begins
// with the attempt that was under way. Else a crash repeats the step, and the count begins anew.
func Retry(p RetryPolicy) ToolOption { return func(t *Tool) { t.def.Retry = &p } }
