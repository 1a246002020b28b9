package server

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server/aisdk"
	"github.com/cairn-agents/cairn/server/internal/sse"
	"github.com/cairn-agents/cairn/store"
)

// chatIn is what a chat client posts: the whole conversation as it sees it, of which only the last message counts. Pages
// add fields of their own.
type chatIn struct {
	// ID is the session's.
	ID string `json:"id"`
	// Messages ends with what the user said, or with the answers to what the last turn asked.
	Messages []aisdk.Message `json:"messages"`
	Trigger  string          `json:"trigger,omitempty"`
	// MessageID is that of the message that is regenerated, edited or continued.
	MessageID string `json:"messageId,omitempty"`
	// Assistant is the agent of a new session. It may be left out if the engine has only one.
	Assistant string `json:"assistant,omitempty"`
	// Version is the major version of the client; 0 means 6.
	Version int `json:"version,omitempty"`
	Unready
}

func (*chatIn) lenient() {}

// What a client's post is for. Without an answer to be made again it is for what its last message says.
const (
	submitMessage     = "submit-message"
	regenerateMessage = "regenerate-message"
)

// chat answers what a chat client posts with the stream of the turn that follows from it.
func chat(c *request, in *chatIn) error {
	v, err := version(in.Version)
	if err != nil {
		return err
	}
	switch {
	case in.Trigger != "" && in.Trigger != submitMessage && in.Trigger != regenerateMessage:
		return cairn.Invalid("trigger", "%q is neither %s nor %s", in.Trigger, submitMessage, regenerateMessage)
	case len(in.Messages) == 0:
		return cairn.Invalid("messages", "is empty")
	}
	last := &in.Messages[len(in.Messages)-1]
	switch last.Role {
	case "user":
		return c.say(in, last, v)
	case "assistant":
		return c.answers(in, last, v)
	}
	return cairn.Invalid("messages", "the last one is of role %q", last.Role)
}

func version(major int) (aisdk.Version, error) {
	switch v := aisdk.Version(major); v {
	case 0:
		return aisdk.V6, nil
	case aisdk.V5, aisdk.V6, aisdk.V7:
		return v, nil
	}
	return 0, cairn.Invalid("version", "%d is none of 5, 6, 7", major)
}

// say starts a turn with what the user said. If that takes the place of an earlier message of the user's, or its answer is to
// be made again, the turn takes the place of the one that began with that. A message that is posted twice is said once.
func (c *request) say(in *chatIn, last *aisdk.Message, v aisdk.Version) error {
	opts, err := in.Unready.options()
	if err != nil {
		return err
	}
	m, err := last.User()
	if err != nil {
		return err
	}
	if m.ID != "" && !validID(m.ID) {
		return cairn.Invalid("messages", "the id of the last one has other than 128 visible ASCII characters")
	}
	agent := in.Assistant
	if names := c.h.eng.Agents(); agent == "" && len(names) == 1 {
		agent = names[0]
	}
	row, err := c.openOrCreate(in.ID, agent, &Context{})
	if err != nil {
		return err
	}
	if in.Assistant == "" && row.Agent != "" {
		agent = row.Agent
	}
	n, stored, err := c.find(row, m.ID)
	if err != nil {
		return err
	}
	switch again := in.Trigger == regenerateMessage; {
	case (again || in.MessageID != "") && stored == nil:
		return &cairn.Error{Code: cairn.CodeNotFound, Field: "messages", Message: "the session has no such message"}
	case again: // with what was said then, whatever the client makes of it
		m = cairn.User(stored.Parts...)
		m.ID = stored.ID
		opts = append(opts, engine.FromMessage(n))
	case in.MessageID != "":
		opts = append(opts, engine.FromMessage(n))
	case stored != nil:
		return c.turn(row, stored.RunID, v, nil)
	}
	run, err := c.h.eng.Execute(c.ctx, row.ID, agent, cairn.Messages(m), opts...)
	if err != nil {
		return err
	}
	return c.turn(row, run.ID(), v, nil)
}

// find returns a message of the user's with its index, and nil if the session has none of that id. It looks from the end,
// where it mostly is.
func (c *request) find(row *cairn.Session, id string) (int, *cairn.Message, error) {
	if id == "" {
		return 0, nil, nil
	}
	for to := row.MessageCount; to > 0; {
		from := max(0, to-maxPage)
		list, err := c.h.eng.Messages(c.ctx, row.ID, from, to-from)
		if err != nil {
			return 0, nil, err
		}
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].ID == id && list[i].Role == cairn.RoleUser && !list[i].Hidden {
				return from + i, &list[i], nil
			}
		}
		to = from
	}
	return 0, nil, nil
}

// answers submits the decisions and results that a message of the client has, and streams what the turn does with them. A
// call that was answered before keeps its first answer.
func (c *request) answers(in *chatIn, last *aisdk.Message, v aisdk.Version) error {
	row, err := c.open(in.ID, ActionRun)
	if err != nil {
		return err
	}
	page, err := c.h.eng.Inbox(c.ctx, store.CallQuery{RootID: row.ID})
	if err != nil {
		return err
	}
	for i := range page.Items {
		call := &page.Items[i]
		s, ok := last.Answer(call.CallRef)
		if !ok {
			continue
		}
		s.Reviewer = c.principal.User
		if err := c.allow(Access{Principal: c.principal, Action: ActionReview, Session: row, Call: call}, row.ID); err != nil {
			return err
		}
		if _, err := c.h.eng.Submit(c.ctx, row.ID, s); err != nil {
			return err
		}
	}
	_, err = c.h.eng.Resume(c.ctx, row.ID)
	idle := errors.Is(err, cairn.ErrNotResumable)
	if err != nil && !idle && !errors.Is(err, cairn.ErrAlreadyRunning) { // else a worker, or another tab, was faster
		return err
	}
	if row, err = c.h.eng.Session(c.ctx, row.ID); err != nil {
		return err
	}
	if idle && (last.Metadata == nil || last.Metadata.RunID == row.RunID) {
		return c.nothing(row.ID)
	}
	seen := ""
	if last.Metadata != nil {
		seen = last.Metadata.RunID
	}
	return c.turn(row, row.RunID, v, &seen)
}

// nothing answers with a stream in which nothing happens: more answers are needed, or all were given before.
func (c *request) nothing(root string) error {
	page, err := c.h.eng.Inbox(c.ctx, store.CallQuery{RootID: root, Limit: 1})
	if err != nil {
		return err
	}
	return c.chatStream(func(context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) { yield(aisdk.Nothing(len(page.Items) > 0), nil) }
	})
}

type chatStreamIn struct {
	ID string `path:"id"`
	// Version is the major version of the client; 0 means 6.
	Version int `query:"version"`
}

// resumeChat streams the turn that is under way, from its beginning; without one there is nothing to resume.
func resumeChat(c *request, in *chatStreamIn) error {
	v, err := version(in.Version)
	if err != nil {
		return err
	}
	row, err := c.open(in.ID, ActionRead)
	if err != nil {
		return err
	}
	if row.Status != cairn.SessionActive {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return c.turn(row, row.RunID, v, nil)
}

// turn streams the turn that a run belongs to: whole, or what follows the run that the client has seen last. If that is not
// known it is the one before.
func (c *request) turn(row *cairn.Session, runID string, v aisdk.Version, seen *string) error {
	runs, err := c.turnOf(row.ID, runID)
	if errors.Is(err, cairn.ErrNotFound) { // it is queued, and begins behind what there is
		runs, err = []*cairn.Run{{ID: runID, StartSequence: row.LogSequence}}, nil
	}
	if err != nil {
		return err
	}
	first := runs[0]
	t := turnReader{eng: c.h.eng, session: row.ID, first: first.ID}
	if seen != nil {
		t.from = runID
		if i := slices.IndexFunc(runs, func(r *cairn.Run) bool { return r.ID == *seen }); i >= 0 && i+1 < len(runs) {
			t.from = runs[i+1].ID
		}
	}
	t.enc = aisdk.New(v, row.ID, aisdk.TurnID(first.ID))
	before := cairn.Cursor{Incarnation: row.Incarnation, Sequence: first.StartSequence}
	return c.chatStream(func(ctx context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) { t.read(ctx, before, yield) }
	})
}

// turnOf returns the runs of the turn of a run, up to that.
func (c *request) turnOf(session, runID string) (runs []*cairn.Run, err error) {
	for runID != "" {
		run, err := c.h.eng.Run(c.ctx, session, runID)
		if err != nil {
			return nil, err
		}
		record, err := run.Record(c.ctx)
		if err != nil {
			return nil, err
		}
		runs = append(runs, record)
		runID = record.PreviousRunID
	}
	slices.Reverse(runs)
	return runs, nil
}

// turnReader reads a turn from the log.
type turnReader struct {
	eng     *engine.Engine
	session string
	enc     *aisdk.Encoder
	first   string // the turn's first run
	from    string // the run that the stream begins with; empty for the first
}

// replayed is how many events are read at once of what a client has missed.
const replayed = 1000

// read yields the frames of a turn: what there is of it as a replay, then each event as it comes.
func (t *turnReader) read(ctx context.Context, after cairn.Cursor, yield func([]byte, error) bool) {
	var past []cairn.Event
	began := false
	for {
		list, err := t.eng.History(ctx, t.session, after, replayed)
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range list {
			if began = began || list[i].RunID == t.first; began {
				past = append(past, list[i])
			}
		}
		if len(list) > 0 {
			after = list[len(list)-1].Cursor()
		}
		if len(list) < replayed {
			break
		}
	}
	if t.from != "" {
		past = t.skip(past)
	}
	if frames := t.enc.Replay(past); len(frames) > 0 && !yield(frames, nil) || t.enc.Done() {
		return
	}
	for ev, err := range t.eng.Events(ctx, t.session, after) {
		if err != nil {
			yield(nil, err)
			return
		}
		if began = began || ev.RunID == t.first; !began {
			continue
		}
		if t.enc.Taken(&ev) {
			yield(nil, sse.ErrCut)
			return
		}
		if frames := t.enc.Event(&ev); len(frames) > 0 && !yield(frames, nil) || t.enc.Done() {
			return
		}
	}
}

// skip takes out the events before the run that the stream is about.
func (t *turnReader) skip(past []cairn.Event) []cairn.Event {
	n := len(past)
	for i := range past {
		if past[i].SessionID == t.session && past[i].RunID == t.from {
			n = i
			break
		}
	}
	t.enc.Skip(past[:n])
	return past[n:]
}

// chatStream answers with a stream for a chat client.
func (c *request) chatStream(frames func(context.Context) iter.Seq2[[]byte, error]) error {
	c.w.Header().Set(aisdk.Header, "v1")
	return c.stream(frames)
}

// Chat is a conversation as a chat client shows it.
type Chat struct {
	Messages []aisdk.Message `json:"messages"`
	// Streaming says that a turn is under way, which is not among the messages: the client resumes its stream.
	Streaming bool `json:"streaming"`
}

func getChat(c *request, in *idIn) (*Chat, error) {
	row, err := c.open(in.ID, ActionRead)
	if err != nil {
		return nil, err
	}
	snap, err := c.h.eng.Snapshot(c.ctx, row.ID)
	if err != nil {
		return nil, err
	}
	page, err := c.h.eng.Inbox(c.ctx, store.CallQuery{RootID: row.ID})
	if err != nil {
		return nil, err
	}
	turns, err := c.turns(row.ID)
	if err != nil {
		return nil, err
	}
	messages := snap.Messages
	streaming := snap.Session.Status == cairn.SessionActive
	return &Chat{Messages: aisdk.Messages(shown(messages), page.Items, turns, streaming, snap.Session.RunID), Streaming: streaming}, nil
}

// turns maps each run of a session to the first one of its turn.
func (c *request) turns(session string) (map[string]string, error) {
	first := map[string]string{}
	q := store.PageQuery{Limit: 1000}
	for {
		page, err := c.h.eng.Runs(c.ctx, session, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			r := &page.Items[i]
			first[r.ID] = r.ID
			if before := first[r.PreviousRunID]; before != "" {
				first[r.ID] = before
			}
		}
		if q.Cursor = page.Next; page.Next == "" {
			return first, nil
		}
	}
}

type chatSubmitIn struct {
	ID string `path:"id" json:"-"`
	cairn.Submission
}

func chatSubmit(c *request, in *chatSubmitIn) (*cairn.Receipt, error) {
	return submit(c, &submitIn{SessionID: in.ID, Submission: in.Submission})
}

type chatStopIn struct {
	ID     string `path:"id" json:"-"`
	RunID  string `json:"run_id,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func chatInterrupt(c *request, in *chatStopIn) (*cairn.Session, error) {
	return interrupt(c, &stopIn{SessionID: in.ID, RunID: in.RunID, Reason: in.Reason})
}

func chatAbort(c *request, in *chatStopIn) (*cairn.Session, error) {
	return abort(c, &stopIn{SessionID: in.ID, RunID: in.RunID, Reason: in.Reason})
}
