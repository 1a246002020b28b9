package cairn

import (
	"context"
	"encoding/json"
)

// Toolset gives an agent tools that are not known when it is defined, such as those of a server. What it offers is asked
// for when a turn begins and is pinned then: it is part of the transcript, so each process that drives the session, also
// after a crash or days later, has the same tools. A branch of the session has them, a rewind takes them back.
//
// Of tools with one name the agent's own comes first, then those of its toolsets in their order; the others are left out,
// and so are sub-agents. What is left out is logged.
//
// The methods may be called at the same time.
type Toolset interface {
	// Name distinguishes the agent's toolsets; it is held to the rules of session ids. What is pinned is found by it.
	Name() string
	// Offer is asked when a turn begins, and not when a run is resumed. pinned is what the session has of the toolset; nil for
	// nothing. A nil offer leaves that as it is, and so does an error, which is logged. The handle is for reading: it writes nothing to the
	// session. The time is bounded by the engine's Options.HookTimeout; a toolset should answer within two seconds, since the
	// turn waits. All toolsets of an agent are asked at once.
	Offer(ctx context.Context, step *Step, pinned json.RawMessage) (*Offer, error)
	// Tools returns the tools that were offered. The result must depend on pinned only, without I/O, because it is worked
	// out again by each process. To keep the provider's cached prefix good, what was pinned later should repeat the tools
	// before: the note of an offer can say to the model that some are gone.
	Tools(pinned json.RawMessage) ([]Tool, error)
}

// Offer is what a [Toolset] offers from a turn on.
type Offer struct {
	// Pinned is what the tools are made of, at most [MaxPinnedBytes] of JSON.
	Pinned json.RawMessage
	// Note is what the model reads of it, as a hidden message. Required.
	Note string
}

// MaxPinnedBytes is the most that a toolset may have pinned in a session.
const MaxPinnedBytes = 1 << 20

// Validate reports what keeps an offer from being pinned: an ErrInvalid or ErrTooLarge error that names the field.
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
		return &Error{Code: CodeTooLarge, Field: "pinned", Message: "pinned: larger than 1 MiB"}
	}
	return CheckJSON("pinned", o.Pinned)
}
