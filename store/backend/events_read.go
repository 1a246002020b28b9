package backend

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn"
)

// DecodeEvents appends to a list the events of a batch that come after a sequence, until the list has limit events.
// first is the sequence of the batch's first event. Events that it skips are decoded no further than necessary. The
// appended events refer to data, which must not change afterwards. For data that is not a batch the error is
// ErrCorrupt and the list is returned unchanged.
func DecodeEvents(list []cairn.Event, data []byte, first, after int64, limit int) ([]cairn.Event, error) {
	r, err := openEvents(data)
	if err != nil {
		return list, err
	}
	whole := list
	for i := int64(0); i < int64(r.count) && len(whole) < limit; i++ {
		var ev cairn.Event
		wanted := first+i > after
		r.event(&ev, wanted)
		if r.err != nil {
			return list, r.err
		}
		if wanted {
			ev.Sequence = first + i
			whole = append(whole, ev)
		}
	}
	if len(whole) < limit && r.at < len(r.data) {
		return list, corrupt("%d bytes follow its last event", len(r.data)-r.at)
	}
	return whole, nil
}

// CountEvents returns the number of events in a batch, as recorded at its beginning.
func CountEvents(data []byte) (int, error) {
	r, err := openEvents(data)
	if err != nil {
		return 0, err
	}
	return r.count, nil
}

// eventsReader reads a batch from its beginning. The first malformed part sets err.
type eventsReader struct {
	data  []byte // the events
	text  string // the same bytes
	at    int
	count int
	prior eventContext
	seen  references
	err   error
}

func corrupt(format string, args ...any) error {
	return cairn.Errorf(cairn.ErrCorrupt, "stored batch of events: "+format, args...)
}

func openEvents(data []byte) (*eventsReader, error) {
	if len(data) == 0 || data[0] != eventsVersion {
		return nil, corrupt("must begin with version %d", eventsVersion)
	}
	count, n := binary.Uvarint(data[1:])
	body := data[1+max(n, 0):]
	if n <= 0 || count > uint64(len(body)) { // an event has at least one byte
		return nil, corrupt("wrong number of events")
	}
	return &eventsReader{data: body, text: string(body), count: int(count)}, nil
}

func (r *eventsReader) fail(what string) {
	if r.err == nil {
		r.err = corrupt("at byte %d: %s", r.at, what)
	}
}

// event reads the next event. Of an event that is not wanted it decodes only what later events need.
func (r *eventsReader) event(ev *cairn.Event, wanted bool) {
	mask := r.uvarint()
	if mask > allFields {
		r.fail("an event has fields that this program does not know")
		return
	}
	r.begin(mask)
	if mask&hasText != 0 {
		from := r.plain()
		ev.Text = r.text[from:r.at]
	}
	if mask&hasData != 0 {
		if from, to := r.reference(); r.err == nil {
			ev.Data = json.RawMessage(r.data[from:to:to])
		}
	}
	r.texts(mask, hasCall, &ev.CallID, &ev.Tool)
	if mask&hasStep != 0 {
		r.prior.step += int(r.varint())
	}
	r.texts(mask, hasRun, &r.prior.run, &r.prior.session, &r.prior.agent)
	if mask&hasMessages != 0 {
		ev.MessageCount = int(r.varint())
	}
	r.texts(mask, hasCheckpoint, &ev.CheckpointID)
	if mask&hasUsage != 0 {
		ev.Usage = r.usage()
	}
	r.texts(mask, hasStatus, (*string)(&ev.Status), &ev.Name, &ev.ChildID, &ev.ApprovalID, (*string)(&ev.Reason))
	ev.IsError, ev.Truncated, ev.Cached = mask&isError != 0, mask&isTruncated != 0, mask&isCached != 0
	ev.Type, ev.SessionID, ev.RunID, ev.Agent, ev.Step = r.prior.kind, r.prior.session, r.prior.run, r.prior.agent, r.prior.step
	if r.prior.nanos != noTime {
		ev.Time = time.Unix(0, r.prior.nanos).UTC()
	}
	if mask&hasIndex != 0 {
		ev.Index = int(r.varint())
	}
	r.texts(mask, hasMessage, &ev.MessageID)
	if mask&hasRunMessage != 0 {
		from, to := r.reference()
		ev.MessageID = ev.RunID + r.text[from:to]
	}
	if mask&hasRest != 0 {
		from := r.plain()
		if wanted && r.err == nil {
			r.rest(ev, r.data[from:r.at])
		}
	}
}

// begin reads the type and the time of an event.
func (r *eventsReader) begin(mask uint64) {
	if mask&hasType != 0 {
		switch code := r.uvarint(); {
		case code == 0:
			r.texts(1, 1, (*string)(&r.prior.kind))
		case code < uint64(len(eventTypes)):
			r.prior.kind = eventTypes[code]
		default:
			r.fail("unknown event type")
		}
	}
	if mask&hasTime != 0 {
		r.prior.nanos += r.varint()
	}
}

// rest reads the fields that have no bits of their own.
func (r *eventsReader) rest(ev *cairn.Event, raw []byte) {
	more := rest{Event: ev}
	if err := json.Unmarshal(raw, &more); err != nil {
		r.fail(err.Error())
		return
	}
	if !more.Time.IsZero() {
		ev.Time = more.Time
	}
	ev.Sequence = 0
}

func (r *eventsReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.data[r.at:])
	if size <= 0 || r.err != nil {
		r.fail("a number is cut off")
		return 0
	}
	r.at += size
	return n
}

func (r *eventsReader) varint() int64 {
	n := r.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

// plain reads a text and returns where it begins. The text ends at r.at.
func (r *eventsReader) plain() (from int) {
	return r.take(r.uvarint())
}

func (r *eventsReader) take(n uint64) (from int) {
	from = r.at
	if n > uint64(len(r.data)-r.at) {
		r.fail("a text is cut off")
		return from
	}
	r.at += int(n)
	return from
}

// reference reads a text, or a reference to one, and returns the text's position.
func (r *eventsReader) reference() (from, to int) {
	n := r.uvarint()
	if n&1 == 0 {
		from = r.take(n >> 1)
		r.seen.add(from, r.at)
		return from, r.at
	}
	if n >>= 1; n >= uint64(r.seen.n) {
		r.fail("a reference is to nothing")
		return 0, 0
	}
	return int(r.seen.list[n].from), int(r.seen.list[n].to)
}

// texts reads the texts whose bits are set. first is the bit of the first text.
func (r *eventsReader) texts(mask, first uint64, texts ...*string) {
	for _, text := range texts {
		if mask&first != 0 {
			from, to := r.reference()
			*text = r.text[from:to]
		}
		first <<= 1
	}
}

func (r *eventsReader) usage() *cairn.Usage {
	u := &cairn.Usage{}
	fields := usageFields(u)
	mask := r.uvarint()
	if mask>>len(fields) != 0 {
		r.fail("a usage has counts that this program does not know")
	}
	for i, n := range fields {
		if mask>>i&1 != 0 {
			*n = r.varint()
		}
	}
	return u
}
