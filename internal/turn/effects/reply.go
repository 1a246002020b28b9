package effects

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// reply assembles the chunks of a model's answer into a message, and publishes the event of each.
type reply struct {
	step    int
	agent   *cairn.Agent
	live    *session.Live
	offered []cairn.Tool // by the agent's toolsets
	logger  *slog.Logger
	parts   []*part
	meter   *meter
	cut     cairn.FinishReason // why the answer is not whole
	// requested is the model that was asked.
	requested string
	ended     bool
	said      bool // something was emitted
	// passed are the events of another server, kept for a process that takes over the step. passedSize is their size in
	// bytes.
	passed     []cairn.Event
	passedSize int
	size       int // of everything received so far, in bytes
	// muted holds the indexes of hooks that are not called again for this reply.
	muted map[int]bool

	mu   sync.Mutex
	over bool // no more chunks are accepted
}

// take adds a chunk, unless the attempt is over.
func (r *reply) take(c *cairn.Chunk) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return cairn.Errorf(cairn.ErrAborted, "the model call was abandoned")
	}
	return r.add(c)
}

// end ends the attempt. What an abandoned model still sends is not part of the reply.
func (r *reply) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

type part struct {
	cairn.Part
	text strings.Builder
	open bool
	id   string // the call's id, as the provider has it
	rest string // an incomplete character, which the next delta may complete
}

// wrapped reports whether the part is a call of [cairn.CallTool]. Which tool that call is for, and so what the log has
// of it, is known only at its end.
func (p *part) wrapped() bool { return p.ToolUse != nil && p.ToolUse.Tool == cairn.CallTool }

// whole returns the part of a delta that can be published now: valid text, with U+FFFD for what is invalid.
func (p *part) whole(delta string) string {
	text := p.rest + delta
	n := begun(text)
	p.rest = text[len(text)-n:]
	return limits.Clean(text[:len(text)-n])
}

// begun returns how many bytes at the end of a text are the start of an incomplete character.
func begun(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRuneInString(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// maxToolName bounds the name of a tool that a model makes up. Names of real tools are shorter.
const maxToolName = 128

// maxModelName bounds the name of a fallback model.
const maxModelName = 256

func (r *reply) last(t cairn.PartType) *part {
	if n := len(r.parts); n > 0 && r.parts[n-1].Type == t && r.parts[n-1].open {
		return r.parts[n-1]
	}
	r.endThinking()
	p := &part{Part: cairn.Part{Type: t}, open: true}
	p.text.Grow(64) // otherwise each of the first deltas grows it
	r.parts = append(r.parts, p)
	return p
}

// endThinking closes the reasoning part if one is open.
func (r *reply) endThinking() {
	if n := len(r.parts); n > 0 && r.parts[n-1].Type == cairn.PartReasoning && r.parts[n-1].open {
		r.parts[n-1].open = false
		r.complete(r.parts[n-1])
		r.partEnded(r.parts[n-1])
	}
}

// partEnded publishes that a part is complete, if parts of its type have such an event.
func (r *reply) partEnded(p *part) {
	if ev, ok := journal.PartEnded(r.step, &p.Part); ok {
		r.say(ev)
	}
}

// keep stores a chunk's provider data, which the provider wants back, and its sources in the part.
func (p *part) keep(c *cairn.Chunk) {
	if c.Provider != nil {
		p.Provider, p.Model = c.Provider, limits.Clean(c.Model)
	}
	for _, s := range c.Sources {
		p.Sources = append(p.Sources, cairn.Source{URL: limits.Clean(s.URL), Title: limits.Clean(s.Title), Quote: limits.Clean(s.Quote)})
	}
}

// endPart closes the text or reasoning under way.
func (r *reply) endPart(c *cairn.Chunk) error {
	n := len(r.parts)
	if n == 0 || !r.parts[n-1].open || r.parts[n-1].Type == cairn.PartToolUse {
		return cairn.Errorf(cairn.ErrModel, "the model ended a part that it did not begin")
	}
	p := r.parts[n-1]
	p.keep(c)
	if p.Type == cairn.PartReasoning {
		r.endThinking()
		return nil
	}
	r.complete(p)
	p.open = false
	r.partEnded(p)
	return nil
}

// complete ends a part that broke off within a character with U+FFFD.
func (r *reply) complete(p *part) {
	if p.rest == "" {
		return
	}
	p.rest = ""
	p.text.WriteRune(utf8.RuneError)
	if !p.wrapped() {
		r.say(journal.Delta(r.step, &p.Part, string(utf8.RuneError)))
	}
}

// bounds returns an error if a chunk makes the reply one that cannot be stored. It replaces characters of the provider's
// data that cannot.
func (r *reply) bounds(c *cairn.Chunk) error {
	r.size += len(c.Text) + len(c.Provider)
	for _, s := range c.Sources {
		r.size += len(s.URL) + len(s.Title) + len(s.Quote)
	}
	if c.File != nil {
		r.size += len(c.File.Data) + len(c.File.URL)
	}
	if problem := limits.Size(r.size); problem != "" {
		return cairn.Errorf(cairn.ErrModelReply, "the model's reply %s", problem)
	}
	if len(c.Provider) == 0 {
		return nil
	}
	clean, problem := limits.CleanJSON(c.Provider)
	if problem != "" {
		return cairn.Errorf(cairn.ErrModelReply, "the provider data of the model's reply %s", problem)
	}
	c.Provider = clean
	return nil
}

func (r *reply) say(ev cairn.Event) {
	r.said = true
	r.live.Emit.Event(ev)
}

// add adds one chunk, and makes its text storable. An error means that the model's stream is not a valid reply, or not
// one that can be stored.
func (r *reply) add(c *cairn.Chunk) error {
	if err := r.bounds(c); err != nil {
		return err
	}
	switch c.Type {
	case cairn.ChunkText:
		r.addText(c)
	case cairn.ChunkReasoning:
		r.addReasoning(c)
	case cairn.ChunkPartEnd:
		return r.endPart(c)
	case cairn.ChunkProvider:
		if c.Provider == nil {
			return cairn.Errorf(cairn.ErrModel, "the model sent an invalid provider item")
		}
		r.endThinking()
		p := &part{Part: cairn.Part{Type: cairn.PartProvider}}
		p.keep(c)
		r.parts = append(r.parts, p)
		r.partEnded(p)
	case cairn.ChunkToolStart:
		r.beginCall(c)
	case cairn.ChunkToolArgs:
		return r.addArguments(c)
	case cairn.ChunkFile:
		if c.File == nil {
			return cairn.Errorf(cairn.ErrModel, "the model sent an invalid file")
		}
		r.endThinking()
		r.parts = append(r.parts, &part{Part: cairn.Part{Type: cairn.PartFile, File: c.File}})
	case cairn.ChunkModel:
		if c.Model == "" || len(r.parts) > 0 {
			return cairn.Errorf(cairn.ErrModel, "the model must be named before its reply begins")
		}
		r.meter.model = limits.Cut(limits.Clean(c.Model), maxModelName)
		r.say(journal.Fallback(r.step, r.meter.model, r.requested))
	case cairn.ChunkEvent:
		return r.pass(c.Event)
	case cairn.ChunkUsage:
		if err := r.meter.report(c); err != nil {
			r.logger.Warn("invalid usage of a model call ignored", "session", r.live.Row.ID, "step", r.step, "error", err)
		}
	case cairn.ChunkRestart:
		r.restart(c.Text)
	case cairn.ChunkFinish:
		r.ended = true
		if c.FinishReason == cairn.FinishReasonLength || c.FinishReason == cairn.FinishReasonWindow {
			r.cut = c.FinishReason
		}
	default:
		return cairn.Errorf(cairn.ErrModel, "the model sent a chunk of unknown type %q", c.Type)
	}
	return nil
}

func (r *reply) addText(c *cairn.Chunk) {
	if c.Text == "" {
		return
	}
	p := r.last(cairn.PartText)
	if c.Text = p.whole(c.Text); c.Text == "" {
		return
	}
	p.text.WriteString(c.Text)
	r.say(journal.Delta(r.step, &p.Part, c.Text))
}

// addReasoning also keeps the provider's data, which a chunk without text may carry.
func (r *reply) addReasoning(c *cairn.Chunk) {
	p := r.last(cairn.PartReasoning)
	c.Text = p.whole(c.Text)
	p.text.WriteString(c.Text)
	p.keep(c)
	if c.Text != "" {
		r.say(journal.Delta(r.step, &p.Part, c.Text))
	}
}

// beginCall adds a tool call. Its arguments follow in later chunks.
func (r *reply) beginCall(c *cairn.Chunk) {
	r.endThinking()
	tool := limits.Cut(limits.Clean(c.Tool), maxToolName)
	id := r.callID(c.CallID, tool, c.Awaits != nil)
	p := &part{Part: cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: tool, Awaits: storable(c.Awaits)}}, open: true, id: c.CallID}
	p.keep(c)
	r.parts = append(r.parts, p)
	if ev, _ := journal.PartBegan(r.step, &p.Part); !p.wrapped() {
		r.say(ev)
	}
}

// storable returns what a call of another server waits for, with U+FFFD in place of characters that cannot be stored.
func storable(a *cairn.Awaits) *cairn.Awaits {
	if a == nil {
		return nil
	}
	clean := *a
	clean.Prompt = limits.Clean(a.Prompt)
	if len(a.Payload) > 0 {
		clean.Payload, _ = limits.CleanJSON(a.Payload)
	}
	return &clean
}

// addArguments appends to the arguments of a call that has begun.
func (r *reply) addArguments(c *cairn.Chunk) error {
	p := r.call(c.CallID)
	if p == nil {
		return cairn.Errorf(cairn.ErrModel, "the model sent arguments for a call %q that it did not begin", c.CallID)
	}
	c.Text = p.whole(c.Text)
	p.text.WriteString(c.Text)
	p.keep(c)
	if c.Text != "" && !p.wrapped() {
		r.say(journal.Delta(r.step, &p.Part, c.Text))
	}
	return nil
}

// restart voids what arrived so far, for the reason why.
func (r *reply) restart(why string) {
	if r.said {
		why = cmp.Or(limits.Clean(why), "the model restarted its reply")
		r.say(journal.StepDiscarded(r.step, cairn.Errorf(cairn.ErrModel, "%s", why)))
		r.say(journal.StepStart(r.step))
	}
	r.passed, r.passedSize = nil, 0
	r.parts, r.size, r.said = nil, 0, false
	r.meter.restart()
}

// call returns the call with a provider's id, the last one if the id occurs twice; nil if there is none.
func (r *reply) call(provider string) *part {
	for _, p := range slices.Backward(r.parts) {
		if p.Type == cairn.PartToolUse && p.id == provider {
			return p
		}
	}
	return nil
}

// message closes the reply and returns it; nil if it is empty. A partial reply leaves out calls with incomplete
// arguments.
func (r *reply) message(partial bool) *cairn.Message {
	r.endThinking()
	m := &cairn.Message{Role: cairn.RoleAssistant, Model: r.meter.model, Cut: r.cut}
	for i, p := range r.parts {
		r.complete(p)
		text := p.text.String()
		switch p.Type {
		case cairn.PartText, cairn.PartReasoning:
			p.Text = text
		case cairn.PartToolUse:
			input, ok := arguments(text)
			if partial && (!ok || strings.TrimSpace(text) == "") { // the rest of the arguments is unknown
				continue
			}
			if r.cut != "" && i == len(r.parts)-1 && strings.TrimSpace(text) == "" { // cut before its arguments
				input = json.RawMessage(`""`)
			}
			p.ToolUse.Input = input
			if p.wrapped() {
				define.Unwrap(p.ToolUse)
				journal.Part(r.say, r.step, &p.Part)
				break
			}
			ev, _ := journal.PartEnded(r.step, &p.Part)
			r.say(ev)
		}
		m.Parts = append(m.Parts, p.Part)
	}
	if len(m.Parts) == 0 {
		return nil
	}
	return m
}

// text returns the text of the reply so far.
func (r *reply) text() string {
	var b strings.Builder
	for _, p := range r.parts {
		if p.Type == cairn.PartText {
			b.WriteString(p.text.String())
		}
	}
	return b.String()
}

// unkept begins the text that replaces arguments that cannot be stored. No schema of arguments accepts it.
const unkept = "invalid arguments: the JSON "

// maxUnkept is how many bytes of such arguments are shown.
const maxUnkept = 200

// maxNoJSON is how many bytes of arguments that are not JSON are stored.
const maxNoJSON = 1 << 20

// arguments returns a call's arguments as JSON. No arguments become {}. Arguments that are not JSON, or cannot be
// stored, become a JSON string, which no schema of arguments accepts.
func arguments(text string) (raw json.RawMessage, ok bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return json.RawMessage("{}"), true
	}
	raw = json.RawMessage(text)
	problem := limits.JSON(raw)
	if problem == "" {
		return raw, true
	}
	ok = json.Valid(raw)
	if !ok {
		problem = "has a syntax error"
	}
	if ok || len(text) > maxNoJSON {
		text = unkept + problem + ": " + limits.Cut(text, maxUnkept)
	}
	raw, _ = json.Marshal(text) // a string always encodes
	return raw, ok
}
