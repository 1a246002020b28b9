package server

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/server/aisdk"
)

// say starts a turn with the user's message. A message that is posted twice starts one turn.
func (c *request) say(in *chatIn, last *aisdk.Message, v aisdk.Version) error {
	opts, err := unreadyOptions(in.Unready)
	if err != nil {
		return err
	}
	m, err := last.User()
	if err != nil {
		return err
	}
	if m.ID != "" && !validID(m.ID) {
		return cairn.Invalid("messages", "id of the last one must be 1 to 128 visible ASCII characters")
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
	said := &saying{c: c, in: in, m: &m, again: in.Trigger == regenerateMessage || in.MessageID != "", opts: opts}
	at, run, err := c.forMessage(said.goal(), said.begin)
	switch {
	case errors.Is(err, cairn.ErrOutdated):
		return outdated("messages", "messages before the last one have changed")
	case err != nil:
		return err
	case run.Found():
		return c.whole(run, v)
	case run.Turn() == 0:
		return c.turn(at.row, queued(run.ID(), at.row.LogSequence), v, nil)
	}
	return c.begun(run, v)
}

// saying is a message of a user on its way to a session.
type saying struct {
	c  *request
	in *chatIn
	m  *cairn.Message
	// again says that the message may take the place of an earlier one.
	again bool
	opts  []engine.RunOption
}

// goal returns the session that the message is for: the latest one of its thread. One that is said again, in place of an
// earlier one, begins no session.
func (s *saying) goal() *goal {
	c, thread := s.c, s.in.ID
	unknown := thread == ""
	if unknown {
		thread = c.newID()
	}
	return &goal{id: thread, agent: s.in.Agent, x: &client.Context{}, existing: s.again, open: func(again bool) (*cairn.Session, error) {
		switch {
		case again || s.again || s.in.Agent == "" && c.only() == "": // which cannot be created
			return c.openThread(thread, ActionRun)
		case unknown:
			return nil, notFound(thread)
		}
		return c.latest(thread, ActionRun) // whether a session of another thread has the id is found when it is created
	}}
}

// begin begins the turn of the message.
func (s *saying) begin(at *place) (*engine.Run, error) {
	c, row := s.c, at.row
	switch {
	case at.create != nil:
		return s.execute(at)
	case s.again:
		n, stored, err := c.find(row, s.m.ID)
		if err != nil {
			return nil, err
		}
		if err := c.checkSeen(row, stored == nil); err != nil {
			return nil, err
		}
		if stored != nil {
			return s.replace(row, n, stored)
		}
	case c.threads(row.Agent).EachTurn && (row.RunID != "" || row.Queued > 0):
		return s.next(at)
	}
	return s.execute(at)
}

// next begins the turn in the next session of the thread, unless the session at has the message: posted once more, it is
// found in the session that it began.
func (s *saying) next(at *place) (*engine.Run, error) {
	c, after := s.c, at.row
	if has, err := c.has(after, s.m.ID); has || err != nil {
		if err != nil {
			return nil, err
		}
		return s.execute(at)
	}
	id := c.newID()
	if s.m.ID != "" {
		id = ids.InTenantOf(after.ID, ids.Derive("session", after.ThreadID, s.m.ID))
	}
	made, err := c.plan(id, cmp.Or(s.in.Agent, after.Agent), nil, after)
	if err != nil {
		return nil, err
	}
	*at = *made
	run, err := s.execute(at)
	if errors.Is(err, cairn.ErrExists) {
		if at.row, err = c.open(id, ActionRun); err != nil {
			return nil, err
		}
		at.create = nil
		return s.execute(at)
	}
	return run, err
}

// execute begins a turn with the message, or finds the one that has it.
func (s *saying) execute(at *place) (*engine.Run, error) {
	agent := cmp.Or(s.in.Agent, at.row.Agent, s.c.only())
	// Until its lease lapses, the run of a dead process looks like a live one: a page never has to wait for that.
	opts, err := s.c.unready(agent, s.in.Unready, "enqueue")
	if err != nil {
		return nil, err
	}
	if at.create == nil {
		opts = append(opts, engine.HavingSeen(s.c.seenRun()))
		if s.m.ID != "" {
			opts = append(opts, engine.OncePerMessage())
		}
	}
	return s.c.execute(at, agent, cairn.Messages(*s.m), s.c.named(opts...))
}

// replace begins a turn that replaces the one begun by message n, which is stored: with another message of the user's, or
// with the same one to regenerate its answer. What it replaces is kept as a branch of the chat.
func (s *saying) replace(row *cairn.Session, n int, stored *cairn.Message) (*engine.Run, error) {
	m, opts, regenerate := *s.m, append(s.opts, engine.FromMessage(n)), s.in.Trigger == regenerateMessage
	if regenerate { // the stored message counts, not the client's copy
		m = cairn.User(stored.Parts...)
		m.ID, m.Metadata = stored.ID, stored.Metadata
	}
	if !regenerate || row.MessageCount > n+1 { // else nothing is lost
		opts = append(opts, engine.KeepReplaced())
	}
	return s.c.execute(&place{row: row}, cmp.Or(s.in.Agent, row.Agent), cairn.Messages(m), s.c.named(opts...))
}

// seenRun returns the first run of the last turn that the client shows; empty if it shows none.
func (c *request) seenRun() string { return strings.TrimPrefix(c.seen, aisdk.TurnID("")) }

// has reports whether a user's message is of the last turn of a session or queued. A client posts a message again if it
// received no answer.
func (c *request) has(row *cairn.Session, id string) (bool, error) {
	_, stored, err := c.find(row, id)
	if err != nil {
		return false, err
	}
	if stored != nil {
		runs, err := c.turnOf(row.ID, row.RunID)
		if err != nil || slices.ContainsFunc(runs, func(r cairn.Run) bool { return r.ID == stored.RunID }) {
			return err == nil, err
		}
	}
	if id == "" || row.Queued == 0 {
		return false, nil
	}
	turns, err := c.h.eng.Queue(c.ctx, row.ID)
	for i := range turns {
		for k := range turns[i].Messages {
			if said(&turns[i].Messages[k], id) {
				return true, nil
			}
		}
	}
	return false, err
}
