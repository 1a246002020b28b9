package plan

import (
	"hash/maphash"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// maxUnread is how many bytes a message may have for each byte of its text, so that a run's text may be read from it: a
// list of runs reads them all.
const maxUnread = 4

// textAt returns [Delta.TextAt] for a commit whose first message has the index first.
func textAt(c *driver.Commit, first int) int {
	text := c.EndRun.Text
	for i := len(c.Messages) - 1; i >= 0 && text != ""; i-- {
		if m := &c.Messages[i]; m.RunID == c.EndRun.ID && says(m, text) {
			return first + i + 1
		}
	}
	return 0
}

// says reports whether a message consists of a text and little else.
func says(m *cairn.Message, text string) bool {
	left, size := text, 0
	for i := range m.Parts {
		p := &m.Parts[i]
		size += len(p.Text) + len(p.Provider)
		if p.ToolUse != nil {
			size += len(p.ToolUse.Input)
		}
		if p.Type != cairn.PartText {
			continue
		}
		var ok bool
		if left, ok = strings.CutPrefix(left, p.Text); !ok {
			return false
		}
	}
	return left == "" && size <= maxUnread*len(text)
}

// WithoutText returns a run as a store keeps it that keeps textAt, a [Delta.TextAt], for its text.
func WithoutText(run *cairn.Run, textAt int) *cairn.Run {
	if textAt == 0 {
		return run
	}
	own := *run
	own.Text = ""
	return &own
}

// Texts finds the [Delta.TextAt] of a session's runs when all of the session is written at once: its messages first,
// and then its runs, both in their order. The zero value belongs to a session without messages.
type Texts struct {
	messages int
	last     int              // the number of the run before
	replies  map[string]reply // the last message of each run that has little but text
	seed     maphash.Seed
}

type reply struct {
	number int
	text   uint64 // hash
}

// Add adds the next message.
func (t *Texts) Add(m *cairn.Message) {
	t.messages++
	if m.RunID == "" {
		return
	}
	text := m.Text()
	if text == "" || !says(m, text) {
		return
	}
	if t.replies == nil {
		t.replies, t.seed = map[string]reply{}, maphash.MakeSeed()
	}
	t.replies[m.RunID] = reply{t.messages, maphash.String(t.seed, text)}
}

// At returns the number of the message that the next run has its text from; 0 for none.
func (t *Texts) At(run *cairn.Run) int {
	r, ok := t.replies[run.ID]
	if !ok || r.number <= t.last || maphash.String(t.seed, run.Text) != r.text {
		return 0
	}
	t.last = r.number
	return r.number
}
