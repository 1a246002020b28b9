package cairn

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn/internal/limits"
)

// Compaction determines when and how the older part of a session's history is summarized. A model has a window: its
// provider refuses requests with more tokens than that. When a request gets close to it, a model summarizes all
// messages but the latest, and later requests contain the summary in their place. The transcript keeps all
// messages: they can be read, branched and rewound as before. Between two summaries, requests only grow at the end,
// so that the provider's cached prefix stays valid.
//
// A summary is a hidden message with a [Summary], committed with the step that it was made for. The tokens that it
// used are part of the usage of that step. The hooks of a model call are not called for it.
type Compaction struct {
	// Off disables compaction, regardless of the size of the history.
	Off bool
	// Window is the size, in tokens, of the window of the agent's model. 0 means the size in the engine's table of
	// models. If the table does not have the model, the history is summarized only after the provider has refused a
	// request as too long.
	Window int
	// Trigger is the share of the window, less the request's MaxOutputTokens, in percent, that a request may fill
	// before its older part is summarized; 0 means 80.
	Trigger int
	// Keep is the share of the same, in percent, that the latest messages, which a summary leaves unchanged, may
	// fill; 0 means 20. It must be less than Trigger.
	Keep int
	// Model generates the summaries; nil means the model of the run, which also does so if Model fails. A smaller,
	// cheaper one will do.
	Model Model
	// Instructions are the system prompt for summaries; empty means [SummaryInstructions].
	Instructions string
	// ByProvider makes the provider of the run's model compact the same messages too, if the model is a
	// [Compactor]. Later requests to that model contain the provider's result. Those to other models, such as a
	// fallback or one that the session is switched to, contain the summary. Both are paid for. If the provider
	// fails, only the summary is used.
	ByProvider bool
}

// SummaryInstructions is the system prompt for summaries of agents that have no other.
const SummaryInstructions = `You summarise the older part of a conversation between a user and an assistant that calls tools. The assistant will continue the conversation with your summary in place of that part, so it must find everything there that it still needs:

- what the user asked for and has not got yet, word for word where it matters, and what the user prefers;
- facts, names, numbers, ids, paths and decisions, exactly as they were given;
- what was done, what came of it, and what was tried and failed;
- what is under way and what comes next.

Leave out pleasantries and what is settled and no longer matters. Do not answer the user, and do not make anything up. Write the summary only, in the language of the conversation.`

// TokenCounter is implemented by models whose provider counts the tokens of a request without answering it. It is
// called only if the count can decide whether a history is summarized, and its time is limited to a few seconds:
// see [Compaction]. If it fails, an estimate is used instead.
type TokenCounter interface {
	// CountTokens returns the number of input tokens of a request. The error is errors.ErrUnsupported if the number
	// cannot be determined.
	CountTokens(ctx context.Context, req *Request) (int64, error)
}

// Compactor is implemented by models whose provider compacts a conversation itself, into a form that only the same
// model can read. See [Compaction.ByProvider].
type Compactor interface {
	// Compact returns the parts that replace the messages of a request for this model. Later requests hand it back in
	// the Provider field of the first part of a message with a [Summary]; the part's Model is then the model's id. Only
	// the messages, system prompt and session of req are set. The error is errors.ErrUnsupported if the provider cannot
	// compact.
	Compact(ctx context.Context, req *Request) (Compacted, error)
}

// Compacted is a conversation in the compacted form of a provider.
type Compacted struct {
	// Provider is JSON in the provider's own form. It is not used if it is larger than [Compaction.Keep] allows.
	Provider json.RawMessage
	// Usage is the usage of the compaction itself.
	Usage Usage
}

// Compact makes a model's provider compact the messages of a request. The error is errors.ErrUnsupported if the
// model is not a [Compactor].
func Compact(ctx context.Context, m Model, req *Request) (Compacted, error) {
	if c, ok := m.(Compactor); ok {
		return c.Compact(ctx, req)
	}
	return Compacted{}, errors.ErrUnsupported
}

// CountTokens makes a model count the tokens of a request. The error is errors.ErrUnsupported if the model is not a
// [TokenCounter].
func CountTokens(ctx context.Context, m Model, req *Request) (int64, error) {
	if c, ok := m.(TokenCounter); ok {
		return c.CountTokens(ctx, req)
	}
	return 0, errors.ErrUnsupported
}

// validate reports the first mistake, as an error made by bad.
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
		return bad("compaction.trigger", "%d is not between 0 and 100", c.Trigger)
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
