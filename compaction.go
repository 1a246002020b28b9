package cairn

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn/internal/limits"
)

// Compaction says when the older part of a session's history is summarised, and how. A model has a window: a request with
// more tokens than that is refused. When a request nears it, the messages before the latest ones are summarised by a model,
// and from then on a model is sent the summary in their place. The transcript keeps all of them: it can be read, branched
// and rewound as before. Between two summaries messages are only appended to what is sent, so that the provider's cache
// keeps its prefix.
//
// A summary is a hidden message with a [Summary], committed with the step that it was made for. What it used is part of
// that step's usage. The hooks of a model call are not called for it.
type Compaction struct {
	// Off leaves the history as it is, whatever its size.
	Off bool
	// Window is how many tokens the window of the agent's model has. 0 means what the engine's table of models says. If
	// that does not know the model, the history is only summarised after the provider has refused a request as too long.
	Window int
	// Trigger is how much of the window a request may fill before its older part is summarised, in percent; 0 means 80.
	Trigger int
	// Keep is how much of the window the latest messages may fill that a summary leaves as they are, in percent; 0 means
	// 20. It must be less than Trigger.
	Keep int
	// Model makes the summaries; nil means the one that the run asks. A smaller, cheaper one will do.
	Model Model
	// Instructions are the system prompt with which a summary is made; empty means [SummaryInstructions].
	Instructions string
	// ByProvider has the provider of the model that the run asks compact the same messages too, if the model is a
	// [Compactor]. That model is sent what the provider made of them, and any other one, such as a fallback or one that the
	// session is switched to, the summary. Both are paid for. If the provider fails, the summary alone is used.
	ByProvider bool
}

// The defaults of a [Compaction].
const (
	DefaultCompactionTrigger = 80 // percent of the window
	DefaultCompactionKeep    = 20 // percent of the window
)

// SummaryInstructions is the system prompt with which summaries are made if an agent has no other.
const SummaryInstructions = `You summarise the older part of a conversation between a user and an assistant that calls tools. The assistant will continue the conversation with your summary in place of that part, so it must find everything there that it still needs:

- what the user asked for and has not got yet, word for word where it matters, and what the user prefers;
- facts, names, numbers, ids, paths and decisions, exactly as they were given;
- what was done, what came of it, and what was tried and failed;
- what is under way and what comes next.

Leave out pleasantries and what is settled and no longer matters. Do not answer the user, and do not make anything up. Write the summary only, in the language of the conversation.`

// TokenCounter is implemented by models whose provider counts the tokens of a request without answering it. It is asked only
// where that can decide whether a history is summarised, and for a few seconds: see [Compaction]. Whatever its error is, an
// estimate takes its place.
type TokenCounter interface {
	// CountTokens returns how many tokens a request has as input. The error is errors.ErrUnsupported if that cannot be found out.
	CountTokens(ctx context.Context, req *Request) (int64, error)
}

// Compactor is implemented by models whose provider compacts a conversation itself, into a form that only the same model can
// read. See [Compaction.ByProvider].
type Compactor interface {
	// Compact returns what the model takes in place of the messages of a request. It finds that again as the Provider of the first
	// part of a message with a [Summary], whose Model is the model's id. Of the request only messages, system prompt and
	// session are set. The error is errors.ErrUnsupported if the provider cannot do it.
	Compact(ctx context.Context, req *Request) (Compacted, error)
}

// Compacted is a conversation as a provider has compacted it.
type Compacted struct {
	// Provider is JSON in the provider's form. More of it than [Compaction.Keep] allows is not used.
	Provider json.RawMessage
	// Usage is what making it has used.
	Usage Usage
}

// Compact has a model's provider compact the messages of a request. The error is errors.ErrUnsupported if it is no [Compactor].
func Compact(ctx context.Context, m Model, req *Request) (Compacted, error) {
	if c, ok := m.(Compactor); ok {
		return c.Compact(ctx, req)
	}
	return Compacted{}, errors.ErrUnsupported
}

// CountTokens has a model count the tokens of a request. The error is errors.ErrUnsupported if it is no [TokenCounter].
func CountTokens(ctx context.Context, m Model, req *Request) (int64, error) {
	if c, ok := m.(TokenCounter); ok {
		return c.CountTokens(ctx, req)
	}
	return 0, errors.ErrUnsupported
}

// validate reports the first mistake by way of bad.
func (c *Compaction) validate(bad func(field, format string, args ...any) error) error {
	if c == nil {
		return nil
	}
	trigger, keep := c.Trigger, c.Keep
	if trigger == 0 {
		trigger = DefaultCompactionTrigger
	}
	if keep == 0 {
		keep = DefaultCompactionKeep
	}
	switch {
	case c.Window < 0:
		return bad("compaction.window", "%d is negative", c.Window)
	case trigger < 0 || trigger > 100:
		return bad("compaction.trigger", "%d is not a percentage", c.Trigger)
	case keep < 0 || keep >= trigger:
		return bad("compaction.keep", "%d must be positive and less than the trigger, %d", keep, trigger)
	case limits.Text(c.Instructions) != "":
		return bad("compaction.instructions", "%s", limits.Text(c.Instructions))
	}
	if v, ok := c.Model.(Validator); ok {
		if err := v.Validate(); err != nil {
			return bad("compaction.model", "%v", err)
		}
	}
	return nil
}
