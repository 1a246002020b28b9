package torture

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// ledger is the sessions' state. A write that is lost or done twice shows in Entries, one out of order in the others.
type ledger struct {
	Entries []entry `json:"entries"`
	Total   int     `json:"total"`
	Last    string  `json:"last"`
}

type entry struct {
	Call string `json:"call"`
	N    int    `json:"n"`
}

// amount is what the tools take, receipt what they answer: the total they wrote.
type amount struct {
	N int `json:"n"`
}

type receipt struct {
	N     int `json:"n"`
	Total int `json:"total"`
}

// The tools. Each adds to the ledger but toolFail.
const (
	toolAdd   = "add"
	toolNote  = "note"  // also adds a context row
	toolMark  = "mark"  // also asks for a checkpoint
	toolFail  = "fail"  // is an error
	toolClose = "close" // ends the turn
)

// longestTurn bounds the steps of a turn.
const longestTurn = 5

// line is what the scripted model says next. It follows from the conversation alone.
type line struct {
	digest string // of the whole conversation
	text   string // begins with the digest
	uses   []use
	ends   bool // the turn
	seed   uint64
}

type use struct {
	tool  string
	input amount
}

// next writes the line that follows a conversation. An agent with typed output ends its turns with cairn.FinishTool.
func next(session string, messages []cairn.Message, typed bool) line {
	h := fnv.New64a()
	io.WriteString(h, session)
	from := 0
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == cairn.RoleAssistant {
			io.WriteString(h, digestOf(&messages[i]))
			from = i + 1
			break
		}
	}
	for i := range messages[from:] {
		m := &messages[from+i]
		fmt.Fprintf(h, "%s %t %q\n", m.Role, m.Hidden, m.Text())
		for _, r := range m.ToolResults() {
			fmt.Fprintf(h, "%s %s %s %t\n", r.CallID, r.Tool, r.Output, r.IsError)
		}
	}
	l := line{digest: fmt.Sprintf("#%016x", h.Sum64()), seed: h.Sum64()}
	l.write(rand.New(rand.NewPCG(l.seed, 0)), stepsSince(messages), typed)
	return l
}

// digestOf returns the digest a reply begins with, or "".
func digestOf(m *cairn.Message) string {
	word, _, _ := strings.Cut(m.Text(), " ")
	if m.Role != cairn.RoleAssistant || !strings.HasPrefix(word, "#") {
		return ""
	}
	return word
}

// stepsSince counts the replies since somebody spoke.
func stepsSince(messages []cairn.Message) int {
	n := 0
	for i := len(messages) - 1; i >= 0; i-- {
		switch m := &messages[i]; {
		case m.Role == cairn.RoleAssistant:
			n++
		case m.Role == cairn.RoleUser && !m.Hidden:
			return n
		}
	}
	return n
}

var words = strings.Fields("stone on stone beside the path where the way is not clear someone has been here before")

func (l *line) write(rng *rand.Rand, step int, typed bool) {
	said := []string{l.digest}
	for range 2 + rng.IntN(8) {
		said = append(said, words[rng.IntN(len(words))])
	}
	l.text = strings.Join(said, " ")
	l.ends = step >= longestTurn-1 || rng.IntN(10) < []int{1, 2, 4, 5}[step]
	calls := 1 + rng.IntN(3)
	if l.ends || typed && rng.IntN(6) == 0 {
		calls = rng.IntN(3)
	}
	for range calls {
		tool := []string{toolAdd, toolAdd, toolNote, toolMark, toolFail}[rng.IntN(5)]
		l.uses = append(l.uses, use{tool, amount{rng.IntN(100)}})
	}
	switch {
	case l.ends && typed:
		l.uses = append(l.uses, use{cairn.FinishTool, amount{rng.IntN(100)}})
	case l.ends && (calls > 0 || rng.IntN(2) == 0):
		l.uses = append(l.uses, use{toolClose, amount{rng.IntN(100)}})
	}
}

// step is the line as the model streams it. Now and then the model fails half-way, at its first try in a process.
func (l *line) step(fail bool) scripted.Step {
	parts := []scripted.Step{scripted.Text(l.text)}
	if l.seed%3 == 0 {
		pause := time.Duration(l.seed>>8%3000) * time.Microsecond
		head, tail := l.text[:len(l.text)/2], l.text[len(l.text)/2:]
		parts = []scripted.Step{scripted.Text(head), scripted.Pause(pause), scripted.Text(tail)}
	}
	if fail {
		return scripted.Reply(parts[0], scripted.Fail(cairn.Errorf(cairn.CodeOverloaded, "the model is out of breath")))
	}
	for _, u := range l.uses {
		parts = append(parts, scripted.Call(u.tool, u.input))
	}
	return scripted.Reply(parts...)
}

// actors returns the agents, one per session of a group, whose model and tools write to the journal.
func actors(j *journal) []*cairn.Agent {
	var list []*cairn.Agent
	for _, kind := range kinds {
		a := &cairn.Agent{
			Name: kind.name, Durability: kind.durability, State: cairn.StateOf(ledger{}), Model: newModel(j, kind.typed),
			Retry: &cairn.RetryPolicy{First: time.Millisecond},
			Tools: []cairn.Tool{newTool(j, toolAdd), newTool(j, toolNote), newTool(j, toolMark), newTool(j, toolFail)},
		}
		if kind.typed {
			a.Output = cairn.OutputOf[amount]()
		} else {
			a.Tools = append(a.Tools, newTool(j, toolClose, cairn.FinishWith()))
		}
		list = append(list, a)
	}
	return list
}

// kinds are the kinds of agents.
var kinds = []struct {
	name       string
	durability cairn.Durability
	typed      bool // has a typed output
}{
	{"per-step", cairn.PerStep, false},
	{"per-step-typed", cairn.PerStep, true},
	{"per-tool", cairn.PerTool, false},
	{"per-tool-typed", cairn.PerTool, true},
	{"interval", cairn.Interval(5 * time.Millisecond), false},
	{"manual-typed", cairn.Manual, true},
}

// isTyped reports whether the sessions of an agent end their turns with cairn.FinishTool.
func isTyped(agent string) bool { return strings.HasSuffix(agent, "-typed") }

func newModel(j *journal, typed bool) cairn.Model {
	var failed sync.Map
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		l := next(req.SessionID, req.Messages, typed)
		fail := false
		if l.seed%8 == 1 {
			_, before := failed.LoadOrStore(l.digest, true)
			fail = !before
		}
		j.write(record{Kind: modelCalled, Session: req.SessionID, Digests: []string{l.digest}})
		return l.step(fail)
	})
}

func newTool(j *journal, name string, opts ...cairn.ToolOption) cairn.Tool {
	return cairn.Func(name, "Adds to the ledger.", func(ctx context.Context, call *cairn.Call, in amount) (receipt, error) {
		j.write(record{Kind: toolStarted, Session: call.SessionID, Call: call.ID, Key: call.IdempotencyKey()})
		defer j.write(record{Kind: toolEnded, Session: call.SessionID, Call: call.ID, Key: call.IdempotencyKey()})
		timer := time.NewTimer(time.Duration(in.N%20) * 100 * time.Microsecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return receipt{}, ctx.Err()
		}
		if name == toolFail {
			return receipt{}, errors.New("failed " + strconv.Itoa(in.N))
		}
		s, err := cairn.State[ledger](call)
		if err != nil {
			return receipt{}, err
		}
		out := receipt{N: in.N, Total: s.Total + in.N}
		switch name {
		case toolMark:
			call.Checkpoint()
		case toolNote:
			err = call.AddContext(note(call.ID))
		}
		return out, errors.Join(err,
			call.Append([]string{"entries"}, entry{call.ID, in.N}),
			call.Set([]string{"total"}, out.Total),
			call.Set([]string{"last"}, call.ID))
	}, opts...)
}

// note is the text of the context row that toolNote adds.
func note(callID string) string { return "noted " + callID }
