package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// compactions are scenarios of histories that are larger than the model's window.
var compactions = []scenario{
	{"compact", (*scene).compact},
	{"compact-turn", (*scene).compactTurn},
	{"compact-crash", (*scene).compactCrash},
	{"compact-crash-staged", (*scene).compactCrashStaged},
	{"compact-crash-after", (*scene).compactCrashAfter},
	{"compact-refused", (*scene).compactRefused},
	{"compact-refused-twice", (*scene).compactRefusedTwice},
	{"compact-provider", (*scene).compactProvider},
	{"compact-by-hand", (*scene).compactByHand},
	{"compact-by-hand-crash", (*scene).compactByHandCrash},
}

// window is the size of the model's window in tokens.
const window = 1100

// narrow sets a bot whose model has a small window. The model rejects requests that are larger, and requests that
// no provider would accept. Asked to "read 3", it reads three pages, one after the other; to anything else it
// answers with a word. Its summary lists what the user has said. The process stored in dies dies while the next
// summary is made.
func (s *scene) narrow(known bool) (dies *atomic.Pointer[process]) {
	dies = new(atomic.Pointer[process])
	a := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		size := 0
		for i := range req.Messages {
			for _, p := range req.Messages[i].Parts {
				if size += len(p.Text); p.Result != nil {
					size += len(p.Result.Output)
				}
			}
		}
		size /= 4
		switch err := wellFormed(req.Messages); {
		case err != nil:
			return scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "malformed request: %w", err))
		case size > window:
			s.count("a refusal")
			return scripted.Fail(cairn.Errorf(cairn.ErrContextLength, "%d tokens are too many", size))
		case req.System == cairn.SummaryInstructions:
			s.count("the summary")
			if p := dies.Swap(nil); p != nil {
				p.die()
			}
			return scripted.Text(summed(req.Messages[0].Text())).Usage(int64(size), 10)
		}
		return reading(req).Usage(int64(size), 10)
	}), s.tool("read", func(_ context.Context, _ *cairn.Call, in words) (string, error) {
		return "page " + in.Text + strings.Repeat(" and words", 40), nil
	}), s.refund())
	if known {
		a.Compaction = &cairn.Compaction{Window: window}
	}
	s.agents = []*cairn.Agent{a}
	return dies
}

// summed returns the summary of a conversation that is given as text.
func summed(text string) string {
	const before = "The user said "
	var said []string
	for line := range strings.Lines(text) {
		if _, earlier, ok := strings.Cut(line, before); ok {
			said = append(said, strings.TrimSuffix(strings.TrimSpace(earlier), "."))
		} else if words, ok := strings.CutPrefix(line, "user: "); ok {
			said = append(said, strings.TrimSpace(words))
		}
	}
	return before + strings.Join(said, ", ") + "."
}

// reading reads the next page that a conversation asks for. Each page states its number and how many there are, so
// the latest message suffices.
func reading(req *cairn.Request) scripted.Step {
	last := len(req.Messages) - 1
	for req.Messages[last].Hidden {
		last--
	}
	read, of := 0, 0
	m := &req.Messages[last]
	if results := m.ToolResults(); len(results) > 0 {
		_, _ = fmt.Sscanf(string(results[0].Output), `"page %d of %d`, &read, &of)
	} else {
		_, _ = fmt.Sscanf(m.Text(), "read %d", &of)
	}
	if m.Text() == "refund it" {
		return asks("r1", "refund", "42")
	}
	if read < of {
		return asks(fmt.Sprint("c", read+1), "read", fmt.Sprintf("%d of %d", read+1, of))
	}
	return scripted.Text("Done.")
}

// summarises reports whether the operation commits a summary.
func summarises(o operation) bool {
	if o.commit == nil {
		return false
	}
	for i := range o.commit.Messages {
		if o.commit.Messages[i].Summary != nil {
			return true
		}
	}
	return false
}

// within fails the scene if the model rejected a request, or if fewer than the given number of summaries was made.
func (s *scene) within(summaries int) {
	s.Helper()
	s.mu.Lock()
	refused, made := s.ran["a refusal"], s.ran["the summary"]
	s.mu.Unlock()
	if refused > 0 || made < summaries {
		s.Errorf("%d requests were larger than the window, %d summaries were made", refused, made)
	}
}

// A conversation outgrows the window. Two processes alternate, and each reads what the other has summarized. In a
// branch from before the summary, the model reads the original messages.
func (s *scene) compact() {
	s.narrow(true)
	one, two := s.process(), s.process()
	for n, p := range []*process{one, two, one, two, one, two} {
		p.turn("s", fmt.Sprintf("read 3 to the %s", []string{"sun", "moon", "sea", "rain", "wind", "snow"}[n]))
	}
	s.within(2)
	_, err := two.Branch(s.Context(), "s", "early", engine.AtMessage(4))
	s.must(err)
	one.turn("early", "hello")
	s.roots = []string{"s", "early"}
}

// A single turn outgrows the window. Its history is cut between its steps, and the turn continues.
func (s *scene) compactTurn() {
	s.narrow(true)
	one, two := s.process(), s.process()
	one.turn("s", "read 18")
	s.within(2)
	two.turn("s", "hello")
}

// A process dies while it makes a summary: the next process makes it again.
func (s *scene) compactCrash() {
	dies := s.narrow(true)
	s.agents[0].Durability = cairn.PerTool
	one := s.process(s.mortal())
	dies.Store(one)
	s.awaitDeath(one.start("s", "read 10"))
	if row := s.row("s"); row.Summary != (cairn.SummaryPlace{}) {
		s.Errorf("the summary is at %+v", row.Summary)
	}
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	s.within(2)
	two.turn("s", "hello")
}

// A process dies before it commits the step that it made a summary for. As the step's reply is staged, so is the
// summary.
func (s *scene) compactCrashStaged() {
	s.narrow(true)
	s.agents[0].Durability = cairn.PerTool
	one := s.process(s.mortal())
	one.dieBefore(summarises)
	s.resumeCompacted(one)
}

// A process dies after its summary is committed: the next process reads it.
func (s *scene) compactCrashAfter() {
	s.narrow(true)
	one := s.process(s.mortal())
	one.dieAfter(summarises)
	s.resumeCompacted(one)
}

// resumeCompacted makes a process die in a turn that makes a summary, and another process resume it.
func (s *scene) resumeCompacted(dies *process) {
	s.awaitDeath(dies.start("s", "read 10"))
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	s.within(1)
	two.turn("s", "hello")
}

// The window is unknown and the provider rejects a request as too long: the request is made again with a summary.
func (s *scene) compactRefused() {
	s.narrow(false)
	one, two := s.process(), s.process()
	one.turn("s", "read 18")
	two.turn("s", "hello")
	if s.row("s").Summary.At == 0 {
		s.Error("there is no summary")
	}
}

// If a summary does not shorten the request enough, the turn fails. The session stays usable.
func (s *scene) compactRefusedTwice() {
	s.narrow(false)
	one, two := s.process(), s.process()
	one.turn("s", "read 5")
	res := two.turn("s", "hello "+strings.Repeat("word ", window))
	s.want("a message that is larger than the window", res.Error, cairn.ErrContextLength)
	s.must(func() error { _, err := one.Rewind(s.Context(), "s", s.row("s").CheckpointID); return err }())
	one.turn("s", "hello")
}

// compacts is a model whose provider compacts conversations. Its output states the number of messages it was given,
// and contains its previous output.
type compacts struct {
	cairn.Model
	s    *scene
	dies *atomic.Pointer[process]
}

func (c *compacts) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "test", Name: "compacts"} }

func (c *compacts) Compact(_ context.Context, req *cairn.Request) (cairn.Compacted, error) {
	c.s.count("the provider's summary")
	if p := c.dies.Swap(nil); p != nil {
		p.die()
	}
	before := json.RawMessage("null")
	if earlier := req.Messages[0].Parts[0].Provider; earlier != nil {
		before = earlier
	}
	return cairn.Compacted{Provider: fmt.Appendf(nil, `{"messages":%d,"before":%s}`, len(req.Messages), before), Usage: cairn.Usage{InputTokens: 100, OutputTokens: 1}}, nil
}

// The provider compacts the history too, into its own form, which contains the previous one. A process dies during
// that, and the process that takes over the turn requests it again.
func (s *scene) compactProvider() {
	dies := s.narrow(true)
	a := s.agents[0]
	a.Durability, a.Compaction.ByProvider, a.Model = cairn.PerTool, true, &compacts{Model: a.Model, s: s, dies: dies}
	one := s.process(s.mortal())
	dies.Store(one)
	s.awaitDeath(one.start("s", "read 18"))
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	s.within(2)
	two.turn("s", "hello")
}

// A session is compacted by hand, in another process than the one that has it in its cache, but not while a call is
// pending.
func (s *scene) compactByHand() {
	s.narrow(true)
	one, two := s.process(), s.process()
	one.turn("s", "read 2")
	_, err := two.Compact(s.Context(), "s")
	s.must(err)
	_, err = two.Compact(s.Context(), "s")
	s.want("a summary of nothing", err, cairn.ErrInvalid)
	one.turn("s", "refund it")
	_, err = two.Compact(s.Context(), "s")
	s.want("a summary while a call is open", err, cairn.ErrWaiting)
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	one.resume("s")
	_, err = one.Compact(s.Context(), "nobody")
	s.want("a summary of no session", err, cairn.ErrNotFound)
}

// A process dies after it has committed a compaction and before that is on the log. The next run publishes it.
func (s *scene) compactByHandCrash() {
	s.narrow(true)
	s.process().turn("s", "read 2")
	two := s.process(s.mortal())
	two.dieAfter(summarises)
	if _, err := two.Compact(s.Context(), "s"); err == nil {
		s.Fatal("a dead process has compacted a session")
	}
	s.process().turn("s", "hello")
}
