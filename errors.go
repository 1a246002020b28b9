package cairn

import (
	"errors"
	"fmt"
	"strings"
)

// Code names one kind of failure. Codes are stable: they are stored in runs and sent over the wire.
type Code string

// The codes, by category. See [Code.Category], [Code.HTTPStatus] and [Code.Retryable].
const (
	CodeInvalid       Code = "invalid_argument"  // bad input; Field names it
	CodeNotFound      Code = "not_found"         // no such session, run, checkpoint or agent
	CodeExpired       Code = "expired"           // the session has expired; its id is reserved
	CodeDeleted       Code = "deleted"           // the session was deleted; its id is reserved
	CodeExists        Code = "already_exists"    // another caller created the session
	CodeRunning       Code = "already_running"   // a run holds the session
	CodeWaiting       Code = "waiting"           // the session has open calls that wait for an answer
	CodeQueueFull     Code = "queue_full"        // the session's queue holds as many turns as it may
	CodeNotRunning    Code = "not_running"       // there is no run to stop
	CodeNotResumable  Code = "not_resumable"     // the session cannot be resumed or retried in its current state
	CodeStale         Code = "stale"             // the session changed since it was read
	CodeOutdated      Code = "outdated"          // the caller refers to messages that were replaced since
	CodeFenced        Code = "fenced"            // the lease was lost to another process
	CodeStoreBehind   Code = "store_behind"      // the store lacks writes that it had acknowledged
	CodeClaimed       Code = "claimed"           // another reviewer has claimed the pending call
	CodeTrimmed       Code = "trimmed"           // the log no longer holds the requested events
	CodeTooLarge      Code = "too_large"         // a declared limit is exceeded
	CodeState         Code = "state_invalid"     // stored state does not decode, or a write does not fit it
	CodeOutput        Code = "output_invalid"    // the final output violates its schema
	CodeTool          Code = "tool_failed"       // a tool returned an error
	CodeStatement     Code = "statement_failed"  // a statement recorded by a tool failed or took too long
	CodeToolPanic     Code = "tool_panicked"     // a tool panicked
	CodeUnknownTool   Code = "unknown_tool"      // the model called a tool that does not exist
	CodeToolOff       Code = "tool_off"          // the model called a tool that is switched off
	CodeArguments     Code = "arguments_invalid" // tool arguments violate their schema
	CodeNotExecuted   Code = "not_executed"      // a tool call was closed without being executed
	CodeStopped       Code = "stopped"           // a tool was running when its run was stopped; it may have had effects
	CodeSuspended     Code = "suspended"         // a tool call waits for the answer to its question
	CodeTimeout       Code = "timeout"           // a deadline passed
	CodeMaxSteps      Code = "max_steps"         // the turn used up its steps without an output
	CodeOutputLimit   Code = "output_limit"      // the output limit cut tool calls; if of a run, in three replies in a row: raise Settings.MaxOutputTokens
	CodeDenied        Code = "denied"            // a reviewer denied the call
	CodeRejected      Code = "rejected"          // a completion guard refused the outcome
	CodeHook          Code = "hook_failed"       // a hook vetoed or failed
	CodeAborted       Code = "aborted"           // the run was aborted on request
	CodeCrashLoop     Code = "crash_loop"        // the run crashed its process too often
	CodeClosed        Code = "closed"            // the engine or store is closed
	CodeUnavailable   Code = "unavailable"       // storage or a peer is temporarily unreachable
	CodeSchema        Code = "schema_mismatch"   // a foreign database, or one of another version
	CodeCorrupt       Code = "corrupt"           // stored data does not decode
	CodeInternal      Code = "internal"          // anything else
	CodeRateLimited   Code = "rate_limited"      // model: too many requests
	CodeOverloaded    Code = "overloaded"        // model: the provider is overloaded or failing
	CodeModelRequest  Code = "model_request"     // model: the provider refused the request as malformed
	CodeContextLength Code = "context_too_long"  // model: the conversation exceeds the model's window
	CodeFileRefused   Code = "file_refused"      // model: the provider does not accept a file of the conversation
	CodeModelNotFound Code = "model_not_found"   // model: the provider has no such model, or none at this address
	CodeAuth          Code = "authentication"    // model: missing or refused credentials
	CodeFiltered      Code = "content_filtered"  // model: the provider's content filter stepped in
	CodeModel         Code = "model_failed"      // model: a broken or unintelligible reply
	CodeModelReply    Code = "model_reply"       // model: a reply that a session cannot keep
	CodeLost          Code = "agent_lost"        // model: an agent on another server is gone or refuses the caller
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
	CodeInvalid:       {CategoryInput, 400, false},
	CodeNotFound:      {CategoryInput, 404, false},
	CodeExpired:       {CategoryInput, 410, false},
	CodeDeleted:       {CategoryInput, 410, false},
	CodeTooLarge:      {CategoryInput, 413, false},
	CodeExists:        {CategoryConflict, 409, false},
	CodeRunning:       {CategoryConflict, 409, true},
	CodeWaiting:       {CategoryConflict, 409, false},
	CodeQueueFull:     {CategoryConflict, 409, true},
	CodeNotRunning:    {CategoryConflict, 409, false},
	CodeNotResumable:  {CategoryConflict, 409, false},
	CodeStale:         {CategoryConflict, 409, true},
	CodeOutdated:      {CategoryConflict, 409, false},
	CodeFenced:        {CategoryConflict, 409, false},
	CodeStoreBehind:   {CategoryStorage, 503, false},
	CodeClaimed:       {CategoryConflict, 409, true},
	CodeTrimmed:       {CategoryConflict, 410, false},
	CodeState:         {CategoryAgent, 422, false},
	CodeOutput:        {CategoryAgent, 422, false},
	CodeTool:          {CategoryAgent, 422, false},
	CodeStatement:     {CategoryAgent, 422, false},
	CodeToolPanic:     {CategoryAgent, 422, false},
	CodeUnknownTool:   {CategoryAgent, 422, false},
	CodeToolOff:       {CategoryAgent, 422, false},
	CodeArguments:     {CategoryAgent, 422, false},
	CodeNotExecuted:   {CategoryAgent, 422, false},
	CodeStopped:       {CategoryAgent, 409, false},
	CodeSuspended:     {CategoryAgent, 409, false},
	CodeMaxSteps:      {CategoryAgent, 422, false},
	CodeOutputLimit:   {CategoryAgent, 422, false},
	CodeRejected:      {CategoryAgent, 422, false},
	CodeHook:          {CategoryAgent, 422, false},
	CodeDenied:        {CategoryAgent, 422, false},
	CodeAborted:       {CategoryAgent, 409, false},
	CodeCrashLoop:     {CategoryAgent, 500, false},
	CodeTimeout:       {CategorySystem, 504, true},
	CodeClosed:        {CategorySystem, 503, true},
	CodeInternal:      {CategorySystem, 500, false},
	CodeUnavailable:   {CategoryStorage, 503, true},
	CodeSchema:        {CategoryStorage, 500, false},
	CodeCorrupt:       {CategoryStorage, 500, false},
	CodeRateLimited:   {CategoryModel, 429, true},
	CodeOverloaded:    {CategoryModel, 503, true},
	CodeModelRequest:  {CategoryModel, 502, false},
	CodeContextLength: {CategoryModel, 502, false},
	CodeFileRefused:   {CategoryModel, 502, false},
	CodeModelNotFound: {CategoryModel, 502, false},
	CodeAuth:          {CategoryModel, 502, false},
	CodeFiltered:      {CategoryModel, 502, false},
	CodeModel:         {CategoryModel, 502, true},
	CodeModelReply:    {CategoryModel, 502, false},
	CodeLost:          {CategoryModel, 502, false},
}

func (c Code) info() codeInfo {
	if info, ok := codes[c]; ok {
		return info
	}
	return codes[CodeInternal]
}

// Category returns the group of c; an unknown code is CategorySystem.
func (c Code) Category() Category { return c.info().category }

// HTTPStatus returns the status that a server responds with for c; 500 for an unknown code.
func (c Code) HTTPStatus() int { return c.info().status }

// Retryable reports whether the same call may succeed when it is simply repeated.
func (c Code) Retryable() bool { return c.info().retryable }

// Error is the error type of Cairn. It can be stored: its JSON form keeps everything but Cause.
//
// Sentinels compare by code: errors.Is(err, ErrStale). Use errors.As(err, &e), with e of type *Error, for the
// details.
type Error struct {
	// Code is the kind of failure. Base decisions on it, with errors.Is or Code.Category.
	Code Code `json:"code"`
	// Message describes the failure and names the thing at fault. It may quote a provider: see [Error.Public].
	Message string `json:"message"`
	// Field is the argument or definition at fault; empty if there is none.
	Field string `json:"field,omitempty"`
	// RetryAfter is how long to wait before another attempt; 0 if that is not known. A provider asks for it. For
	// CodeRunning it is the time until the run's lease lapses: a process that lives renews the lease, so the session is
	// free by then only if the process has died.
	RetryAfter Duration `json:"retry_after,omitempty"`
	// NoRetry reports that the provider asks not to repeat the call, although calls with this code may be repeated.
	NoRetry bool `json:"no_retry,omitempty"`
	// Details are further details, in a form that depends on the code; for CodeArguments and CodeOutput, the list
	// of violations.
	Details []string `json:"details,omitempty"`
	// Calls are, for CodeWaiting, the open calls that the session waits for, those of its sub-agents included.
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

// Invalid returns a CodeInvalid error about one named field.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Message: field + ": " + fmt.Sprintf(format, args...)}
}

// Error returns the message, which names the thing at fault.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is an Error of the same code. It makes the sentinels below work with errors.Is. An
// expired or deleted session also matches ErrNotFound. ErrStoreBehind also matches ErrFenced: what the store lost
// includes the right to write.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && (t.Code == e.Code || t.Code == CodeNotFound && (e.Code == CodeExpired || e.Code == CodeDeleted) ||
		t.Code == CodeFenced && e.Code == CodeStoreBehind)
}

// Retryable reports whether the call may succeed when it is repeated: its code says so, and the provider did not object.
func (e *Error) Retryable() bool { return e.Code.Retryable() && !e.NoRetry }

// Public returns the error as the end user of a conversation may read it: its code, RetryAfter, and a message
// derived from the code alone. The text of a provider, a database or a hook may name things that are not meant for
// the user. The message of CodeLost, which describes what happened to the agent, is kept. Public of nil is nil.
func (e *Error) Public() *Error {
	if e == nil {
		return nil
	}
	if e.Code == CodeLost {
		return &Error{Code: e.Code, Message: e.Message}
	}
	return &Error{Code: e.Code, Message: strings.ReplaceAll(string(e.Code), "_", " "), RetryAfter: e.RetryAfter}
}

// AsError returns err as an *Error; an error of another type becomes a CodeInternal error that wraps it. It returns
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
	return &Error{Code: CodeInternal, Message: err.Error(), Cause: err}
}

// Sentinels for decisions with errors.Is: each matches every error of its code. The list of codes describes their
// meaning; each function documents which errors it returns when.
var (
	ErrInvalid        = &Error{Code: CodeInvalid, Message: "invalid argument"}
	ErrNotFound       = &Error{Code: CodeNotFound, Message: "not found"}
	ErrExpired        = &Error{Code: CodeExpired, Message: "session has expired"}
	ErrDeleted        = &Error{Code: CodeDeleted, Message: "session was deleted"}
	ErrExists         = &Error{Code: CodeExists, Message: "session already exists"}
	ErrAlreadyRunning = &Error{Code: CodeRunning, Message: "session is already running"}
	ErrWaiting        = &Error{Code: CodeWaiting, Message: "session waits for answers"}
	ErrQueueFull      = &Error{Code: CodeQueueFull, Message: "queue is full"}
	ErrNotRunning     = &Error{Code: CodeNotRunning, Message: "session is not running"}
	ErrNotResumable   = &Error{Code: CodeNotResumable, Message: "session cannot be resumed"}
	ErrStale          = &Error{Code: CodeStale, Message: "session has changed"}
	ErrOutdated       = &Error{Code: CodeOutdated, Message: "messages were replaced"}
	ErrCorrupt        = &Error{Code: CodeCorrupt, Message: "stored data does not decode"}
	ErrFenced         = &Error{Code: CodeFenced, Message: "lease lost to another process"}
	ErrStoreBehind    = &Error{Code: CodeStoreBehind, Message: "store lacks acknowledged writes"}
	ErrClaimed        = &Error{Code: CodeClaimed, Message: "call is claimed by another reviewer"}
	ErrDenied         = &Error{Code: CodeDenied, Message: "not approved by the user"}
	ErrTrimmed        = &Error{Code: CodeTrimmed, Message: "events were trimmed"}
	ErrTooLarge       = &Error{Code: CodeTooLarge, Message: "too large"}
	ErrState          = &Error{Code: CodeState, Message: "state is invalid"}
	ErrMaxSteps       = &Error{Code: CodeMaxSteps, Message: "step limit reached"}
	ErrAborted        = &Error{Code: CodeAborted, Message: "run aborted"}
	ErrClosed         = &Error{Code: CodeClosed, Message: "closed"}
	ErrUnavailable    = &Error{Code: CodeUnavailable, Message: "storage unavailable"}
	ErrSchema         = &Error{Code: CodeSchema, Message: "database schema mismatch"}

	// ErrSuspended is returned by [Call.Ask] while there is no answer. The tool must return it, wrapped or not.
	ErrSuspended = &Error{Code: CodeSuspended, Message: "the call waits for the answer to its question; the tool must return this error"}
)
