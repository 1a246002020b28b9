package memory

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// The nouns of entries are the root package's, so that servers and clients have them as well.
type (
	Entry      = cairn.MemoryEntry
	Kind       = cairn.MemoryEntryKind
	Source     = cairn.MemorySource
	SourceKind = cairn.MemorySourceKind
	State      = cairn.MemoryState
	// Query asks for the entries that fit a text best, and ListQuery selects entries.
	Query     = cairn.MemorySearch
	ListQuery = cairn.MemoryList
	Hit       = cairn.MemoryHit
	Explain   = cairn.MemoryExplain
	// EntityCount and SourceCount are the items of Entities and Sources.
	EntityCount = cairn.MemoryEntityCount
	SourceCount = cairn.MemorySourceCount
)

// The kinds, sources and states of entries.
const (
	Said          = cairn.MemorySaid
	Fact          = cairn.MemoryFact
	UserSaid      = cairn.MemoryUserSaid
	ToolReturned  = cairn.MemoryToolReturned
	AgentInferred = cairn.MemoryAgentInferred
	Application   = cairn.MemoryApplication
	Active        = cairn.MemoryActive
	Quarantined   = cairn.MemoryQuarantined
	Redacted      = cairn.MemoryRedacted
)

var sourceKinds = []SourceKind{UserSaid, ToolReturned, AgentInferred, Application}

const (
	// MaxKeys is the maximum number of an entry's keys.
	MaxKeys = 16
	// maxName is the maximum size of an entity, an attribute, a speaker, and a key in bytes.
	maxName = 200
	// maxSupersedes is the maximum number of entries that one supersedes.
	maxSupersedes = 100
	maxBatch      = 100
)

// Derive returns the id of the n-th entry taken from a turn. It depends on the arguments only, so an Add that is
// repeated after a crash adds nothing.
func Derive(scope Scope, session string, turn, n int) string {
	return ids.Derive("mem", string(scope.Kind), scope.Name, session, fmt.Sprint(turn), fmt.Sprint(n))
}

// Cut returns the beginning of a text, of at most n characters.
func Cut(text string, n int) string {
	at := 0
	for i := range text {
		if at == n {
			return text[:i]
		}
		at++
	}
	return text
}

// validate checks an entry and fills in its defaults. field names the entry in errors.
func validate(e *Entry, field string, o *Options, now time.Time) error {
	if e.ID == "" {
		e.ID = ids.New("mem")
	}
	if problem := ids.Check(e.ID); problem != "" {
		return cairn.Invalid(field+".id", "%s", problem)
	}
	e.Kind = cmp.Or(e.Kind, Fact)
	if e.State == "" {
		if e.State = Active; e.Source.Kind == ToolReturned {
			e.State = Quarantined
		}
	}
	switch {
	case e.Kind != Said && e.Kind != Fact:
		return cairn.Invalid(field+".kind", "unknown kind %q", e.Kind)
	case e.State != Active && e.State != Quarantined:
		return cairn.Invalid(field+".state", "must be active or quarantined, not %q", e.State)
	case !slices.Contains(sourceKinds, e.Source.Kind):
		return cairn.Invalid(field+".source.kind", "unknown kind %q", e.Source.Kind)
	case !(e.Importance >= 0 && e.Importance <= 1):
		return cairn.Invalid(field+".importance", "%v is not from 0 to 1", e.Importance)
	case e.Kind == Said && e.About != "":
		return cairn.Invalid(field+".about", "may only be set on facts")
	case e.About == e.ID:
		return cairn.Invalid(field+".about", "names the entry itself")
	case slices.Contains(e.Supersedes, e.ID):
		return cairn.Invalid(field+".supersedes", "names the entry itself")
	case len(e.Supersedes) > maxSupersedes:
		return cairn.Invalid(field+".supersedes", "has %d ids (max %d)", len(e.Supersedes), maxSupersedes)
	case e.Source.Position < 0 || int64(e.Source.Position) > maxPosition:
		return cairn.Invalid(field+".source.position", "%d is out of range", e.Source.Position)
	case e.Source.Turn < 0:
		return cairn.Invalid(field+".source.turn", "%d is negative", e.Source.Turn)
	}
	if err := checkTexts(e, field, o); err != nil {
		return err
	}
	e.StoredAt, e.Version, e.SupersededBy = now, 0, ""
	e.ValidFrom = stamp(e.ValidFrom)
	if e.ValidFrom.IsZero() {
		e.ValidFrom = now
	}
	e.ValidUntil, e.ExpiresAt = stamp(e.ValidUntil), stamp(e.ExpiresAt)
	if !e.ValidUntil.IsZero() && !e.ValidUntil.After(e.ValidFrom) {
		return cairn.Invalid(field+".valid_until", "is not after valid_from")
	}
	if e.ExpiresAt.IsZero() && o.Retention > 0 {
		e.ExpiresAt = now.Add(o.Retention)
	}
	return nil
}

func checkTexts(e *Entry, field string, o *Options) error {
	if e.Text == "" {
		return cairn.Invalid(field+".text", "is required")
	}
	if err := cairn.CheckText(field+".text", e.Text); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(e.Text); n > o.MaxCharacters {
		err := cairn.Invalid(field+".text", "is too large: %d characters (max %d)", n, o.MaxCharacters)
		err.Code = cairn.ErrTooLarge
		return err
	}
	if len(e.Keys) > MaxKeys {
		return cairn.Invalid(field+".keys", "has %d texts (max %d)", len(e.Keys), MaxKeys)
	}
	texts := map[string]string{"entity": e.Entity, "attribute": e.Attribute, "speaker": e.Speaker, "source.session": e.Source.Session,
		"source.message": e.Source.Message, "source.tool": e.Source.Tool, "about": e.About}
	for i, key := range e.Keys {
		texts[fmt.Sprintf("keys[%d]", i)] = key
	}
	for i, id := range e.Supersedes {
		texts[fmt.Sprintf("supersedes[%d]", i)] = id
	}
	for _, name := range sortedKeys(texts) {
		text := texts[name]
		if len(text) > maxName {
			err := cairn.Invalid(field+"."+name, "is too large: %d bytes (max %d)", len(text), maxName)
			err.Code = cairn.ErrTooLarge
			return err
		}
		if err := cairn.CheckText(field+"."+name, text); err != nil {
			return err
		}
	}
	return nil
}

// checkSelection returns an error for a kind, a source or a state that a query asks for and that no entry has; empty means
// all.
func checkSelection(kind Kind, source SourceKind, state State) error {
	switch {
	case kind != "" && kind != Said && kind != Fact:
		return cairn.Invalid("kind", "unknown kind %q: want said or fact", kind)
	case source != "" && !slices.Contains(sourceKinds, source):
		return cairn.Invalid("source", "unknown source %q: want user_said, tool_returned, agent_inferred or application", source)
	case state != "" && state != Active && state != Quarantined && state != Redacted:
		return cairn.Invalid("state", "unknown state %q: want active, quarantined or redacted", state)
	}
	return nil
}

// stamp returns a time as it is stored.
func stamp(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Microsecond)
}
