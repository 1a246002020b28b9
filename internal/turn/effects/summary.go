package effects

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// minPiece is the smallest piece of a history, in bytes, that a model summarizes at once.
const minPiece = 4 << 10

// summary has a model summarize messages: that of the compaction or, if that fails, the run's. usage covers all calls,
// even if both fail.
func (fx *Effects) summary(ctx context.Context, a *cairn.Agent, sessionID string, r roomOf, older []cairn.Message) (text string, usage step.Bill, err error) {
	if r.Model == nil {
		return fx.summaryBy(ctx, a, sessionID, r.model, r, older)
	}
	text, usage, err = fx.summaryBy(ctx, a, sessionID, r.Model, r, older)
	if err == nil || ctx.Err() != nil {
		return text, usage, err
	}
	fx.Logger.Warn("compaction model failed; using the run's model", "session", sessionID, "agent", a.Name,
		"model", r.Model.Info().ID(), "instead", r.model.Info().ID(), "error", err)
	r.piece = r.all * pieceShare / 100
	text, used, err := fx.summaryBy(ctx, a, sessionID, r.model, r, older)
	return text, usage.Add(used), err
}

// summaryBy has one model summarize messages, piece by piece if they exceed its window.
func (fx *Effects) summaryBy(ctx context.Context, a *cairn.Agent, sessionID string, model cairn.Model, r roomOf, older []cairn.Message) (text string, usage step.Bill, err error) {
	instructions := cmp.Or(r.Instructions, cairn.SummaryInstructions)
	most := max(transcript.TextBytes(r.piece)-len(instructions), minPiece)
	lines := transcript.Text(older, most/4)
	for len(lines) > 0 {
		var piece strings.Builder
		if text != "" {
			piece.WriteString("Summary of the earlier conversation: " + text + "\n")
		}
		n := 0
		for n < len(lines) && (n == 0 || piece.Len()+len(lines[n]) <= most) {
			piece.WriteString(lines[n])
			n++
		}
		lines = lines[n:]
		piece.WriteString("\nSummarise this part of the conversation.")
		req := &cairn.Request{SessionID: sessionID, System: instructions, Messages: []cairn.Message{cairn.User(cairn.TextPart(piece.String()))}}
		var used step.Bill
		text, used, err = fx.Text(ctx, a, model, req, "the model that summarises")
		usage = usage.Add(used)
		if err != nil {
			return "", usage, cairn.Errorf(cairn.AsError(err).Code, "summarise history: %w", err)
		}
		text = limits.Cut(text, max(transcript.TextBytes(max(r.keep, r.all/10)), minPiece/4))
	}
	return text, usage, nil
}

// Text asks a model for a text outside a run's loop, with retries by the agent's policy. what names the model at the start
// of a sentence. usage covers all calls, even if all fail.
func (fx *Effects) Text(ctx context.Context, a *cairn.Agent, model cairn.Model, req *cairn.Request, what string) (text string, usage step.Bill, err error) {
	for n := 0; ; n++ {
		u := user.Code{What: what, Err: cairn.ErrInternal, Idle: fx.ModelIdle, Pulse: user.NewPulse(), Session: req.SessionID, Agent: a.Name}
		w := &written{meter: fx.meter(model.Info())}
		_, err := user.Call(ctx, &fx.User, u, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, w.read(ctx, u.Pulse, model.Stream(ctx, req))
		})
		text, used := w.end(err == nil)
		usage = usage.Add(used)
		if err == nil {
			return text, usage, nil
		}
		wait, failed := fx.retryWait(ctx, a.Retry, err, n, "the agent's")
		if failed != nil {
			return "", usage, failed
		}
		fx.Logger.Warn("model call failed; retrying", "session", req.SessionID, "agent", a.Name, "model", model.Info().ID(), "error", err, "wait", wait)
		if err := retry.Sleep(ctx, wait); err != nil {
			return "", usage, err
		}
	}
}

// written is a text that a model writes, with its usage.
type written struct {
	mu    sync.Mutex
	text  strings.Builder
	meter *meter
	over  bool // nothing more is accepted
}

// end ends the attempt and returns the text and the usage. What an abandoned model still sends is not part of them.
func (w *written) end(used bool) (string, step.Bill) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if !used {
		return "", w.meter.wasted()
	}
	return w.clean(), w.meter.used()
}

func (w *written) clean() string { return strings.TrimSpace(limits.Clean(w.text.String())) }

// add adds a chunk.
func (w *written) add(c *cairn.Chunk) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return cairn.Errorf(cairn.ErrAborted, "the model call was abandoned")
	}
	switch c.Type {
	case cairn.ChunkText:
		w.text.WriteString(c.Text)
	case cairn.ChunkModel:
		w.meter.model = limits.Clean(c.Model)
	case cairn.ChunkUsage:
		_ = w.meter.report(c) // usage that cannot be stored is left out
	case cairn.ChunkRestart:
		w.text.Reset()
		w.meter.restart()
	}
	if problem := limits.Size(w.text.Len()); problem != "" {
		return cairn.Errorf(cairn.ErrModelReply, "the text %s", problem)
	}
	return nil
}

// read collects the text of a model's stream.
func (w *written) read(ctx context.Context, pulse *user.Pulse, stream iter.Seq2[cairn.Chunk, error]) error {
	ended := false
	for chunk, err := range stream {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if err := w.add(&chunk); err != nil {
			return err
		}
		ended = ended || chunk.Type == cairn.ChunkFinish
		pulse.Beat()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !ended:
		return cairn.Errorf(cairn.ErrModel, "the text ended unexpectedly")
	case w.clean() == "":
		return cairn.Errorf(cairn.ErrModel, "the text is empty")
	}
	return nil
}
