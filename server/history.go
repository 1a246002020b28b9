package server

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server/aisdk"
	"github.com/cairn-agents/cairn/store"
)

// historyIn selects a page of a conversation.
type historyIn struct {
	ID string `path:"id"`
	// Version is the major version of the client; 0 means 6.
	Version int `query:"version"`
	// Limit is the maximum number of messages on a page; 0 means 100.
	Limit int `query:"limit"`
	// Cursor is the next of the page before; empty for the newest messages.
	Cursor string `query:"cursor"`
}

// chatBody is a page of a conversation as a chat client shows it. The first page has the newest messages.
type chatBody struct {
	// Messages are what the page shows, oldest first.
	Messages []aisdk.Message `json:"messages"`
	// Next is the cursor of the page with the messages before these; empty after the last.
	Next string `json:"next,omitempty"`
	// Streaming reports that a turn is under way. It is not among the messages: the client resumes its stream.
	Streaming bool `json:"streaming"`
	// Cursor is the log position that the messages belong to: later events are behind it, see GET /sse.
	Cursor string `json:"cursor"`
}

func getChat(c *request, in *historyIn) (*chatBody, error) {
	v, err := version(in.Version)
	if err != nil {
		return nil, err
	}
	p := paging{limit: cmp.Or(in.Limit, maxPage)}
	if err := p.check(); err != nil {
		return nil, err
	}
	row, err := c.openThread(in.ID, ActionRead)
	if errors.Is(err, cairn.ErrExpired) && c.threads(row.Agent).OnExpired == ExpiredNew {
		return &chatBody{Messages: []aisdk.Message{}}, nil
	}
	id := in.ID
	if row != nil {
		id = row.ID
	}
	part, err := c.openExcerpt(id)
	if err != nil {
		return nil, err
	}
	for row = part.row; ; {
		out, err := c.history(row, part, v, p.limit, in.Cursor)
		if err != nil {
			return nil, err
		}
		now, err := c.h.eng.Session(c.ctx, row.ID)
		if err != nil {
			return nil, hidden(err, in.ID)
		}
		if now.Epoch == row.Epoch { // else messages were read of before and after a rewind
			return out, nil
		}
		row = now
	}
}

// history returns a page of the part of a session's conversation that the principal may read.
func (c *request) history(row *cairn.Session, part *excerpt, v aisdk.Version, limit int, cursor string) (*chatBody, error) {
	end := min(row.MessageCount, part.upTo)
	to := end
	if cursor != "" {
		var err error
		if to, err = c.placeOf(row, cursor); err != nil {
			return nil, err
		}
		to = min(to, end)
	}
	at, err := c.h.eng.Cursor(c.ctx, row)
	if err != nil {
		return nil, err
	}
	runs := &runReader{c: c, session: row.ID, before: map[string]string{}}
	if row.Kind == cairn.ChildReplaced { // its messages are of its parent's runs
		runs.session = row.ParentID
	}
	from, list, err := c.lastShown(row, runs, to, limit)
	if err != nil {
		return nil, err
	}
	out := &chatBody{Streaming: row.Status == cairn.SessionActive, Cursor: at.String()}
	if from > 0 && len(list) > 0 {
		out.Next = strconv.Itoa(from) + "." + list[0].ID
	}
	calls := part.calls
	switch {
	case to < end:
		calls = nil
	case part.whole():
		if calls, err = c.openCalls(row); err != nil {
			return nil, err
		}
	}
	after := ""
	if to < end {
		behind, err := c.h.eng.Messages(c.ctx, row.ID, to, 1)
		if err != nil {
			return nil, err
		}
		if len(behind) > 0 {
			after = behind[0].RunID
		}
	}
	for i := range list { // so that all runs of the page's turns are known
		if _, err := runs.turn(list[i].RunID); err != nil {
			return nil, err
		}
	}
	if _, err := runs.turn(after); err != nil {
		return nil, err
	}
	slices.Reverse(runs.list)
	var decided []cairn.PendingCall
	if slices.ContainsFunc(list, func(m cairn.Message) bool { return len(m.ToolUses()) > 0 }) {
		if decided, err = c.decidedCalls(row); err != nil {
			return nil, err
		}
	}
	address, tenant := c.addresses(), c.tenant()
	out.Messages = aisdk.Messages(v, row, bare(tenant, list), after, bare(tenant, calls), bare(tenant, decided), bare(tenant, runs.list), func(session string, index int, id string, n int) string {
		return address(session, from+index, id, n)
	})
	return out, nil
}

// placeOf returns the index that a page's cursor names. The message there must still be the one that the cursor was
// made for.
func (c *request) placeOf(row *cairn.Session, cursor string) (int, error) {
	number, id, _ := strings.Cut(cursor, ".")
	at, err := strconv.Atoi(number)
	if err != nil || at <= 0 || id == "" {
		return 0, cairn.Invalid("cursor", "%q does not belong to this list", cursor)
	}
	list, err := c.h.eng.Messages(c.ctx, row.ID, at, 1)
	if err != nil {
		return 0, err
	}
	if at >= row.MessageCount || len(list) == 0 || list[0].ID != id {
		return 0, outdated("cursor", "messages before it have changed")
	}
	return at, nil
}

// outdated returns the error for a request that refers to messages that another request has replaced.
func outdated(field, what string) error {
	return &cairn.Error{Code: cairn.ErrOutdated, Field: field, Message: field + ": " + what +
		"; read the chat again with GET /chat/{id}, and its earlier versions with GET /chat/{id}/branches"}
}

// lastShown returns the last messages of a transcript before an index, from the one on with which the first of at most
// limit shown messages begins. All replies of a turn are one shown message.
func (c *request) lastShown(row *cairn.Session, runs *runReader, to, limit int) (from int, list []cairn.Message, err error) {
	for from = to; from > 0; {
		n := min(from, maxPage)
		chunk, err := c.h.eng.Messages(c.ctx, row.ID, from-n, n)
		if err != nil {
			return 0, nil, err
		}
		if len(chunk) != n { // the session was rewound
			return 0, nil, nil
		}
		list, from = append(chunk, list...), from-n
		begins, err := shownFrom(list, runs)
		if err != nil {
			return 0, nil, err
		}
		if first := len(begins) - limit; first > 0 { // the very first may begin before this chunk
			return from + begins[first], list[begins[first]:], nil
		}
	}
	return from, list, nil
}

// shownFrom returns the indexes in a list of messages at which shown messages begin.
func shownFrom(list []cairn.Message, runs *runReader) (begins []int, err error) {
	reply := "-" // the turn whose replies the last shown message has
	for i := range list {
		m := &list[i]
		if m.Hidden || m.Role == cairn.RoleTool {
			continue
		}
		turn, err := runs.turn(m.RunID)
		if err != nil {
			return nil, err
		}
		if turn != reply {
			begins, reply = append(begins, i), "-"
		}
		if m.Role == cairn.RoleAssistant {
			reply = turn
		}
	}
	return begins, nil
}

// runReader reads the runs of a session, newest first, as far as they are needed.
type runReader struct {
	c       *request
	session string
	list    []cairn.Run
	before  map[string]string // the run that each one resumes
	cursor  string
	ended   bool
}

// turn returns the first run of the turn that a run belongs to; an unknown run is a turn of its own.
func (r *runReader) turn(run string) (string, error) {
	for {
		before, known := r.before[run]
		switch {
		case run == "" || known && before == "" || !known && r.ended:
			return run, nil
		case known:
			run = before
			continue
		}
		page, err := r.c.h.eng.Runs(r.c.ctx, r.session, store.PageQuery{Newest: true, Limit: maxPage, Cursor: r.cursor})
		if err != nil {
			return "", err
		}
		for _, one := range page.Items {
			r.list, r.before[one.ID] = append(r.list, one), one.PreviousRunID
		}
		r.cursor, r.ended = page.Next, page.Next == ""
	}
}

// checkSeen returns an error if a client has not seen that a turn it shows was replaced since, by another tab: the last
// turn before a message that the client posts. With last it must also be the last turn of the session. A client that
// posts only that message is believed.
func (c *request) checkSeen(row *cairn.Session, last bool) error {
	seen := c.seenRun()
	ok := true
	if seen != "" {
		run, err := c.h.eng.Run(c.ctx, row.ID, seen)
		if err == nil {
			ok, err = c.standing(row, run)
		}
		if err != nil && !errors.Is(err, cairn.ErrNotFound) { // ErrNotFound: of another session of the thread
			return err
		}
	}
	if ok && last && row.RunID != "" {
		turn, err := c.turnOf(row.ID, row.RunID)
		if err != nil {
			return err
		}
		ok = len(turn) > 0 && turn[0].ID == seen
	}
	if !ok {
		return outdated("messages", "messages before the last one have changed")
	}
	return nil
}

// standing reports whether the messages of a run are part of the transcript.
func (c *request) standing(row *cairn.Session, run *engine.Run) (bool, error) {
	record, err := run.Record(c.ctx)
	if err != nil {
		return false, err
	}
	list, err := c.h.eng.Messages(c.ctx, row.ID, record.FirstMessage, 1)
	return err == nil && len(list) > 0 && list[0].RunID == record.ID, err
}

type branchesIn struct {
	ID string `path:"id"`
	// Limit and Cursor are as for other lists.
	Limit  int    `query:"limit"`
	Cursor string `query:"cursor"`
}

// listBranches lists the earlier versions of a chat, newest first.
func listBranches(c *request, in *branchesIn) (*pageBody[client.ChatBranch], error) {
	p := paging{limit: in.Limit, cursor: in.Cursor}
	if err := p.check(); err != nil {
		return nil, err
	}
	row, err := c.openThread(in.ID, ActionRead)
	if err != nil {
		return nil, err
	}
	page, err := c.listed(c.ctx, store.SessionQuery{ParentID: row.ID, Limit: p.limit, Cursor: p.cursor})
	if err != nil {
		return nil, err
	}
	var items []client.ChatBranch
	for _, s := range page.Items {
		if s.Kind == cairn.ChildReplaced {
			items = append(items, client.ChatBranch{ID: s.ID, MessageID: s.Name, CreatedAt: s.CreatedAt})
		}
	}
	out := pageAt(p, items, page.Next)
	out.Offset = nil // the list has no offsets
	return out, nil
}
