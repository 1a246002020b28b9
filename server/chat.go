package server

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/server/aisdk"
	"github.com/cairn-agents/cairn/store"
)

// chatIn is what a chat client posts: the whole conversation from its point of view. Only the last message counts.
// Pages add fields of their own.
type chatIn struct {
	// ID is the id of the session.
	ID string `json:"id"`
	// Messages ends with what the user said, or with the answers to the calls of the last turn.
	Messages []aisdk.Message `json:"messages"`
	// Trigger is "submit-message", or "regenerate-message" for another answer; empty means the first.
	Trigger string `json:"trigger,omitempty"`
	// MessageID is the id of the message to regenerate, edit or continue.
	MessageID string `json:"messageId,omitempty"`
	// Agent is the agent of a new session. It is optional if the engine has only one.
	Agent string `json:"agent,omitempty"`
	agentAliases
	// Version is the major version of the client; 0 means 6.
	Version int `json:"version,omitempty"`
	Unready
}

func (*chatIn) lenient() {}

func (in *chatIn) answering() bool {
	return len(in.Messages) > 0 && in.Messages[len(in.Messages)-1].Role == "assistant"
}

// Triggers of a client's post. Unless it regenerates an answer, its last message determines what is done.
const (
	submitMessage     = "submit-message"
	regenerateMessage = "regenerate-message"
)

// chat responds to a chat client's post with the stream of the resulting turn.
func chat(c *request, in *chatIn) error {
	v, err := version(in.Version)
	if err != nil {
		return err
	}
	if in.Agent, err = in.name(in.Agent); err != nil {
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

// say starts a turn with the user's message. A message that is posted twice starts one turn.
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
	if err := cairn.Messages(m).Validate(); err != nil {
		return err
	}
	if err := c.ownFiles(in.ID, &m); err != nil {
		return err
	}
	if err := c.mayRun(in.ID); err != nil {
		return err
	}
	again := in.Trigger == regenerateMessage || in.MessageID != ""
	row, err := c.chatSession(in.ID, in.Agent, m.ID, again)
	if err != nil {
		return err
	}
	if again {
		n, stored, err := c.find(row, m.ID)
		if err != nil {
			return err
		}
		if err := c.checkSeen(row, stored == nil); err != nil {
			return err
		}
		if stored != nil {
			return c.sayAgain(in, row, &m, n, stored, v, opts)
		}
	}
	posted, err := c.posted(row, m.ID)
	if err != nil {
		return err
	}
	if posted != nil {
		return c.turn(row, posted, v, nil)
	}
	if err := c.checkSeen(row, false); err != nil {
		return err
	}
	agent := cmp.Or(in.Agent, row.Agent, c.only())
	// Until its lease lapses, the run of a dead process looks like a live one: a page never has to wait for that.
	if opts, err = c.unready(agent, in.Unready, "enqueue"); err != nil {
		return err
	}
	return c.execute(row, agent, cairn.Messages(m), v, opts)
}

// chatSession returns the session for a message to a chat, as openOrCreate does. message is the message's id: posted
// once more, the message is found in the session that it began. One that is said again, in place of an earlier one,
// begins no session.
func (c *request) chatSession(thread, agent, message string, again bool) (*cairn.Session, error) {
	if thread == "" {
		thread = c.newID()
	}
	if again { // there must be a session
		if _, err := c.openThread(thread, ActionRun); err != nil && !errors.Is(err, cairn.ErrExpired) {
			return nil, err
		}
	}
	row, err := c.forMessage(thread, agent, &Context{}, func() (*cairn.Session, error) { return c.openThread(thread, ActionRun) })
	if err != nil || again || !c.threads(row.Agent).EachTurn || row.RunID == "" && row.Queued == 0 {
		return row, err
	}
	if posted, err := c.posted(row, message); posted != nil || err != nil {
		return row, err
	}
	id := c.newID()
	if message != "" {
		id = ids.Derive("session", row.ThreadID, message)
	}
	made, err := c.create(id, cmp.Or(agent, row.Agent), nil, row)
	if errors.Is(err, cairn.ErrExists) {
		return c.open(id, ActionRun)
	}
	return made, err
}

// sayAgain starts a turn that replaces the one begun by message n, which is stored: with another message of the user's,
// or with the same one to regenerate its answer. What it replaces is kept as a branch of the chat.
func (c *request) sayAgain(in *chatIn, row *cairn.Session, m *cairn.Message, n int, stored *cairn.Message, v aisdk.Version, opts []engine.RunOption) error {
	opts = append(opts, engine.FromMessage(n))
	if in.Trigger == regenerateMessage { // the stored message counts, not the client's copy
		*m = cairn.User(stored.Parts...)
		m.ID, m.Metadata = stored.ID, stored.Metadata
	}
	if in.Trigger != regenerateMessage || row.MessageCount > n+1 { // else nothing is lost
		opts = append(opts, engine.KeepReplaced())
	}
	return c.execute(row, cmp.Or(in.Agent, row.Agent), cairn.Messages(*m), v, opts)
}

// execute starts a turn and streams it.
func (c *request) execute(row *cairn.Session, agent string, input cairn.Input, v aisdk.Version, opts []engine.RunOption) error {
	run, err := c.h.eng.Execute(c.ctx, row.ID, agent, input, c.named(opts...)...)
	if err != nil {
		return err
	}
	if run.Turn() == 0 {
		return c.turn(row, queued(row, run.ID()), v, nil)
	}
	runs, err := c.turnOf(row.ID, run.ID())
	if err != nil {
		return err
	}
	return c.turn(row, runs, v, nil)
}

// posted returns the runs of the turn that a user's message belongs to, if that is the last turn or is queued. A
// client posts a message again if it received no answer.
func (c *request) posted(row *cairn.Session, id string) ([]cairn.Run, error) {
	if id == "" || row.RunID == "" {
		return nil, nil
	}
	runs, err := c.turnOf(row.ID, row.RunID)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	for m, err := range c.messages(row, runs[0].FirstMessage, row.MessageCount) {
		switch {
		case err != nil:
			return nil, err
		case said(m, id):
			return runs, nil
		}
	}
	if row.Queued == 0 {
		return nil, nil
	}
	turns, err := c.h.eng.Queue(c.ctx, row.ID)
	if err != nil {
		return nil, err
	}
	for i := range turns {
		for k := range turns[i].Messages {
			if said(&turns[i].Messages[k], id) {
				return queued(row, turns[i].ID), nil
			}
		}
	}
	return nil, nil
}

// said reports whether a message is a visible message of the user with the given id.
func said(m *cairn.Message, id string) bool {
	return m.ID == id && m.Role == cairn.RoleUser && !m.Hidden
}

// messages yields the messages of a session from one index up to another.
func (c *request) messages(row *cairn.Session, from, to int) iter.Seq2[*cairn.Message, error] {
	return func(yield func(*cairn.Message, error) bool) {
		for from < to {
			list, err := c.h.eng.Messages(c.ctx, row.ID, from, min(to-from, maxPage))
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range list {
				if !yield(&list[i], nil) {
					return
				}
			}
			if from += len(list); len(list) == 0 {
				return
			}
		}
	}
}

// find returns a message of the user's with its index, or nil if the session has none of that id. It searches from
// the end, where the message usually is.
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
			if said(&list[i], id) {
				return from + i, &list[i], nil
			}
		}
		to = from
	}
	return 0, nil, nil
}

// answers submits the decisions and results in a client's message, and streams how the turn continues. A call that
// was answered before keeps its first answer. Only a turn that waits, and has all its answers, is resumed: a client
// posts by itself after a stop as well.
func (c *request) answers(in *chatIn, last *aisdk.Message, v aisdk.Version) error {
	row, err := c.openThread(in.ID, ActionRun)
	if err != nil {
		return err
	}
	calls, err := c.openCalls(row)
	if err != nil {
		return err
	}
	answered := false
	for i := range calls {
		call := &calls[i]
		s, ok := last.Answer(call.CallRef)
		if !ok {
			continue
		}
		answered = true
		s.Reviewer = c.principal.User
		if err := c.allow(Access{Principal: c.principal, Action: ActionReview, Session: row, Call: call}, row.ID); err != nil {
			return err
		}
		if _, err := c.answer(row.ID, s); err != nil {
			return err
		}
	}
	if !answered {
		runs, err := c.turnOf(row.ID, row.RunID)
		if err != nil {
			return err
		}
		if len(runs) == 0 || last.OfAnotherTurn(runs[0].ID) {
			return c.nothing(row.ID)
		}
	}
	_, err = c.h.eng.Resume(c.ctx, row.ID, c.named(engine.OnlyPaused())...)
	idle := errors.Is(err, cairn.ErrNotResumable) || errors.Is(err, cairn.ErrNotRunning)
	if err != nil && !idle && !errors.Is(err, cairn.ErrAlreadyRunning) { // ErrAlreadyRunning: a worker, or another tab, was faster
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
	runs, err := c.turnOf(row.ID, row.RunID)
	if err != nil {
		return err
	}
	return c.turn(row, runs, v, &seen)
}

// nothing responds with a stream in which nothing happens: more answers are needed, or all were given before.
func (c *request) nothing(root string) error {
	page, err := c.h.eng.Inbox(c.ctx, store.CallQuery{RootID: root, Limit: 1})
	if err != nil {
		return err
	}
	return c.chatStream(func(context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) { yield(aisdk.Nothing(len(page.Items) > 0), nil) }
	})
}

// showIn names a conversation and its client's version.
type showIn struct {
	ID string `path:"id"`
	// Version is the major version of the client; 0 means 6.
	Version int `query:"version"`
}

// resumeChat streams the turn under way from its beginning. Without one it responds with 204, also if there is no such
// session: a page resumes a chat that has yet to begin.
func resumeChat(c *request, in *showIn) error {
	v, err := version(in.Version)
	if err != nil {
		return err
	}
	row, err := c.openThread(in.ID, ActionRead)
	missing := errors.Is(err, cairn.ErrNotFound) // ErrExpired among them
	if errors.Is(err, cairn.ErrExpired) {
		missing = c.threads(row.Agent).OnExpired == ExpiredNew
	}
	if err != nil && !missing {
		return err
	}
	if missing || row.Status != cairn.SessionActive {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	runs, err := c.turnOf(row.ID, row.RunID)
	if err != nil {
		return err
	}
	return c.turn(row, runs, v, nil)
}

// decidedCalls lists the calls of a session that reviewers have decided.
func (c *request) decidedCalls(row *cairn.Session) (list []cairn.PendingCall, err error) {
	q := store.CallQuery{RootID: row.RootID, SessionID: row.ID, Kind: cairn.CallApproval, Statuses: []cairn.CallStatus{cairn.CallAnswered, cairn.CallSettled}, Limit: 1000}
	for call, err := range store.All(func(cursor string) (store.Page[cairn.PendingCall], error) {
		q.Cursor = cursor
		return c.h.eng.Inbox(c.ctx, q)
	}) {
		if err != nil {
			return nil, err
		}
		if by := call.Answer; by != nil && (by.Kind == cairn.DecisionApproved || by.Kind == cairn.DecisionDenied) {
			list = append(list, *call)
		}
	}
	return list, nil
}

type chatSubmitIn struct {
	ID string `path:"id" json:"-"`
	cairn.Submission
}

func chatSubmit(c *request, in *chatSubmitIn) (*cairn.Receipt, error) {
	id, err := c.owner(in.ID, in.CallID)
	if err != nil {
		return nil, err
	}
	return submit(c, &submitIn{SessionID: id, Submission: in.Submission})
}

type chatStopIn struct {
	ID     string `path:"id" json:"-"`
	RunID  string `json:"run_id,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func chatInterrupt(c *request, in *chatStopIn) (*cairn.Session, error) {
	return chatStop(c, in, interrupt)
}

func chatAbort(c *request, in *chatStopIn) (*cairn.Session, error) { return chatStop(c, in, abort) }

func chatStop(c *request, in *chatStopIn, stop func(*request, *stopIn) (*cairn.Session, error)) (*cairn.Session, error) {
	id, err := c.current(in.ID)
	if err != nil {
		return nil, err
	}
	return stop(c, &stopIn{SessionID: id, RunID: in.RunID, Reason: in.Reason})
}

// patchChat changes the latest session of a thread, and archives them all.
func patchChat(c *request, in *patchIn) (*cairn.Session, error) {
	row, err := c.openThread(in.ID, ActionChange)
	if err != nil {
		return nil, err
	}
	in.ID = row.ID
	return patchSession(c, in)
}

// deleteChat deletes the sessions of a thread.
func deleteChat(c *request, in *idIn) (none, error) {
	row, err := c.openThread(in.ID, ActionChange)
	if err != nil {
		return none{}, err
	}
	for row != nil {
		if _, err := deleteSession(c, &idIn{ID: row.ID}); err != nil {
			return none{}, err
		}
		page, err := c.h.eng.Sessions(c.ctx, store.SessionQuery{ThreadID: in.ID, Limit: 1})
		if err != nil {
			return none{}, err
		}
		if row = nil; len(page.Items) > 0 {
			row = &page.Items[0]
		}
	}
	return none{}, nil
}
