package modeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

// harness is what a check has: the test, the model and what it can do.
type harness struct {
	testing.TB
	model cairn.Model
	opts  *Options
}

// element is one pair of a sequence.
type element struct {
	chunk cairn.Chunk
	err   error
}

// reply is what a reader got from a sequence.
type reply struct {
	elements []element
	late     int    // elements that were offered after the reader had stopped
	panicked string // the value and the stack
	hung     bool   // the sequence did not end in time; nothing else is known
}

// reading is a sequence that is being read.
type reading struct {
	done  chan struct{}
	reply *reply // valid once done is closed
}

// begin reads a sequence in a goroutine of its own. each is called after each element and reports whether the reader
// wants more; nil wants everything.
func begin(read func() func(func(cairn.Chunk, error) bool), each func(n int) bool) *reading {
	r := &reading{done: make(chan struct{}), reply: &reply{}}
	go func() {
		defer close(r.done)
		defer func() {
			if v := recover(); v != nil {
				r.reply.panicked = fmt.Sprintf("%v\n%s", v, debug.Stack())
			}
		}()
		stopped := false
		read()(func(c cairn.Chunk, err error) bool {
			if stopped {
				r.reply.late++
				return false
			}
			r.reply.elements = append(r.reply.elements, element{c, err})
			runtime.Gosched() // others may read in between
			stopped = each != nil && !each(len(r.reply.elements))
			return !stopped
		})
	}()
	return r
}

// wait returns the reply once the sequence has ended, or one that hung after the test's patience.
func (h *harness) wait(r *reading) *reply {
	timer := time.NewTimer(h.opts.Patience)
	defer timer.Stop()
	select {
	case <-r.done:
		return r.reply
	case <-timer.C:
		return &reply{hung: true}
	}
}

// begin starts a call and reads its reply.
func (h *harness) begin(ctx context.Context, req *cairn.Request, each func(n int) bool) *reading {
	return begin(func() func(func(cairn.Chunk, error) bool) { return h.model.Stream(ctx, req) }, each)
}

// ask makes a call and reads its reply to the end.
func (h *harness) ask(ctx context.Context, req *cairn.Request) *reply {
	return h.wait(h.begin(ctx, req, nil))
}

// text returns a request for a text, call for a call.
func (h *harness) text(words string) *cairn.Request { return h.made("Text", h.opts.Text(words)) }
func (h *harness) call(words string) *cairn.Request { return h.made("Call", h.opts.Call(words)) }

func (h *harness) made(field string, req *cairn.Request) *cairn.Request {
	h.Helper()
	if req == nil {
		h.Fatalf("modeltest.Options: %s returned no request", field)
	}
	return req
}

// replies returns a reply of each kind that the model can give, by the name of what it was asked for.
func (h *harness) replies() map[string]*reply {
	list := map[string]*reply{"a text": h.ask(h.Context(), h.text("green lamp"))}
	if !h.without(Calls) {
		list["a call"] = h.ask(h.Context(), h.call("blue lamp"))
	}
	for what, r := range list {
		if problem := r.broken(); problem != "" {
			h.Fatalf("asked for %s: %s", what, problem)
		}
	}
	return list
}

func (h *harness) without(a Ability) bool {
	for _, one := range h.opts.Without {
		if one == a {
			return true
		}
	}
	return false
}

// broken returns why nothing can be said about a reply: it hung, or its model panicked.
func (r *reply) broken() string {
	switch {
	case r.hung:
		return "the sequence did not end"
	case r.panicked != "":
		return "the model panicked: " + r.panicked
	}
	return ""
}

// err returns the first error.
func (r *reply) err() error {
	for _, e := range r.elements {
		if e.err != nil {
			return e.err
		}
	}
	return nil
}

// last returns the last element; the zero value if there is none.
func (r *reply) last() element {
	if len(r.elements) == 0 {
		return element{}
	}
	return r.elements[len(r.elements)-1]
}

// valid returns the chunks of the reply, without those before a ChunkRestart.
func (r *reply) valid() []cairn.Chunk {
	var list []cairn.Chunk
	for _, e := range r.elements {
		switch {
		case e.err != nil:
		case e.chunk.Type == cairn.ChunkRestart:
			list = nil
		default:
			list = append(list, e.chunk)
		}
	}
	return list
}

// text returns the text of the reply.
func (r *reply) text() string {
	var b strings.Builder
	for _, c := range r.valid() {
		if c.Type == cairn.ChunkText {
			b.WriteString(c.Text)
		}
	}
	return b.String()
}

// args returns the strings in the arguments of the reply's calls.
func (r *reply) args() string {
	var b strings.Builder
	for _, c := range r.valid() {
		if c.Type == cairn.ChunkToolArgs {
			b.WriteString(c.Text)
		}
	}
	var all []string
	for d := json.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if err != nil {
			return strings.Join(all, "\n")
		}
		if s, ok := token.(string); ok {
			all = append(all, s)
		}
	}
}

// unanswered returns why a reply is not a text with the words; empty if it is. It leaves the form of the reply to the
// checks of that.
func (r *reply) unanswered(words string) string {
	if problem := r.broken(); problem != "" {
		return problem
	}
	if err := r.err(); err != nil {
		return fmt.Sprintf("the call failed: %v", err)
	}
	if text := r.text(); !strings.Contains(text, words) {
		return fmt.Sprintf("the text %q does not contain %q", text, words)
	}
	return ""
}
