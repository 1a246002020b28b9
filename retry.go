package cairn

import "time"

// RetryPolicy determines how a failed call of a model or a tool is retried. Waits double from First, with up to a
// quarter of jitter, unless the error specifies the wait (Error.RetryAfter).
type RetryPolicy struct {
	// Max is the number of retries after the first attempt; 0 means 3, a negative number none.
	Max int
	// First is the wait before the first retry; 0 means one second.
	First time.Duration
	// Limit is the longest wait; 0 means one minute. An error that asks for a longer wait is not retried: the call
	// fails at once, with an error whose RetryAfter is the wait asked for.
	Limit time.Duration
	// When reports whether a call that failed with err is retried. nil means: if err is, or wraps, an *Error whose
	// Retryable is true. A panic, or taking longer than the engine's Options.HookTimeout, counts as false.
	When func(err error) bool
}

// problem describes what is wrong with the policy; empty if nothing is.
func (p *RetryPolicy) problem() string {
	if p != nil && (p.First < 0 || p.Limit < 0) {
		return "waits must not be negative"
	}
	return ""
}

// Retry retries failed calls of the tool according to the policy; the zero policy means the defaults. The function
// marks an error as worth another attempt by returning a retryable *Error, such as
//
//	cairn.Errorf(cairn.ErrUnavailable, "the bank does not answer: %w", err)
//
// or the policy's When decides. A call that exceeded its [Timeout], which limits one attempt, is retryable. Each
// attempt has the same arguments and the same [Call.IdempotencyKey], and sees the same state as the first one. State,
// context and effects on the store's database that a failed attempt recorded are dropped; its usage and the events that
// it emitted are kept. A stop ends the wait for the next attempt.
//
// The model and the hooks see only the last attempt; its EventToolEnd has the number of Attempts. With [PerTool],
// and on hosts that carry out effects in other processes, attempts are recorded, so that a process that takes the
// call over begins with the attempt that was under way. Otherwise a crash repeats the step, and the count begins
// again.
func Retry(p RetryPolicy) ToolOption { return func(t *Tool) { t.def.Retry = &p } }
