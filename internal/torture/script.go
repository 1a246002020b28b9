package torture

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/model/scripted"
)

// line is the scripted model's next reply. It depends on the conversation alone.
type line struct {
	digest string // digest of the whole conversation
	text   string // begins with the digest
	uses   []use
	ends   bool // the reply ends the turn
	seed   uint64
}

type use struct {
	tool  string
	input any
}

// next returns the reply to a conversation. An agent with typed output ends its turns with cairn.FinishTool.
func next(session string, messages []cairn.Message, k *kind) line {
	h := fnv.New64a()
	io.WriteString(h, session)
	from := len(messages)
	for from > 0 && messages[from-1].Role != cairn.RoleAssistant {
		from--
	}
	var uses []*cairn.ToolUse
	if from > 0 {
		io.WriteString(h, digestOf(&messages[from-1]))
		uses = messages[from-1].ToolUses()
	}
	results := map[string]*cairn.ToolResult{}
	for _, m := range transcript.Sent(messages[from:]) {
		for _, r := range m.ToolResults() {
			results[r.CallID] = r
		}
	}
	for _, use := range uses { // results reach the model in this order, whichever came first
		if r := results[use.CallID]; r != nil {
			fmt.Fprintf(h, "%s %s %s %t\n", r.CallID, r.Tool, r.Output, r.IsError)
		}
	}
	for i := range messages[from:] {
		if m := &messages[from+i]; m.Role != cairn.RoleTool {
			fmt.Fprintf(h, "%s %t %q\n", m.Role, m.Hidden, m.Text())
		}
	}
	l := line{digest: fmt.Sprintf("#%016x", h.Sum64()), seed: h.Sum64()}
	step, said := stepsSince(messages)
	if wish, ok := strings.CutPrefix(said, please); ok {
		l.obey(wish, step, k)
	} else {
		l.write(rand.New(rand.NewPCG(l.seed, 0)), step, k)
	}
	return l
}

// isLate reports whether a message is the context row of a late answer. It belongs to no run if none held the session when
// it came; other messages belong to one.
func isLate(m *cairn.Message) bool { return m.Hidden && strings.HasPrefix(m.ID, "answer_") }

// isLeft reports whether a message describes an effect of a step that was discarded when its run ended.
func isLeft(m *cairn.Message) bool { return m.Hidden && strings.HasPrefix(m.ID, "left_") }

// digestOf returns the digest that a reply begins with; empty if there is none.
func digestOf(m *cairn.Message) string {
	word, _, _ := strings.Cut(m.Text(), " ")
	if m.Role != cairn.RoleAssistant || !strings.HasPrefix(word, "#") {
		return "" // stopped before its first word
	}
	return word
}

// stepsSince counts the replies since the last user message, and returns that message's text.
func stepsSince(messages []cairn.Message) (n int, said string) {
	for i := len(messages) - 1; i >= 0; i-- {
		switch m := &messages[i]; {
		case m.Role == cairn.RoleAssistant:
			n++
		case m.Role == cairn.RoleUser && !m.Hidden:
			return n, m.Text()
		}
	}
	return n, ""
}

// please begins a message that requests tools by name, and then the end of the turn. What follows a colon is for
// the consulted agent.
const please = "please "

func (l *line) obey(wish string, step int, k *kind) {
	l.text = l.digest + " as you wish"
	if l.ends = step > 0; l.ends {
		if k.typed {
			l.uses = append(l.uses, use{cairn.FinishTool, amount{1}})
		}
		return
	}
	for word := range strings.FieldsSeq(wish) {
		tool, rest, _ := strings.Cut(word, ":")
		switch {
		case tool == k.mate:
			l.uses = append(l.uses, use{cairn.CompanionSpawn, message{Agent: tool, Name: tool, Message: please + rest}})
		case tool == k.consults:
			l.uses = append(l.uses, use{tool, task{please + rest}})
		default:
			l.uses = append(l.uses, use{tool, amount{7}})
		}
	}
}

var words = strings.Fields("stone on stone beside the path where the way is not clear someone has been here before")

func (l *line) write(rng *rand.Rand, step int, k *kind) {
	said := []string{l.digest}
	for range 2 + rng.IntN(8) {
		said = append(said, words[rng.IntN(len(words))])
	}
	l.text = strings.Join(said, " ")
	l.ends = step >= k.longest-1 || rng.IntN(10) < []int{1, 2, 4, 5}[step]
	calls := 1 + rng.IntN(3)
	switch {
	case step >= k.longest: // a call beside the end of the turn has failed
		calls = 0
	case l.ends || k.typed && rng.IntN(6) == 0:
		calls = rng.IntN(3)
	}
	for range calls {
		l.uses = append(l.uses, k.draw(rng))
	}
	switch {
	case l.ends && k.typed:
		l.uses = append(l.uses, use{cairn.FinishTool, amount{rng.IntN(100)}})
	case l.ends && (calls > 0 || rng.IntN(2) == 0):
		l.uses = append(l.uses, use{toolClose, amount{rng.IntN(100)}})
	}
}

// step streams the line as the model does. With fail, the model fails halfway.
func (l *line) step(fail bool) scripted.Step {
	parts := []scripted.Step{scripted.Text(l.text)}
	if l.seed%3 == 0 {
		pause := time.Duration(l.seed>>8%3000) * time.Microsecond
		head, tail := l.text[:len(l.text)/2], l.text[len(l.text)/2:]
		parts = []scripted.Step{scripted.Text(head), scripted.Pause(pause), scripted.Text(tail)}
	}
	if fail {
		return scripted.Reply(parts[0], scripted.Fail(cairn.Errorf(cairn.ErrOverloaded, "the model is out of breath")))
	}
	for i, u := range l.uses { // an id that a run used which was undone would be the same effect again
		parts = append(parts, scripted.Call(u.tool, u.input).ID(fmt.Sprintf("call_%016x_%d", l.seed, i)))
	}
	return scripted.Reply(parts...)
}

func newModel(j *journal, k *kind) cairn.Model {
	var failed sync.Map
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		l := next(req.SessionID, req.Messages, k)
		fail := false
		if l.seed%8 == 1 {
			_, before := failed.LoadOrStore(l.digest, true)
			fail = !before
		}
		j.write(record{Kind: modelCalled, Session: req.SessionID, Digests: []string{l.digest}})
		return l.step(fail)
	})
}
