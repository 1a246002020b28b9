package server

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/wire"
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
		return cairn.Invalid("trigger", "unknown trigger %q: must be %s or %s", in.Trigger, submitMessage, regenerateMessage)
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
	return cairn.Invalid("messages", "the last one has role %q", last.Role)
}

func version(major int) (aisdk.Version, error) {
	switch v := aisdk.Version(major); v {
	case 0:
		return aisdk.V6, nil
	case aisdk.V5, aisdk.V6, aisdk.V7:
		return v, nil
	}
	return 0, cairn.Invalid("version", "unknown version %d: must be one of 5, 6, 7", major)
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
		if err := c.allow(Access{Action: ActionReview, Session: row, Call: call}, row.ID); err != nil {
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
	return submit(c, &submitIn{wire.Submit{SessionID: id, Submission: in.Submission}})
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
	return stop(c, &stopIn{wire.Stop{SessionID: id, RunID: in.RunID, Reason: in.Reason}})
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
