// Package aisdk implements the UI message stream of the Vercel AI SDK. It encodes the events of a turn as chunks of
// that stream, and the messages of a session as UI messages. It supports the major versions 5, 6 and 7 of the client.
//
// The encoding depends only on the log and on the place where a client joined it. The encoder reads no session and
// keeps no data beyond the turn.
package aisdk

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/server/internal/sse"
)

// Version is the major version of the client.
type Version int

const (
	V5 Version = 5 // no approvals: they are data parts
	V6 Version = 6
	V7 Version = 7 // discards the last step in place instead of reading the turn again
)

// Header marks a response as a UI message stream.
const Header = "X-Vercel-Ai-Ui-Message-Stream"

// Encoder encodes the events of one turn of one session, in order: the events of its first run and of the runs that
// resume it. It is not safe for concurrent use.
type Encoder struct {
	// Address makes addresses for files of messages that have none of their own; nil leaves such files out.
	Address Address

	version Version
	session string
	// answered has the results of the calls that a replay settles. Such calls are shown as settled from the beginning,
	// since a client runs a tool of its own as soon as it may.
	answered map[string]*cairn.Event

	turn   string // id of the UI message
	began  bool   // the message was started
	open   part   // the open part of text or reasoning
	openID string // its id
	parts  int    // number of parts of text and reasoning so far
	step   int    // number of attempts at steps so far
	// sources is the number of sources so far, settled the number before the current attempt.
	sources, settled int
	inStep           bool
	begun            []cairn.Event // steps of attempts that are neither committed nor discarded
	shown            bool          // the attempt has shown something
	earlier          bool          // so has one before it that is not committed
	held             bool          // the attempt was discarded; its words remain if the run fails with it
	deep             bool          // the one before it was, too
	resumed          bool          // a run has resumed the turn, and no step has begun since
	tools            int           // number of calls that the last step has shown
	calls            map[string]*call
	done             bool
	out              []any // chunks of the event being encoded
}

// part is a kind of part that is opened, extended and closed.
type part string

const (
	noPart   part = ""
	inText   part = "text"
	inReason part = "reasoning"
)

// call is what a client has seen of a tool call.
type call struct {
	tool      string
	own       bool // of the session itself, not of a sub-agent
	hidden    bool // the agent's way to end its turn, not a tool
	input     json.RawMessage
	available bool   // the client has the whole input
	approval  string // id of the approval request; empty if the call needs none
	requested bool   // this stream shows the request, and not yet the decision
	edited    bool   // the client has the input that a reviewer changed
	asked     *asked // what the user is asked in a data part; nil once it is settled
	askedAs   string
	begun     int // the attempt that showed it
	settled   int // the attempt that showed its result; 0 for none
}

// New returns an encoder of one turn of a session, for a client of a version. turn is the id of the turn's UI
// message. It must be the same whenever the turn is encoded, see [TurnID].
func New(v Version, session, turn string) *Encoder {
	return &Encoder{version: v, session: session, turn: turn, calls: map[string]*call{}}
}

// TurnID returns the id of a turn's UI message. firstRun is the id of the turn's first run.
func TurnID(firstRun string) string { return "turn_" + firstRun }

// Done reports whether the turn is over or suspended: no more chunks follow.
func (e *Encoder) Done() bool { return e.done }

// Replay encodes the events that exist when a client joins, from the turn's beginning. Discarded steps are left
// out, and answered calls are shown as settled. Later events go to Event.
func (e *Encoder) Replay(events []cairn.Event) []byte {
	e.answered = map[string]*cairn.Event{}
	for i := range events {
		if ev := &events[i]; ev.Type == cairn.EventToolEnd && ev.Origin == "" {
			e.answered[ev.CallID] = ev
		}
	}
	var out []byte
	for _, ev := range e.standing(events) {
		out = append(out, e.Event(ev)...)
	}
	e.answered = nil
	return out
}

// Skip processes the events that a client has been shown already, from the turn's beginning. Later events continue
// the same message.
func (e *Encoder) Skip(events []cairn.Event) {
	for _, ev := range e.standing(events) {
		e.Chunks(ev)
	}
	e.began, e.done, e.tools = false, false, 0
	for _, c := range e.calls {
		c.requested = false
	}
}

// standing returns the events without those of discarded attempts, and without the ends of runs that were resumed.
// Attempts that no other one has followed are kept: if their run fails with them, the client keeps its words.
func (e *Encoder) standing(events []cairn.Event) []*cairn.Event {
	void := make([]bool, len(events))
	var open []int // indexes of the starts of attempts that are neither committed nor discarded
	var ends []int // indexes of the ends of runs
	discard := func(start, end int) {
		for n := start; n <= end; n++ { // events of other runs may be in between
			void[n] = void[n] || events[end].Voids(&events[n])
		}
	}
	held := [2]int{-1, -1} // the last discarded attempts of the session itself
	drop := func() {
		if held[0] >= 0 {
			discard(held[0], held[1])
			held[0] = -1
		}
	}
	for i := range events {
		ev := &events[i]
		own := ev.SessionID == e.session
		switch {
		case ev.Type == cairn.EventStepStart:
			if open = append(open, i); own {
				drop()
			}
		case ev.Type == cairn.EventStepCommitted:
			open = slices.DeleteFunc(open, func(n int) bool { return sameStep(&events[n], ev) })
		case ev.Type == cairn.EventStepDiscarded:
			first := slices.IndexFunc(open, func(n int) bool { return ev.Voids(&events[n]) })
			if first >= 0 && own {
				held = [2]int{open[first], i}
			} else if first >= 0 {
				discard(open[first], i)
			}
			open = slices.DeleteFunc(open, func(n int) bool { return ev.Voids(&events[n]) })
		case ev.Type == cairn.EventRunEnd && own:
			if ends = append(ends, i); ev.Status != cairn.RunFailed {
				drop()
			}
		case ev.Type == cairn.EventRunResumed && own:
			drop()
			for _, n := range ends {
				void[n] = true
			}
			ends = nil
		}
	}
	list := make([]*cairn.Event, 0, len(events))
	for i := range events {
		if !void[i] {
			list = append(list, &events[i])
		}
	}
	return list
}

// Taken reports whether an event discards output that the client was shown and cannot remove. Its connection must then
// be cut: when the client resumes it is shown each word once.
func (e *Encoder) Taken(ev *cairn.Event) bool {
	return e.held && (e.deep || e.shown && e.version < V7) && ev.SessionID == e.session &&
		(ev.Type == cairn.EventStepStart || ev.Type == cairn.EventRunEnd && ev.Status != cairn.RunFailed)
}

// Event encodes one event as frames of server-sent events. Most events give none or one.
func (e *Encoder) Event(ev *cairn.Event) []byte { return Frames(e.Chunks(ev)) }

// Chunks returns the next chunks of the stream, as Event encodes them. They are valid until the next call of the
// encoder. They are not changed later. Streams of different clients may have equal chunks, and so equal frames.
func (e *Encoder) Chunks(ev *cairn.Event) []any {
	clear(e.out)
	e.out = e.out[:0]
	own := ev.SessionID == e.session
	if own && ev.Type == cairn.EventRunResumed {
		e.done = false
	}
	switch {
	case e.done, ev.Origin != "": // what an agent on another server did is part of no message
	case own:
		e.own(ev)
	default:
		e.child(ev)
	}
	return e.out
}

// own encodes an event of the session itself.
func (e *Encoder) own(ev *cairn.Event) {
	began := e.began
	e.start(ev)
	switch ev.Type {
	case cairn.EventRunResumed:
		e.takeBack()
		if e.resumed = true; began {
			e.emit(messageMetadata{"message-metadata", Metadata{RunID: ev.RunID}})
		}
	case cairn.EventStepStart:
		e.takeBack()
		e.endStep()
		if !e.resumed || !e.waits() { // the calls of a suspended step are settled in the client's step
			e.emit(plain{"start-step"})
			e.inStep, e.tools = true, 0
		}
		e.step++
		e.earlier = len(e.begun) > 0 && (e.earlier || e.shown)
		e.begun = append(e.begun, cairn.Event{SessionID: ev.SessionID, RunID: ev.RunID, Step: ev.Step})
		e.resumed, e.shown, e.settled = false, false, e.sources
	case cairn.EventStepCommitted:
		e.begun = slices.DeleteFunc(e.begun, func(start cairn.Event) bool { return sameStep(&start, ev) })
		e.endStep()
	case cairn.EventStepDiscarded:
		n := len(e.begun)
		e.begun = slices.DeleteFunc(e.begun, func(start cairn.Event) bool { return ev.Voids(&start) })
		e.held = e.held || len(e.begun) < n
		e.deep = e.deep || len(e.begun) < n-1 && e.earlier
	case cairn.EventTextDelta:
		e.delta(inText, ev.Text)
	case cairn.EventThinking:
		e.delta(inReason, ev.Text)
	case cairn.EventThinkingEnd:
		e.closePart()
	case cairn.EventSources: // they do not interrupt the text
		for i := range ev.Sources {
			e.sources++
			e.emit(source(e.sources, &ev.Sources[i]))
		}
	case cairn.EventFiles, cairn.EventArtifact:
		for _, p := range e.files(ev) {
			e.closePart()
			e.emit(file{p.Type, p.URL, p.MediaType})
		}
	case cairn.EventUserMessage:
		e.said(ev)
	case cairn.EventCustom:
		e.closePart()
		e.emit(data{"data-" + dataName(ev.Name), ev.DataID, orNull(ev.Data)})
	case cairn.EventOutput:
		e.closePart()
		e.emit(data{"data-output", "output", orNull(ev.Data)})
	case cairn.EventRunEnd:
		e.end(ev)
	default:
		e.tool(ev)
	}
}

// start begins the message, once: the runs that resume a turn continue the message of the first.
func (e *Encoder) start(ev *cairn.Event) {
	if e.began {
		return
	}
	e.began = true
	e.emit(start{"start", e.turn, Metadata{RunID: ev.RunID}})
}

// said shows a user's message that joined the turn. The messages that it began with are shown on their own.
func (e *Encoder) said(ev *cairn.Event) {
	if e.step == 0 {
		return
	}
	e.closePart()
	text := ev.Text
	if ev.Truncated {
		text += "…"
	}
	parts := []Part{}
	if text != "" {
		parts = append(parts, Part{Type: "text", Text: text})
	}
	parts = append(parts, e.files(ev)...)
	if p := steering(e.version, ev.MessageID, parts); e.version >= V7 {
		e.emit(steeringMessage{p.Type, p.ID, p.Parts})
	} else {
		e.emit(data{p.Type, p.ID, p.Data})
	}
}

// files returns the parts that show the files of a message.
func (e *Encoder) files(ev *cairn.Event) (list []Part) {
	for n, f := range ev.Files {
		at := f.URL
		switch {
		case at == "" && f.Size > 0 && e.Address != nil:
			at = e.Address(ev.SessionID, ev.Index, ev.MessageID, n)
		case at != "" && !ofWeb(at):
			at = unsafeAddress
		}
		if at != "" {
			list = append(list, Part{Type: "file", MediaType: f.MediaType, Filename: f.Name, URL: at})
		}
	}
	return list
}

func (e *Encoder) delta(kind part, words string) {
	if words == "" {
		return
	}
	if e.open != kind {
		e.closePart()
		e.parts++
		e.open, e.openID = kind, string(kind)+"-"+strconv.Itoa(e.parts)
		e.emit(piece{Type: string(kind) + "-start", ID: e.openID})
	}
	is := "text-delta"
	if kind == inReason {
		is = "reasoning-delta"
	}
	e.emit(piece{Type: is, ID: e.openID, Delta: words})
}

func (e *Encoder) closePart() {
	if e.open != noPart {
		e.emit(piece{Type: string(e.open) + "-end", ID: e.openID})
		e.open = noPart
	}
}

func (e *Encoder) endStep() {
	e.closePart()
	if e.inStep {
		e.inStep = false
		e.emit(plain{"finish-step"})
	}
}

// waits reports whether a call of the session has no result.
func (e *Encoder) waits() bool {
	for _, c := range e.calls {
		if c.own && !c.hidden && c.settled == 0 {
			return true
		}
	}
	return false
}

// sameStep reports whether two events are of the same step.
func sameStep(a, b *cairn.Event) bool {
	return a.SessionID == b.SessionID && a.RunID == b.RunID && a.Step == b.Step
}

// takeBack makes the client forget an attempt that was discarded. A client before version 7 cannot, and none can
// forget more than the last attempt: it was shown nothing, or its connection is cut.
func (e *Encoder) takeBack() {
	if !e.held {
		return
	}
	if e.held, e.deep = false, false; e.version < V7 {
		return
	}
	if e.inStep {
		e.emit(plain{"reset-step"})
	}
	e.open, e.inStep, e.shown, e.tools, e.sources = noPart, false, false, 0, e.settled
	for id, c := range e.calls {
		if c.begun == e.step {
			delete(e.calls, id)
		} else if c.settled == e.step {
			c.settled = 0
		}
	}
}

// end ends the message with the outcome of its run. A suspended turn ends the stream as well; the run that resumes
// it continues the same message.
func (e *Encoder) end(ev *cairn.Event) {
	if ev.Status != cairn.RunFailed {
		e.takeBack()
	}
	e.held, e.deep = false, false
	e.endStep()
	meta := Metadata{Status: wire.RunStatus(ev.Status, ev.Reason), Usage: ev.Usage}
	switch ev.Status {
	case cairn.RunCompleted:
		e.rest()
		reason := "stop"
		if ev.Reason == cairn.ReasonLength || ev.Reason == cairn.ReasonWindow {
			reason = "length"
		}
		e.emit(finish{"finish", reason, meta})
	case cairn.RunFailed:
		e.emit(messageMetadata{"message-metadata", meta})
		e.emit(failure{"error", e.failed(ev)})
	case cairn.RunInterrupted:
		if e.version >= V7 {
			e.emit(finish{"finish", "interrupted", meta})
		} else {
			e.rest() // an abort does not keep a client from posting
			e.emit(messageMetadata{"message-metadata", meta})
			e.emit(aborted{"abort", ev.Text})
		}
	default:
		e.emit(finish{"finish", "tool-calls", meta})
	}
	e.done = true
	e.out = append(e.out, over{})
}

// rest adds an empty step after one whose calls have all been settled by the server. Otherwise a client that posts
// automatically once the last step's calls are settled would post forever.
func (e *Encoder) rest() {
	if e.tools > 0 {
		e.emit(plain{"start-step"})
		e.emit(plain{"finish-step"})
	}
}

// failed returns what a client learns of a failure: only its code's message, since other text may come from a
// provider or a database.
func (e *Encoder) failed(ev *cairn.Event) string {
	if ev.Error == nil {
		return "the turn failed"
	}
	return "the turn failed: " + ev.Error.Public().Message
}

// emit appends a chunk.
func (e *Encoder) emit(chunk any) {
	e.out = append(e.out, chunk)
	e.shown = true
}

// Frames encodes chunks as frames of server-sent events.
func Frames(chunks []any) (frames []byte) {
	for _, chunk := range chunks {
		if _, last := chunk.(over); last {
			frames = append(frames, "data: [DONE]\n\n"...)
			continue
		}
		body, err := json.Marshal(chunk)
		if err != nil { // impossible: the JSON is from the log
			panic("aisdk: " + err.Error())
		}
		frames = sse.Append(frames, "", "", body)
	}
	return frames
}

// Nothing returns a stream in which nothing happens, for a client that posts where there is nothing to do: the
// client takes a response without a body for a failure. waits means that more answers are needed. Otherwise an
// empty step keeps the client from posting again automatically.
func Nothing(waits bool) []byte {
	e := Encoder{tools: 1}
	e.emit(plain{"start"})
	if !waits {
		e.rest()
	}
	e.emit(plain{"finish"})
	return Frames(append(e.out, over{}))
}
