// Package record keeps the replies of a model in a file and plays them back, so that a test runs with a real
// model's replies, without a key and without a network.
package record

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"github.com/cairn-agents/cairn"
)

// entry is a line of a file: a request and its reply.
type entry struct {
	// Model is the model that was called.
	Model   cairn.ModelInfo `json:"model"`
	Key     string          `json:"key"` // of the request
	Request request         `json:"request"`
	Chunks  []cairn.Chunk   `json:"chunks"`
	// Error is how the reply ended, if it did not complete.
	Error *cairn.Error `json:"error,omitempty"`
}

// request is the part of a request that identifies its reply. It excludes the session, whose id differs between
// runs, and the provider's own options, which may contain keys.
type request struct {
	System   string           `json:"system,omitempty"`
	Messages []message        `json:"messages"`
	Tools    []cairn.ToolSpec `json:"tools,omitempty"`
	Choice   cairn.ToolChoice `json:"choice,omitzero"`
	Settings settings         `json:"settings,omitzero"`
}

// message is a message without what differs between runs.
type message struct {
	Role  cairn.Role   `json:"role"`
	Parts []cairn.Part `json:"parts"`
}

type settings struct {
	Temperature     *float64 `json:"temperature,omitempty"`
	TopP            *float64 `json:"top_p,omitempty"`
	MaxOutputTokens int      `json:"max_output_tokens,omitempty"`
	ReasoningEffort string   `json:"reasoning_effort,omitempty"`
	StopSequences   []string `json:"stop_sequences,omitempty"`
}

// of returns the part of a request that is kept, and its key. It numbers the ids of calls, because the engine makes
// new ones in each run.
func of(req *cairn.Request) (request, string, error) {
	s := req.Settings
	r := request{System: req.System, Tools: req.Tools, Choice: req.Choice, Messages: []message{},
		Settings: settings{s.Temperature, s.TopP, s.MaxOutputTokens, s.ReasoningEffort, s.StopSequences}}
	ids := map[string]string{}
	number := func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprint("call-", len(ids)+1)
		}
		return ids[id]
	}
	for i := range req.Messages {
		m := message{req.Messages[i].Role, append([]cairn.Part(nil), req.Messages[i].Parts...)}
		for k := range m.Parts {
			p := &m.Parts[k]
			if p.ToolUse != nil {
				use := *p.ToolUse
				use.CallID = number(use.CallID)
				p.ToolUse = &use
			}
			if p.Result != nil {
				res := *p.Result
				res.CallID, res.Background, res.Child = number(res.CallID), "", cairn.ChildEnd{}
				p.Result = &res
			}
		}
		r.Messages = append(r.Messages, m)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return r, "", cairn.Errorf(cairn.ErrModelRequest, "encode request: %w", err)
	}
	sum := sha256.Sum256(text)
	return r, hex.EncodeToString(sum[:12]), nil
}

// Recorder is a model that calls another one and writes each request with its reply to a file. It is safe for
// concurrent use.
type Recorder struct {
	model cairn.Model

	mu   sync.Mutex
	file io.Writer
}

// New returns a model that calls another one and writes its replies to w, one line of JSON for each. A reply that
// its reader stops is not written. A line contains the conversation, but neither session ids nor Settings.Options.
func New(model cairn.Model, w io.Writer) *Recorder { return &Recorder{model: model, file: w} }

// Info names the recorded model.
func (r *Recorder) Info() cairn.ModelInfo { return r.model.Info() }

// Unwrap returns the recorded model.
func (r *Recorder) Unwrap() cairn.Model { return r.model }

// Validate implements [cairn.Validator].
func (r *Recorder) Validate() error {
	if v, ok := r.model.(cairn.Validator); ok {
		return v.Validate()
	}
	return nil
}

// CountTokens implements [cairn.TokenCounter] by the recorded model. The count is not recorded.
func (r *Recorder) CountTokens(ctx context.Context, req *cairn.Request) (int64, error) {
	return cairn.CountTokens(ctx, r.model, req)
}

// Stream implements [cairn.Model]. A reply that cannot be written fails with ErrModelRequest.
func (r *Recorder) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		kept, key, err := of(req)
		if err != nil {
			yield(cairn.Chunk{}, err)
			return
		}
		e := entry{Model: r.model.Info(), Key: key, Request: kept}
		for c, err := range r.model.Stream(ctx, req) {
			if err != nil {
				if ctx.Err() == nil {
					e.Error = cairn.AsError(err)
					if failed := r.write(&e); failed != nil {
						err = failed
					}
				}
				yield(cairn.Chunk{}, err)
				return
			}
			e.Chunks = append(e.Chunks, c)
			if c.Type == cairn.ChunkFinish {
				if err := r.write(&e); err != nil {
					yield(cairn.Chunk{}, err)
					return
				}
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

func (r *Recorder) write(e *entry) error {
	line, err := json.Marshal(e)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, err = r.file.Write(append(line, '\n'))
	}
	if err != nil {
		return cairn.Errorf(cairn.ErrModelRequest, "record reply: %w", err)
	}
	return nil
}

// Player is a model that plays the replies of a file. It is safe for concurrent use.
type Player struct {
	info cairn.ModelInfo

	mu      sync.Mutex
	replies map[string][]entry // remaining ones by the key of their request
	last    map[string]entry
}

// Open returns a model that plays the calls that a [Recorder] wrote to a file.
func Open(path string) (*Player, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p, err := Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// maxLine is the maximum size of a line in bytes.
const maxLine = 256 << 20

// Read is like [Open] for any reader. The error names the line at fault.
func Read(r io.Reader) (*Player, error) {
	p := &Player{replies: map[string][]entry{}, last: map[string]entry{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, cairn.Invalid("recording", "line %d: %v", n, err)
		}
		if e.Key == "" {
			return nil, cairn.Invalid("recording", "line %d has no key", n)
		}
		if p.info == (cairn.ModelInfo{}) {
			p.info = e.Model
		}
		p.replies[e.Key] = append(p.replies[e.Key], e)
	}
	if err := lines.Err(); err != nil {
		return nil, cairn.Invalid("recording", "%v", err)
	}
	return p, nil
}

// Info names the model that was recorded.
func (p *Player) Info() cairn.ModelInfo { return p.info }

// Stream implements [cairn.Model]. It plays the reply to the same request. If the request was recorded several
// times, the replies are played in that order, and then the last one again. Without a reply the error has
// ErrModelRequest.
func (p *Player) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) {
		e, err := p.next(ctx, req)
		if err != nil {
			yield(cairn.Chunk{}, err)
			return
		}
		for _, c := range e.Chunks {
			if err := stopped(ctx); err != nil {
				yield(cairn.Chunk{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
		if e.Error != nil {
			err = e.Error
		}
		if stop := stopped(ctx); stop != nil && !e.complete() {
			err = stop
		}
		if err != nil {
			yield(cairn.Chunk{}, err)
		}
	}
}

// complete reports whether the reply has its end.
func (e *entry) complete() bool {
	return len(e.Chunks) > 0 && e.Chunks[len(e.Chunks)-1].Type == cairn.ChunkFinish
}

// stopped returns the error of a call whose context is done, otherwise nil.
func stopped(ctx context.Context) error { return cairn.ContextError(ctx, "the recorded reply") }

// next returns the reply to a request, unless ctx is done: then no reply is used up.
func (p *Player) next(ctx context.Context, req *cairn.Request) (entry, error) {
	if err := stopped(ctx); err != nil {
		return entry{}, err
	}
	return p.find(req)
}

func (p *Player) find(req *cairn.Request) (entry, error) {
	_, key, err := of(req)
	if err != nil {
		return entry{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.replies[key]; len(list) > 0 {
		p.replies[key], p.last[key] = list[1:], list[0]
	}
	e, ok := p.last[key]
	if !ok {
		said := ""
		if n := len(req.Messages); n > 0 {
			said = req.Messages[n-1].Text()
		}
		return e, cairn.Errorf(cairn.ErrModelRequest, "no recorded reply for this request of %d messages, the last %.80q: record it again",
			len(req.Messages), said)
	}
	return e, nil
}
