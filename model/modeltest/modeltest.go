// Package modeltest is the suite that every implementation of [cairn.Model] passes. Run it from a test:
//
//	func TestModel(t *testing.T) {
//		modeltest.Run(t, func(testing.TB) cairn.Model { return mymodel.New() }, &modeltest.Options{
//			Without: []modeltest.Ability{modeltest.Stalls, modeltest.Failures},
//		})
//	}
//
// Options has the requests that make the model show each tested ability. Options.Without names abilities that a model
// lacks; their subtests are skipped. The default requests suit a language model, and any model that repeats its input.
// To test a model that wraps another one, let it wrap [Sample].
//
// The suite tests the contract between a model and an engine, not the requests that an adapter sends to its provider.
package modeltest

import (
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

// OpenModel returns a model to test, and registers its cleanup with tb. It is called once for each check; it may return
// the same model each time.
type OpenModel func(tb testing.TB) cairn.Model

// Ability is something that the suite tests and that not every model can do.
type Ability string

const (
	Calls    Ability = "calls"    // the model calls tools: Options.Call
	Usage    Ability = "usage"    // the model reports its usage
	Stalls   Ability = "stalls"   // a reply can be made to stall: Options.Stall
	Failures Ability = "failures" // a reply can be made to fail: Options.Fail
)

// Options describes a model's abilities and how to make it show them. Its functions return requests, which differ from
// others only in their content: checks run in parallel. They return a new value each time.
type Options struct {
	// Text returns a request that the model answers with a text that contains words. nil means a user's message that
	// asks for it in English.
	Text func(words string) *cairn.Request
	// Call returns a request that the model answers with at least one call, whose arguments contain words in a JSON
	// string. nil means a user's message that asks for it in English, with a tool that must be called.
	Call func(words string) *cairn.Request
	// Stall returns a request whose reply begins, with a chunk at least, and then sends nothing for a minute or longer,
	// until its context is done or its reader stops. Required, unless Stalls is left out.
	Stall func() *cairn.Request
	// Fail returns a request that fails with an error of a code of CategoryModel; nil if the model has no such
	// failure. Required, unless Failures is left out.
	Fail func(code cairn.Code) *cairn.Request
	// Without lists the abilities that the model lacks.
	Without []Ability
	// Patience is how long a reply may take to end, also once its context is done; 0 means a minute.
	Patience time.Duration
}

const patience = time.Minute

// Run runs the suite, each check as a parallel subtest.
func Run(t *testing.T, open OpenModel, opts *Options) {
	t.Helper()
	declared, problem := opts.declared()
	if problem != "" {
		t.Fatalf("modeltest.Options: %s", problem)
	}
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if slices.Contains(declared.Without, c.needs) {
				t.Skipf("Options.Without leaves out %q", c.needs)
			}
			c.run(&harness{TB: t, model: open(t), opts: declared})
		})
	}
}

// declared returns the options with their defaults. problem describes a mistake in them, or is empty.
func (o *Options) declared() (declared *Options, problem string) {
	declared = &Options{}
	if o != nil {
		*declared = *o
	}
	for _, one := range declared.Without {
		if !slices.Contains([]Ability{Calls, Usage, Stalls, Failures}, one) {
			return nil, `Without names "` + string(one) + `", which is not an Ability`
		}
	}
	for _, field := range []struct {
		name  string
		set   bool
		needs Ability
		must  bool
	}{
		{"Call", declared.Call != nil, Calls, false},
		{"Stall", declared.Stall != nil, Stalls, true},
		{"Fail", declared.Fail != nil, Failures, true},
	} {
		out := slices.Contains(declared.Without, field.needs)
		switch {
		case out && field.set:
			return nil, field.name + ` is set, but Without names "` + string(field.needs) + `"`
		case field.must && !out && !field.set:
			return nil, field.name + ` is nil: set it, or name "` + string(field.needs) + `" in Without`
		}
	}
	if declared.Patience < 0 {
		return nil, "Patience must not be negative"
	}
	if declared.Text == nil {
		declared.Text = askForText
	}
	if declared.Call == nil {
		declared.Call = askForCall
	}
	if declared.Patience == 0 {
		declared.Patience = patience
	}
	return declared, ""
}

// check is one subtest. It needs an ability unless that is empty.
type check struct {
	name  string
	needs Ability
	run   func(*harness)
}

func checks() []check {
	return slices.Concat(replyChecks, readerChecks, contextChecks, requestChecks, concurrencyChecks, failureChecks(), historyChecks())
}

// askForText is the default of Options.Text.
func askForText(words string) *cairn.Request {
	return say("Answer with exactly these words: " + words)
}

// askForCall is the default of Options.Call.
func askForCall(words string) *cairn.Request {
	req := say("Call the tool with exactly these words: " + words)
	req.Tools = []cairn.ToolSpec{{Name: "note", Description: "Keeps words.", Schema: []byte(
		`{"type":"object","properties":{"words":{"type":"string"}},"required":["words"],"additionalProperties":false}`)}}
	req.Choice.Tool = "note"
	return req
}

// say returns a request of one user's message.
func say(text string) *cairn.Request {
	return &cairn.Request{SessionID: "modeltest", Messages: []cairn.Message{cairn.User(cairn.TextPart(text))}}
}
