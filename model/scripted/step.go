package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// Step is one reply of the model: a list of parts and how the reply ends. Steps are values; the methods return a
// changed copy. The zero Step is an empty reply.
type Step struct {
	parts []part
	usage *cairn.Usage
	stop  cairn.FinishReason
	pace  time.Duration
}

// part is one thing that happens in a reply. Exactly one field is set, except that words and ownID go with a chunk.
type part struct {
	chunk cairn.Chunk
	words bool // the chunk's text is streamed word by word
	ownID bool // the chunk's call id was given; others are made when the reply is streamed
	fail  error
	cut   bool
	pause time.Duration
	gate  <-chan struct{}
	do    func()
}

// Text is a reply of text, streamed in word-sized deltas.
func Text(text string) Step {
	return words(cairn.ChunkText, text)
}

// Thinking is reasoning, streamed in word-sized deltas. It usually precedes a [Text] or a [Call] in a [Reply].
func Thinking(text string) Step {
	return words(cairn.ChunkReasoning, text)
}

// Call is a reply that calls a tool. A string, []byte or json.RawMessage is used unchanged as the text of the
// arguments, valid or not; nil means {}. Anything else is marshalled to JSON, and the step fails with
// ErrModelRequest if that fails. The call id derives from the session, the length of its history and the call's
// position in the reply; [Step.ID] sets another.
func Call(tool string, args any) Step {
	text, err := arguments(args)
	if err != nil {
		return Fail(cairn.Errorf(cairn.ErrModelRequest, "scripted model: arguments of tool %q: %w", tool, err))
	}
	return Step{parts: []part{
		{chunk: cairn.Chunk{Type: cairn.ChunkToolStart, Tool: tool}},
		{chunk: cairn.Chunk{Type: cairn.ChunkToolArgs, Text: text}},
	}}
}

// Reply joins steps into one reply: their parts in order, and the last usage and stop reason that any of them has.
// A [Fail] or [Break] takes effect after the output that precedes it.
func Reply(steps ...Step) Step {
	var all Step
	for _, s := range steps {
		all.parts = append(all.parts, s.parts...)
		if s.usage != nil {
			all.usage = s.usage
		}
		if s.stop != "" {
			all.stop = s.stop
		}
		all.pace = max(all.pace, s.pace)
	}
	return all
}

// Fail ends the reply with an error. An error that is no *cairn.Error becomes ErrModel, which is retryable.
func Fail(err error) Step {
	var known *cairn.Error
	switch {
	case err == nil:
		err = cairn.Errorf(cairn.ErrModelRequest, "scripted model: Fail: error is nil")
	case !errors.As(err, &known):
		err = cairn.Errorf(cairn.ErrModel, "%w", err)
	}
	return Step{parts: []part{{fail: err}}}
}

// Break ends the stream without an error and without ChunkFinish, as a lost connection does.
func Break() Step { return Step{parts: []part{{cut: true}}} }

// Pause holds the stream for a duration, or until the call's context ends.
func Pause(d time.Duration) Step { return Step{parts: []part{{pause: d}}} }

// Gate holds the stream until the channel is closed or a value can be received from it, or until the call's context
// ends.
func Gate(open <-chan struct{}) Step { return Step{parts: []part{{gate: open}}} }

// Do calls f when the stream reaches it, so that a test can follow the progress of the reply. Everything before it
// was consumed.
func Do(f func()) Step { return Step{parts: []part{{do: f}}} }

// Chunk emits one chunk unchanged: a file, reasoning with provider data, half a tool call, or a stream that no
// provider would send. A ChunkFinish replaces the one that otherwise ends a reply.
func Chunk(c cairn.Chunk) Step { return Step{parts: []part{{chunk: c, ownID: true}}} }

// Usage returns the step with token counts, reported just before the reply's end.
func (s Step) Usage(input, output int64) Step {
	s.usage = &cairn.Usage{InputTokens: input, OutputTokens: output}
	return s
}

// FinishReason returns the step with the reason why its reply ends. The default is FinishReasonTools if the reply
// calls a tool, else FinishReasonEnd.
func (s Step) FinishReason(reason cairn.FinishReason) Step {
	s.stop = reason
	return s
}

// Pace returns the step with a delay after each chunk. In a [Reply] the slowest pace applies to the whole.
func (s Step) Pace(d time.Duration) Step {
	s.pace = d
	return s
}

// ID returns the step with an id for its last [Call]. A step without a call is returned unchanged.
func (s Step) ID(callID string) Step {
	for i := len(s.parts) - 1; i >= 0; i-- {
		if s.parts[i].chunk.Type == cairn.ChunkToolStart {
			s.parts = slices.Clone(s.parts)
			s.parts[i].chunk.CallID, s.parts[i].ownID = callID, true
			if i+1 < len(s.parts) && s.parts[i+1].chunk.Type == cairn.ChunkToolArgs {
				s.parts[i+1].chunk.CallID, s.parts[i+1].ownID = callID, true
			}
			break
		}
	}
	return s
}

// run streams the step. It uses no goroutine, and a timer only for pauses.
func (s *Step) run(ctx context.Context, req *cairn.Request, yield func(cairn.Chunk, error) bool) {
	var callID string
	calls, stop, finished := 0, cairn.FinishReasonEnd, false
	for i := range s.parts {
		p := &s.parts[i]
		if err := p.wait(ctx); err != nil {
			yield(cairn.Chunk{}, err)
			return
		}
		switch {
		case p.cut:
			return
		case p.fail != nil:
			yield(cairn.Chunk{}, p.fail)
			return
		case p.chunk.Type == "":
			continue
		}
		chunk := p.chunk
		switch chunk.Type {
		case cairn.ChunkToolStart:
			calls++
			stop = cairn.FinishReasonTools
			if !p.ownID {
				callID = makeCallID(req, calls)
				chunk.CallID = callID
			}
		case cairn.ChunkToolArgs:
			if !p.ownID {
				chunk.CallID = callID
			}
		case cairn.ChunkFinish:
			finished = true
		}
		if !s.emit(ctx, p.words, chunk, yield) {
			return
		}
	}
	s.finish(ctx, stop, finished, yield)
}

// emit yields a chunk, or each word of its text as one. It reports whether the stream continues.
func (s *Step) emit(ctx context.Context, words bool, chunk cairn.Chunk, yield func(cairn.Chunk, error) bool) bool {
	for rest := chunk.Text; ; {
		chunk.Text, rest = rest, ""
		if words {
			chunk.Text, rest = cutWord(chunk.Text)
		}
		if !yield(chunk, nil) {
			return false
		}
		var err error
		switch {
		case s.pace > 0:
			err = sleep(ctx, s.pace)
		case rest != "":
			err = ended(ctx)
		}
		if err != nil {
			yield(cairn.Chunk{}, err)
		}
		if err != nil || rest == "" {
			return err == nil
		}
	}
}

func (s *Step) finish(ctx context.Context, stop cairn.FinishReason, finished bool, yield func(cairn.Chunk, error) bool) {
	if err := ended(ctx); err != nil {
		yield(cairn.Chunk{}, err)
		return
	}
	if s.usage != nil && !yield(cairn.Chunk{Type: cairn.ChunkUsage, Usage: *s.usage}, nil) {
		return
	}
	if finished {
		return
	}
	if s.stop != "" {
		stop = s.stop
	}
	yield(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: stop}, nil)
}

// wait performs what precedes the part's output, and reports the end of the context.
func (p *part) wait(ctx context.Context) error {
	if err := ended(ctx); err != nil {
		return err
	}
	switch {
	case p.do != nil:
		p.do()
	case p.gate != nil:
		select {
		case <-p.gate:
		case <-ctx.Done():
		}
	case p.pause > 0:
		return sleep(ctx, p.pause)
	default:
		return nil
	}
	return ended(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ended(ctx)
}

// ended returns the error of a call whose context has ended, otherwise nil.
func ended(ctx context.Context) error { return cairn.ContextError(ctx, "scripted model") }

// words is a reply of text that is cut when it is streamed.
func words(kind cairn.ChunkType, text string) Step {
	if text == "" {
		return Step{}
	}
	return Step{parts: []part{{chunk: cairn.Chunk{Type: kind, Text: text}, words: true}}}
}

// cutWord cuts text after its first run of white space.
func cutWord(text string) (word, rest string) {
	for i := 1; i < len(text); i++ {
		if wordStarts(text, i) {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

func wordStarts(text string, i int) bool { return isSpace(text[i-1]) && !isSpace(text[i]) }

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func arguments(args any) (string, error) {
	switch v := args.(type) {
	case nil:
		return "{}", nil
	case string:
		return v, nil
	case []byte:
		return string(v), nil
	case json.RawMessage:
		return string(v), nil
	}
	data, err := json.Marshal(args)
	return string(data), err
}

// makeCallID derives an id from the request only, so that the same request gets the same id in any process. The
// session is part of it because the sessions of a tree share a table of calls.
func makeCallID(req *cairn.Request, n int) string {
	const offset, prime = 2166136261, 16777619
	hash := uint32(offset)
	for i := range len(req.SessionID) {
		hash = (hash ^ uint32(req.SessionID[i])) * prime
	}
	return fmt.Sprintf("call_%08x_%d_%d", hash, len(req.Messages), n)
}
