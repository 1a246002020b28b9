package scale

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// The average lengths of the texts of a turn, in bytes: a question, the result of a tool, and an answer.
const (
	question = 150
	result   = 1000
	answer   = 200
)

// Conversation is one session whose turns have two steps with a tool call in between. It measures what a store needs
// for each byte of text.
type Conversation struct {
	tb        testing.TB
	eng       *engine.Engine
	session   string
	texts     int
	summaries int
	// Bytes is the length of all texts so far.
	Bytes int
}

// NewConversation returns a conversation without turns. Its engine is closed when the test ends, before the store is.
func NewConversation(tb testing.TB, st driver.Store) *Conversation {
	tb.Helper()
	return newConversation(tb, st, "session", 0)
}

// newConversation returns a conversation whose model has a window of so many tokens; 0 means that nothing fills it.
func newConversation(tb testing.TB, st driver.Store, session string, window int) *Conversation {
	tb.Helper()
	c := &Conversation{tb: tb, session: session}
	type input struct{}
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{cairn.Func("look_up", "Look it up.",
		func(context.Context, *cairn.Call, input) (string, error) { return c.text(result), nil })},
		Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
			if r.Messages[len(r.Messages)-1].Role == cairn.RoleTool {
				return scripted.Text(c.text(answer))
			}
			return scripted.Call("look_up", input{})
		})}
	agent.Compaction = &cairn.Compaction{Window: window, Off: window == 0, Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		c.summaries++
		return scripted.Text("What was said before.")
	})}
	var err error
	// The deltas of a step arrive at once, except on a busy machine.
	opts := &engine.Options{Coalesce: time.Second}
	if c.eng, err = engine.New(st, []*cairn.Agent{agent}, opts); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.eng.Close(context.Background()) })
	return c
}

// text returns the next text. Lengths vary from half of the average to one and a half times it, since rows of equal
// length fill pages better or worse than those of users.
func (c *Conversation) text(average int) string {
	c.texts++
	length := average/2 + average*(c.texts*61%101)/100
	c.Bytes += length
	return strings.Repeat("All that there is to say. ", length/26+1)[:length]
}

// Turn makes a turn.
func (c *Conversation) Turn() {
	c.tb.Helper()
	run, err := c.eng.Execute(c.tb.Context(), c.session, "bot", cairn.Text(c.text(question)))
	if err != nil {
		c.tb.Fatal(err)
	}
	if _, err := run.Wait(c.tb.Context()); err != nil {
		c.tb.Fatal(err)
	}
}
