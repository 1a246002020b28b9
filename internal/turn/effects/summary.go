package effects

import (
	"cmp"
	"context"
	"iter"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// minPiece is the smallest piece of a history, in bytes, that a model summarizes at once.
const minPiece = 4 << 10

// summary has a model summarize messages, piece by piece if they exceed its window. usage covers all calls, even if it
// fails.
func (fx *Effects) summary(ctx context.Context, a *cairn.Agent, sessionID string, r roomOf, older []cairn.Message) (text string, usage cairn.Usage, err error) {
	model := r.model
	if r.Model != nil {
		model = r.Model
	}
	instructions := cmp.Or(r.Instructions, cairn.SummaryInstructions)
	most := max(transcript.TextBytes(r.piece)-len(instructions), minPiece)
	lines := transcript.Text(older, most/4)
	for len(lines) > 0 {
		var piece strings.Builder
		if text != "" {
			piece.WriteString("Summary of what was before: " + text + "\n")
		}
		n := 0
		for n < len(lines) && (n == 0 || piece.Len()+len(lines[n]) <= most) {
			piece.WriteString(lines[n])
			n++
		}
		lines = lines[n:]
		piece.WriteString("\nSummarise this part of the conversation.")
		req := &cairn.Request{SessionID: sessionID, System: instructions, Messages: []cairn.Message{cairn.User(cairn.TextPart(piece.String()))}}
		var used cairn.Usage
		text, used, err = fx.text(ctx, a, sessionID, model, req)
		usage = usage.Add(used)
		if err != nil {
			return "", usage, err
		}
		text = limits.Cut(text, max(transcript.TextBytes(max(r.keep, r.all/10)), minPiece/4))
	}
	return text, usage, nil
}

// text asks a model for a text, with retries by the agent's policy.
func (fx *Effects) text(ctx context.Context, a *cairn.Agent, sessionID string, model cairn.Model, req *cairn.Request) (text string, usage cairn.Usage, err error) {
	for n := 0; ; n++ {
		u := user.Code{What: "the model that summarises", Err: cairn.CodeInternal, Idle: fx.ModelIdle, Pulse: user.NewPulse(), Session: sessionID, Agent: a.Name}
		w, err := user.Call(ctx, &fx.User, u, func(ctx context.Context) (written, error) { return read(ctx, u.Pulse, model.Stream(ctx, req)) })
		if w.usage.Validate() != nil {
			w.usage = cairn.Usage{}
		}
		usage = usage.Add(fx.priced(repliedBy(model, w.model), w.usage))
		if err == nil {
			return w.text, usage, nil
		}
		wait, failed := fx.retryWait(ctx, a.Retry, err, n, "the agent's")
		if failed != nil {
			return "", usage, cairn.Errorf(cairn.AsError(failed).Code, "the history was not summarised: %w", failed)
		}
		fx.Logger.Warn("the history was not summarised, trying again", "session", sessionID, "error", err, "wait", wait)
		if err := retry.Sleep(ctx, wait); err != nil {
			return "", usage, err
		}
	}
}

// written is a text that a model wrote, with its usage.
type written struct {
	text  string
	usage cairn.Usage
	model string // the model that wrote it, if not the requested one
}

// read collects the text of a model's stream.
func read(ctx context.Context, pulse *user.Pulse, stream iter.Seq2[cairn.Chunk, error]) (w written, err error) {
	var b strings.Builder
	ended := false
	for chunk, err := range stream {
		if ctx.Err() != nil {
			return w, context.Cause(ctx)
		}
		if err != nil {
			return w, err
		}
		switch chunk.Type {
		case cairn.ChunkText:
			b.WriteString(chunk.Text)
		case cairn.ChunkUsage:
			w.usage = chunk.Usage
		case cairn.ChunkModel:
			w.model = chunk.Model
		case cairn.ChunkRestart:
			b.Reset()
			w.usage, w.model = cairn.Usage{}, ""
		case cairn.ChunkFinish:
			ended = true
		}
		if problem := limits.Size(b.Len()); problem != "" {
			return w, cairn.Errorf(cairn.CodeModelReply, "the summary %s", problem)
		}
		pulse.Beat()
	}
	w.text = strings.TrimSpace(limits.Clean(b.String()))
	switch {
	case !ended:
		return w, cairn.Errorf(cairn.CodeModel, "the summary broke off")
	case w.text == "":
		return w, cairn.Errorf(cairn.CodeModel, "the summary is empty")
	}
	return w, nil
}
