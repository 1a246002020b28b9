package cairn

import (
	"context"
	"encoding/json"
	"time"
)

// Toolset provides an agent with tools that are not known when it is defined, such as a server's tools. It is asked for
// its offer when a turn begins, and the offer is pinned: it becomes part of the transcript. So each process that drives
// the session, even after a crash or days later, has the same tools. A branch of the session inherits them; a rewind
// reverts them.
//
// Among tools of the same name, the agent's own has precedence, then the tools of its toolsets in their order. The
// others are left out, and so are sub-agents. Tools that are left out are logged.
//
// The methods may be called concurrently.
type Toolset interface {
	// Name identifies the toolset among the agent's toolsets, and its pinned offer in the transcript. It follows the
	// rules of session ids.
	Name() string
	// Offer is called when a turn begins, but not when a run is resumed. pinned is the session's pinned offer of
	// the toolset; nil for none. A nil offer keeps it, and so does an error, which is logged. If there is none to
	// keep, the turn continues without the toolset after an error, and [EventToolsMissing] is published, unless the
	// toolset is a [RequiredToolset]. The handle is read-only: it writes nothing to the session. The engine's
	// Options.HookTimeout limits the call, for which the turn waits. All toolsets of an agent are called
	// concurrently.
	Offer(ctx context.Context, step *Step, pinned json.RawMessage) (*Offer, error)
	// Tools returns the offered tools. The result must depend on pinned only, without I/O, because each process
	// computes it again. To keep the provider's cached prefix valid, later offers should repeat the earlier tools;
	// the note of an offer can inform the model that some are gone.
	Tools(pinned json.RawMessage) ([]Tool, error)
}

// RequiredToolset is a Toolset that turns may require.
type RequiredToolset interface {
	Toolset
	// Required reports whether a turn fails if Offer fails and the session has no pinned offer of the toolset. The
	// error is ErrUnavailable and names the toolset; Engine.Retry repeats the turn. False is like a Toolset that
	// does not implement the interface.
	Required() bool
}

// RestatedToolset is a Toolset whose notes have facts that its tools lack, such as that some are gone.
type RestatedToolset interface {
	Toolset
	// Restate returns the facts about the session's pinned offer that the model needs besides the tools; "" for
	// nothing. A summary that replaces the notes of earlier offers ends with it. Like Tools, it depends on pinned only.
	// After an error, which is logged, the summary lacks the text.
	Restate(pinned json.RawMessage) (string, error)
}

// ReservedToolset is a Toolset with fixed tool names. An agent that has it may have no tool of its own with such a name.
type ReservedToolset interface {
	Toolset
	// ReservedTools returns the names. The result must always be the same.
	ReservedTools() []string
}

// Keeper is a Toolset with work of its own that workers do, such as the removal of expired entries of a memory.
type Keeper interface {
	Toolset
	// Upkeep does the work that is due. Each worker calls it every UpkeepInterval; several may at once. An error is
	// logged.
	Upkeep(ctx context.Context) error
}

// UpkeepInterval is how often a worker calls Keeper.Upkeep.
const UpkeepInterval = time.Minute

// Offer is the offer of a [Toolset] from a turn on.
type Offer struct {
	// Pinned is the data that the tools are made from, at most [MaxPinnedBytes] of JSON.
	Pinned json.RawMessage
	// Note is the text about the offer that the model reads, as a hidden message. Required.
	Note string
	// Tainted says that the note has text that may be an attack: the session is tainted from then on, see [Step.Taint].
	Tainted bool
}

// Validate returns an ErrInvalid or ErrTooLarge error, which names the field, if an offer cannot be pinned.
func (o *Offer) Validate() error {
	if o.Note == "" {
		return Invalid("note", "is empty")
	}
	if err := CheckText("note", o.Note); err != nil {
		return err
	}
	if len(o.Pinned) == 0 {
		return Invalid("pinned", "is empty")
	}
	if len(o.Pinned) > MaxPinnedBytes {
		return &Error{Code: ErrTooLarge, Field: "pinned", Message: "pinned: larger than 1 MiB"}
	}
	return CheckJSON("pinned", o.Pinned)
}
