package backend

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// Events is a batch of events in its stored form, to which more can be added. A log's table keeps one value per batch
// instead of one per event. Within a batch, an event does not repeat the fields that equal the previous event's
// (session, run, agent, step, type). Its time is stored as a difference. Texts that the batch already contains are
// stored as references. The zero value is an empty batch. It is not safe for concurrent use.
//
// The form is a version byte, the number of events as a uvarint, and the events. An event is a uvarint with a bit for
// each stored field, followed by those fields in the order of the bits. Rare fields, and fields added to cairn.Event
// after this form was defined, are stored as JSON in the last of them.
type Events struct {
	body  []byte
	count int
	prior eventContext
	seen  references
	more  *rest // scratch space for one event
}

// eventsVersion is the first byte of a batch.
const eventsVersion = 1

// These are the bits of an event's stored fields. Those before hasCall and hasRun fit into a mask of one byte.
const (
	hasType = 1 << iota
	hasTime
	hasText
	hasData
	hasCall
	hasTool
	hasStep
	hasRun
	hasSession
	hasAgent
	hasMessages
	hasCheckpoint
	hasUsage
	hasStatus
	hasName
	hasChild
	hasApproval
	hasReason
	isError
	isTruncated
	isCached
	hasIndex
	hasMessage
	hasRunMessage // an id that begins with the run's id; only the remainder is stored
	hasRest

	allFields = 1<<iota - 1
)

// eventTypes are stored as their index; 0 stands for a type that is not in the list, which is stored as text. The list
// may only grow at its end.
var eventTypes = [...]cairn.EventType{"",
	cairn.EventRunStart, cairn.EventRunEnd, cairn.EventRunResumed, cairn.EventStepStart, cairn.EventStepCommitted,
	cairn.EventStepDiscarded, cairn.EventTextDelta, cairn.EventThinking, cairn.EventThinkingEnd, cairn.EventToolArgStart,
	cairn.EventToolArgDelta, cairn.EventToolArgEnd, cairn.EventToolStart, cairn.EventToolEnd, cairn.EventToolApproval,
	cairn.EventToolPending, cairn.EventSubagentStart, cairn.EventSubagentEnd, cairn.EventStatePatch, cairn.EventCustom,
	cairn.EventOutput, cairn.EventError, cairn.EventUsage, cairn.EventCheckpoint, cairn.EventSessionDeleted,
	cairn.EventSessionRestored, cairn.EventUserMessage, cairn.EventContextAdded, cairn.EventContextChanged,
	cairn.EventQueued, cairn.EventDequeued, cairn.EventRewound, cairn.EventBranched, cairn.EventModelFallback,
	cairn.EventCompacted, cairn.EventSources, cairn.EventFiles, cairn.EventToolsMissing, cairn.EventSkillLoaded,
	cairn.EventMemorySaved, cairn.EventEffectSent, cairn.EventEffectUnknown, cairn.EventEffectSettled,
	cairn.EventBudgetWarning, cairn.EventArtifact, cairn.EventStepRetry,
}

var eventCodes = func() map[cairn.EventType]uint64 {
	codes := make(map[cairn.EventType]uint64, len(eventTypes))
	for i, t := range eventTypes[1:] {
		codes[t] = uint64(i + 1)
	}
	return codes
}()

// eventContext is what an event has in common with the previous one, unless it says otherwise.
type eventContext struct {
	kind                cairn.EventType
	session, run, agent string
	step                int
	nanos               int64
}

// noTime stands for the zero time, and for a time that is stored in the rest.
const noTime = math.MinInt64

// references are the positions of the texts in a batch that others may refer to: the first texts of at least
// minReference bytes. Their number is limited to what a reference of one byte can name.
type references struct {
	list [64]struct{ from, to int32 }
	n    int
}

const minReference = 3

func (r *references) add(from, to int) {
	if r.n < len(r.list) && to-from >= minReference && to <= math.MaxInt32 {
		r.list[r.n].from, r.list[r.n].to = int32(from), int32(to)
		r.n++
	}
}

// rest is the part of an event that has no bits of its own. Empty fields other than Event are omitted.
type rest struct {
	*cairn.Event
	Sequence  int64           `json:"sequence,omitempty"`
	Type      cairn.EventType `json:"type,omitempty"`
	SessionID string          `json:"session_id,omitempty"`
	Time      time.Time       `json:"time,omitzero"`
}

// EncodeEvents returns the stored form of a batch of events, without their sequences. The events must pass
// [driver.CheckEvent]. The error is ErrInvalid for an event that does not encode.
func EncodeEvents(events []cairn.Event) ([]byte, error) {
	var b Events
	for i := range events {
		if err := b.Add(&events[i]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// Count returns the number of events.
func (b *Events) Count() int { return b.count }

// Size returns the number of bytes of the stored form.
func (b *Events) Size() int { return 1 + uvarintSize(uint64(b.count)) + len(b.body) }

// Bytes returns a copy of the stored form.
func (b *Events) Bytes() []byte {
	to := make([]byte, 0, b.Size())
	to = append(to, eventsVersion)
	to = binary.AppendUvarint(to, uint64(b.count))
	return append(to, b.body...)
}

// Clone returns a copy that can be added to without changing b.
func (b *Events) Clone() *Events {
	c := *b
	c.more = nil
	c.body = append(make([]byte, 0, len(b.body)+128), b.body...)
	return &c
}

// Add adds an event. If the event does not encode the error is ErrInvalid and nothing is added.
func (b *Events) Add(ev *cairn.Event) error {
	if b.more == nil {
		b.more = &rest{Event: &cairn.Event{}}
	}
	*b.more.Event, b.more.Time = *ev, time.Time{}
	now := b.prior.next(ev, b.more)
	raw, usage, err := b.more.encode()
	if err != nil {
		return err
	}
	b.write(ev, now, usage, raw)
	b.prior = now
	b.count++
	return nil
}

// next returns the context of an event. A time that does not fit goes into the rest.
func (c *eventContext) next(ev *cairn.Event, more *rest) eventContext {
	now := eventContext{ev.Type, ev.SessionID, ev.RunID, ev.Agent, ev.Step, noTime}
	const limit = math.MaxInt64 / int64(time.Second)
	_, offset := ev.Time.Zone()
	switch sec := ev.Time.Unix(); {
	case ev.Time.IsZero():
	case offset == 0 && -limit < sec && sec < limit:
		now.nanos = ev.Time.UnixNano()
	default:
		more.Time = ev.Time
	}
	return now
}

// encode removes from the rest what has a bit of its own. It returns the usage among those fields, and the JSON of what
// is left; nil for none.
func (r *rest) encode() (raw []byte, usage []int64, err error) {
	ev := r.Event
	if ev.Usage != nil {
		own := *ev.Usage
		usage = make([]int64, len(usageFields(&own)))
		for i, n := range usageFields(&own) {
			usage[i], *n = *n, 0
		}
		if ev.Usage = &own; reflect.ValueOf(own).IsZero() {
			ev.Usage = nil
		}
	}
	ev.Sequence, ev.Type, ev.SessionID, ev.RunID, ev.Agent, ev.Step, ev.Time = 0, "", "", "", "", 0, time.Time{}
	ev.Text, ev.CallID, ev.Tool, ev.Name, ev.Data, ev.ApprovalID, ev.ChildID = "", "", "", "", nil, "", ""
	ev.IsError, ev.Truncated, ev.Cached, ev.Incarnation = false, false, false, ""
	ev.Status, ev.Reason, ev.CheckpointID, ev.MessageCount = "", "", "", 0
	ev.Index, ev.MessageID = 0, ""
	if r.Time.IsZero() && reflect.ValueOf(ev).Elem().IsZero() {
		return nil, usage, nil
	}
	if raw, err = json.Marshal(r); err != nil {
		return nil, nil, cairn.Errorf(cairn.ErrInvalid, "encode event: %w", err)
	}
	return raw, usage, nil
}

// usageFields returns the counts of a usage in their stored order. The list may only grow at its end.
func usageFields(u *cairn.Usage) []*int64 {
	return []*int64{&u.InputTokens, &u.OutputTokens, &u.ReasoningTokens, &u.CachedTokens, &u.CacheWriteTokens, &u.ModelCalls,
		&u.ToolCalls, &u.ToolErrors, &u.ToolCacheHits, &u.SubAgentRuns, &u.CostNanos, &u.PricedCalls, &u.WaitSeconds,
		&u.CacheWriteHourTokens, &u.DiscardedCalls, &u.WebSearches, &u.FileSearches}
}

// write appends an event. The fields are in the order of their bits.
func (b *Events) write(ev *cairn.Event, now eventContext, usage []int64, raw []byte) {
	mask := b.prior.mask(&now) | fieldMask(ev)
	if usage != nil {
		mask |= hasUsage
	}
	if raw != nil {
		mask |= hasRest
	}
	b.uvarint(mask)
	if mask&hasType != 0 {
		code := eventCodes[ev.Type]
		b.uvarint(code)
		if code == 0 {
			b.text(string(ev.Type))
		}
	}
	if mask&hasTime != 0 {
		b.varint(now.nanos - b.prior.nanos)
	}
	if mask&hasText != 0 {
		b.plain(ev.Text)
	}
	if mask&hasData != 0 {
		reference(b, ev.Data)
	}
	b.texts(mask, hasCall, ev.CallID, ev.Tool)
	if mask&hasStep != 0 {
		b.varint(int64(now.step) - int64(b.prior.step))
	}
	b.texts(mask, hasRun, ev.RunID, ev.SessionID, ev.Agent)
	if mask&hasMessages != 0 {
		b.varint(int64(ev.MessageCount))
	}
	b.texts(mask, hasCheckpoint, ev.CheckpointID)
	if mask&hasUsage != 0 {
		b.counts(usage)
	}
	b.texts(mask, hasStatus, string(ev.Status), ev.Name, ev.ChildID, ev.ApprovalID, string(ev.Reason))
	if mask&hasIndex != 0 {
		b.varint(int64(ev.Index))
	}
	b.texts(mask, hasMessage, ev.MessageID)
	if mask&hasRunMessage != 0 {
		b.text(ev.MessageID[len(ev.RunID):])
	}
	if mask&hasRest != 0 {
		b.plain(string(raw))
	}
}

// mask returns the bits of the fields that differ from the previous event.
func (c *eventContext) mask(now *eventContext) (mask uint64) {
	set(&mask, hasType, now.kind != c.kind)
	set(&mask, hasTime, now.nanos != c.nanos)
	set(&mask, hasStep, now.step != c.step)
	set(&mask, hasRun, now.run != c.run)
	set(&mask, hasSession, now.session != c.session)
	set(&mask, hasAgent, now.agent != c.agent)
	return mask
}

// fieldMask returns the bits of the fields that are empty unless they are stored.
func fieldMask(ev *cairn.Event) (mask uint64) {
	set(&mask, hasText, ev.Text != "")
	set(&mask, hasData, len(ev.Data) > 0)
	set(&mask, hasCall, ev.CallID != "")
	set(&mask, hasTool, ev.Tool != "")
	set(&mask, hasMessages, ev.MessageCount != 0)
	set(&mask, hasCheckpoint, ev.CheckpointID != "")
	set(&mask, hasStatus, ev.Status != "")
	set(&mask, hasName, ev.Name != "")
	set(&mask, hasChild, ev.ChildID != "")
	set(&mask, hasApproval, ev.ApprovalID != "")
	set(&mask, hasReason, ev.Reason != "")
	set(&mask, isError, ev.IsError)
	set(&mask, isTruncated, ev.Truncated)
	set(&mask, isCached, ev.Cached)
	set(&mask, hasIndex, ev.Index != 0)
	ofRun := ev.RunID != "" && strings.HasPrefix(ev.MessageID, ev.RunID)
	set(&mask, hasMessage, ev.MessageID != "" && !ofRun)
	set(&mask, hasRunMessage, ofRun)
	return mask
}

func set(mask *uint64, bit uint64, when bool) {
	if when {
		*mask |= bit
	}
}

func (b *Events) uvarint(n uint64) { b.body = binary.AppendUvarint(b.body, n) }
func (b *Events) varint(n int64)   { b.body = binary.AppendVarint(b.body, n) }

// plain appends a text that is unlikely to occur twice.
func (b *Events) plain(text string) {
	b.uvarint(uint64(len(text)))
	b.body = append(b.body, text...)
}

// texts appends the texts whose bits are set. first is the bit of the first text.
func (b *Events) texts(mask, first uint64, texts ...string) {
	for _, text := range texts {
		if mask&first != 0 {
			b.text(text)
		}
		first <<= 1
	}
}

func (b *Events) text(text string) { reference(b, text) }

// reference appends a text: twice its length and its bytes or, if the batch already contains it, twice its number plus
// one.
func reference[T string | []byte | json.RawMessage](b *Events, text T) {
	for i := range b.seen.list[:b.seen.n] {
		r := b.seen.list[i]
		if int(r.to-r.from) == len(text) && string(b.body[r.from:r.to]) == string(text) {
			b.uvarint(uint64(i)<<1 | 1)
			return
		}
	}
	b.uvarint(uint64(len(text)) << 1)
	from := len(b.body)
	b.body = append(b.body, text...)
	b.seen.add(from, len(b.body))
}

// counts appends a mask with a bit for each count that is not zero, and then those counts.
func (b *Events) counts(list []int64) {
	var mask uint64
	for i, n := range list {
		set(&mask, 1<<i, n != 0)
	}
	b.uvarint(mask)
	for _, n := range list {
		if n != 0 {
			b.varint(n)
		}
	}
}

func uvarintSize(n uint64) int {
	var buf [binary.MaxVarintLen64]byte
	return binary.PutUvarint(buf[:], n)
}
