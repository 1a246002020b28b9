package cairn

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Code names one kind of failure. Codes are stable: they are stored in runs and sent over the wire. A Code is itself an
// error, for errors.Is: errors.Is(err, cairn.ErrStale) matches every error of that code. The set is open: a later
// version may have codes that this one does not know.
type Code string

// The codes, by category. See [Code.Category], [Code.HTTPStatus] and [Code.Retryable]. Each function documents which
// errors it returns when.
const (
	ErrInvalid        Code = "invalid_argument"  // bad input; Field names it
	ErrNotFound       Code = "not_found"         // no such session, run, checkpoint or agent
	ErrExpired        Code = "expired"           // the session has expired; its id is reserved
	ErrDeleted        Code = "deleted"           // the session was deleted; its id is reserved
	ErrExists         Code = "already_exists"    // another caller created the session
	ErrAlreadyRunning Code = "already_running"   // a run holds the session
	ErrWaiting        Code = "waiting"           // the session has open calls that wait for an answer
	ErrQueueFull      Code = "queue_full"        // the session's queue holds as many turns as it may
	ErrNotRunning     Code = "not_running"       // no run to stop
	ErrNotResumable   Code = "not_resumable"     // the session cannot be resumed or retried in its current state
	ErrStale          Code = "stale"             // the session changed since it was read
	ErrOutdated       Code = "outdated"          // the caller refers to messages that were replaced since
	ErrFenced         Code = "fenced"            // the lease was lost to another process
	ErrStoreBehind    Code = "store_behind"      // the store lacks writes that it had acknowledged
	ErrClaimed        Code = "claimed"           // another reviewer has claimed the pending call
	ErrTrimmed        Code = "trimmed"           // the log no longer holds the requested events
	ErrTooLarge       Code = "too_large"         // a declared limit is exceeded
	ErrState          Code = "state_invalid"     // stored state is malformed, or a write does not match it
	ErrOutput         Code = "output_invalid"    // the final output violates its schema
	ErrTool           Code = "tool_failed"       // a tool returned an error
	ErrStatement      Code = "statement_failed"  // a statement recorded by a tool failed or took too long
	ErrToolPanic      Code = "tool_panicked"     // a tool panicked
	ErrUnknownTool    Code = "unknown_tool"      // the model called a tool that does not exist
	ErrToolOff        Code = "tool_off"          // the model called a tool that is switched off
	ErrArguments      Code = "arguments_invalid" // tool arguments violate their schema
	ErrNotExecuted    Code = "not_executed"      // a tool call was closed without being executed
	ErrStopped        Code = "stopped"           // a tool was running when its run was stopped; it may have had effects
	ErrEffectUnknown  Code = "effect_unknown"    // nobody knows whether a call of an effectful tool took effect
	ErrSuspended      Code = "suspended"         // a tool call waits for the answer to its question
	ErrTimeout        Code = "timeout"           // a deadline passed
	ErrMaxSteps       Code = "max_steps"         // the turn used up its steps without an output
	ErrBudget         Code = "budget_exceeded"   // a budget is used up, see Budget
	ErrOutputLimit    Code = "output_limit"      // the output limit truncated tool calls; for a run, in three replies in a row: raise Settings.MaxOutputTokens
	ErrDenied         Code = "denied"            // a reviewer denied the call
	ErrRejected       Code = "rejected"          // a completion guard refused the outcome
	ErrHook           Code = "hook_failed"       // a hook vetoed or failed
	ErrAborted        Code = "aborted"           // the run was aborted on request
	ErrCrashLoop      Code = "crash_loop"        // the run crashed its process too often
	ErrClosed         Code = "closed"            // the engine or store is closed
	ErrUnavailable    Code = "unavailable"       // storage or a peer is temporarily unreachable
	ErrSchema         Code = "schema_mismatch"   // a foreign database, or one of another version
	ErrCorrupt        Code = "corrupt"           // stored data is malformed
	ErrInternal       Code = "internal"          // anything else
	ErrRateLimited    Code = "rate_limited"      // model: too many requests
	ErrOverloaded     Code = "overloaded"        // model: the provider is overloaded or failing
	ErrModelRequest   Code = "model_request"     // model: the provider refused the request as malformed
	ErrContextLength  Code = "context_too_long"  // model: the conversation exceeds the model's window
	ErrFileRefused    Code = "file_refused"      // model: the provider does not accept a file of the conversation
	ErrModelNotFound  Code = "model_not_found"   // model: the provider has no such model, or none at this address
	ErrAuth           Code = "authentication"    // model: missing or refused credentials
	ErrFiltered       Code = "content_filtered"  // model: the provider's content filter stepped in
	ErrModel          Code = "model_failed"      // model: a malformed reply
	ErrModelReply     Code = "model_reply"       // model: a reply that a session cannot keep
	ErrLost           Code = "agent_lost"        // model: a remote agent no longer exists or rejects the caller
)

// Category groups codes by who can do something about it.
type Category string

const (
	CategoryInput    Category = "input"    // the caller's input is at fault
	CategoryConflict Category = "conflict" // the session is not in the state that the caller assumed
	CategoryAgent    Category = "agent"    // the agent, a tool or a hook failed
	CategoryModel    Category = "model"    // the model's provider failed
	CategoryStorage  Category = "storage"  // the store or event log failed
	CategorySystem   Category = "system"   // everything else
)

type codeInfo struct {
	category  Category
	status    int
	retryable bool
}

// codes is the table behind Category, HTTPStatus and Retryable. Statuses are numbers so that a program without HTTP
// does not link net/http.
var codes = map[Code]codeInfo{
	ErrInvalid:        {CategoryInput, 400, false},
	ErrNotFound:       {CategoryInput, 404, false},
	ErrExpired:        {CategoryInput, 410, false},
	ErrDeleted:        {CategoryInput, 410, false},
	ErrTooLarge:       {CategoryInput, 413, false},
	ErrExists:         {CategoryConflict, 409, false},
	ErrAlreadyRunning: {CategoryConflict, 409, true},
	ErrWaiting:        {CategoryConflict, 409, false},
	ErrQueueFull:      {CategoryConflict, 409, true},
	ErrNotRunning:     {CategoryConflict, 409, false},
	ErrNotResumable:   {CategoryConflict, 409, false},
	ErrStale:          {CategoryConflict, 409, true},
	ErrOutdated:       {CategoryConflict, 409, false},
	ErrFenced:         {CategoryConflict, 409, false},
	ErrStoreBehind:    {CategoryStorage, 503, false},
	ErrClaimed:        {CategoryConflict, 409, true},
	ErrTrimmed:        {CategoryConflict, 410, false},
	ErrState:          {CategoryAgent, 422, false},
	ErrOutput:         {CategoryAgent, 422, false},
	ErrTool:           {CategoryAgent, 422, false},
	ErrStatement:      {CategoryAgent, 422, false},
	ErrToolPanic:      {CategoryAgent, 422, false},
	ErrUnknownTool:    {CategoryAgent, 422, false},
	ErrToolOff:        {CategoryAgent, 422, false},
	ErrArguments:      {CategoryAgent, 422, false},
	ErrNotExecuted:    {CategoryAgent, 422, false},
	ErrStopped:        {CategoryAgent, 409, false},
	ErrEffectUnknown:  {CategoryAgent, 409, false},
	ErrSuspended:      {CategoryAgent, 409, false},
	ErrMaxSteps:       {CategoryAgent, 422, false},
	ErrBudget:         {CategoryAgent, 402, false},
	ErrOutputLimit:    {CategoryAgent, 422, false},
	ErrRejected:       {CategoryAgent, 422, false},
	ErrHook:           {CategoryAgent, 422, false},
	ErrDenied:         {CategoryAgent, 422, false},
	ErrAborted:        {CategoryAgent, 409, false},
	ErrCrashLoop:      {CategoryAgent, 500, false},
	ErrTimeout:        {CategorySystem, 504, true},
	ErrClosed:         {CategorySystem, 503, true},
	ErrInternal:       {CategorySystem, 500, false},
	ErrUnavailable:    {CategoryStorage, 503, true},
	ErrSchema:         {CategoryStorage, 500, false},
	ErrCorrupt:        {CategoryStorage, 500, false},
	ErrRateLimited:    {CategoryModel, 429, true},
	ErrOverloaded:     {CategoryModel, 503, true},
	ErrModelRequest:   {CategoryModel, 502, false},
	ErrContextLength:  {CategoryModel, 502, false},
	ErrFileRefused:    {CategoryModel, 502, false},
	ErrModelNotFound:  {CategoryModel, 502, false},
	ErrAuth:           {CategoryModel, 502, false},
	ErrFiltered:       {CategoryModel, 502, false},
	ErrModel:          {CategoryModel, 502, true},
	ErrModelReply:     {CategoryModel, 502, false},
	ErrLost:           {CategoryModel, 502, false},
}

func (c Code) info() codeInfo {
	if info, ok := codes[c]; ok {
		return info
	}
	return codes[ErrInternal]
}

// Error returns the code. It makes a Code a target for errors.Is.
func (c Code) Error() string { return string(c) }

// Is reports whether target is c, or a code that c also matches, see [Error.Is].
func (c Code) Is(target error) bool {
	t, ok := target.(Code)
	return ok && (t == c || t == ErrNotFound && (c == ErrExpired || c == ErrDeleted) || t == ErrFenced && c == ErrStoreBehind)
}

// As sets an *Error of the code, so that errors.As finds one wherever a Code was returned as an error.
func (c Code) As(target any) bool {
	e, ok := target.(**Error)
	if ok {
		*e = &Error{Code: c, Message: string(c)}
	}
	return ok
}

// Category returns the group of c; an unknown code is CategorySystem.
func (c Code) Category() Category { return c.info().category }

// HTTPStatus returns the status that a server responds with for c; 500 for an unknown code.
func (c Code) HTTPStatus() int { return c.info().status }

// Retryable reports whether the same call may succeed when it is simply repeated.
func (c Code) Retryable() bool { return c.info().retryable }

// Error is the error type of Cairn. It can be stored: its JSON form keeps everything but Cause.
//
// It is compared by its code: errors.Is(err, ErrStale). Use errors.As(err, &e), with e of type *Error, for the details.
type Error struct {
	// Code is the kind of failure. Base decisions on it, with errors.Is or Code.Category.
	Code Code `json:"code"`
	// Message describes the failure and names the thing at fault. It may quote a provider: see [Error.Public].
	Message string `json:"message"`
	// Field is the argument or definition at fault; empty if there is none.
	Field string `json:"field,omitempty"`
	// RetryAfter is how long to wait before another attempt; 0 if that is not known. A provider asks for it. For
	// ErrAlreadyRunning it is the time until the run's lease lapses: a process that lives renews the lease, so the
	// session is free by then only if the process has died.
	RetryAfter Duration `json:"retry_after,omitempty"`
	// NoRetry reports that the provider asks not to repeat the call, although calls with this code may be repeated.
	NoRetry bool `json:"no_retry,omitempty"`
	// Details are further details, in a form that depends on the code; for ErrArguments and ErrOutput, the list
	// of violations.
	Details []string `json:"details,omitempty"`
	// Calls are, for ErrWaiting, the open calls that the session waits for, including calls of its sub-agents.
	Calls []CallRef `json:"calls,omitempty"`
	// Cause is the underlying error. It is not stored.
	Cause error `json:"-"`
}

// Errorf returns an Error with a formatted message. A %w verb sets the cause; several of them are kept as one
// joined cause.
func Errorf(code Code, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	e := &Error{Code: code, Message: wrapped.Error(), Cause: errors.Unwrap(wrapped)}
	if _, several := wrapped.(interface{ Unwrap() []error }); several {
		e.Cause = wrapped
	}
	return e
}

// Invalid returns an ErrInvalid error about one named field.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: ErrInvalid, Field: field, Message: field + ": " + fmt.Sprintf(format, args...)}
}

// ContextError returns the error of a call whose context is done: ErrTimeout for a deadline, otherwise ErrAborted. It
// wraps ctx.Err(), and its message names the call by the text what. It returns nil as long as ctx is not done.
func ContextError(ctx context.Context, what string) error {
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return Errorf(ErrTimeout, "%s: %w", what, err)
	default:
		return Errorf(ErrAborted, "%s: %w", what, err)
	}
}

// Error returns the message, which names the thing at fault.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is the error's code, or an Error of that code. An expired or deleted session also matches
// ErrNotFound. ErrStoreBehind also matches ErrFenced, since the store has also lost the right to write.
func (e *Error) Is(target error) bool {
	if t, ok := target.(*Error); ok {
		return e.Code.Is(t.Code)
	}
	return e.Code.Is(target)
}

// Retryable reports whether the call may succeed when it is repeated: its code says so, and the provider did not
// object.
func (e *Error) Retryable() bool { return e.Code.Retryable() && !e.NoRetry }

// Public returns the error as the end user of a conversation may read it: its code, RetryAfter, and a message derived
// from the code alone. The text of a provider, a database or a hook may name things that are not meant for the user.
// The message of ErrLost, which describes the loss of the agent, is kept. Public of nil is nil.
func (e *Error) Public() *Error {
	if e == nil {
		return nil
	}
	if e.Code == ErrLost {
		return &Error{Code: e.Code, Message: e.Message}
	}
	return &Error{Code: e.Code, Message: strings.ReplaceAll(string(e.Code), "_", " "), RetryAfter: e.RetryAfter}
}

// AsError returns err as an *Error; an error of another type becomes an ErrInternal error that wraps it. It returns
// nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && e != nil {
		if e.Error() == err.Error() {
			return e
		}
		// It was wrapped: keep the outer message and the inner code.
		outer := *e
		outer.Message, outer.Cause = err.Error(), err
		return &outer
	}
	return &Error{Code: ErrInternal, Message: err.Error(), Cause: err}
}
