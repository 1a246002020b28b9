package provider

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
)

// refusesChoice matches what servers answer to a request that forces a call, if the model, its thinking or the server
// does not allow that.
var refusesChoice = regexp.MustCompile(`(?i)tool[_ -]?choice|forces? tool|forced (?:tool|function)|function_?calling_?config|allowed_?function_?names`)

// failedCall matches what servers answer if the model did not make a call that they accept to force.
var failedCall = regexp.MustCompile(`(?i)did not call`)

// Force calls ask for a reply to a request that may force a call. If the server refuses that before the reply begins,
// ask is called again with a request that asks for the call in words, and later requests are made that way at once.
func (e *Endpoint) Force(req *cairn.Request, emit Emit, ask func(*cairn.Request, Emit) error) error {
	if req.Choice.Tool == "" {
		return ask(req, emit)
	}
	refuses := func(says string) bool { return refusesChoice.MatchString(says) && !failedCall.MatchString(says) }
	return unless(&e.unforced, refuses, emit,
		func(emit Emit) error { return ask(req, emit) },
		func(emit Emit) error { return ask(InWords(req), emit) })
}

// unless asks in one way until the server refuses that before a reply begins, which refused remembers, and in another
// way from then on.
func unless(refused *atomic.Bool, refuses func(says string) bool, emit Emit, one, other func(Emit) error) error {
	if refused.Load() {
		return other(emit)
	}
	begun := false
	err := one(func(c cairn.Chunk) error {
		begun = true
		return emit(c)
	})
	why, ok := errors.AsType[*cairn.Error](err)
	if !ok || begun || why.Retryable() || !refuses(why.Message) {
		return err
	}
	refused.Store(true)
	return other(emit)
}

// InWords returns a request that asks for the forced call by a message at its end instead. The tools and what precedes
// the message stay the same, for the provider's cache.
func InWords(req *cairn.Request) *cairn.Request {
	words := *req
	words.Choice = cairn.ToolChoice{}
	words.Messages = append(slices.Clip(req.Messages),
		cairn.Context(fmt.Sprintf("Call the tool %q now, and no other tool. Do not answer with text.", req.Choice.Tool)))
	return &words
}
