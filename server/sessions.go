package server

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/store"
)

type idIn struct {
	ID string `path:"id"`
}

type getIn struct {
	ID string `path:"id"`
	// Include names what is returned in addition to the session: messages, checkpoints, decisions, cache. Of each list
	// the response has the first page, as the route of the list returns it.
	Include []string `query:"include"`
}

// sessionViewBody is a session with the additions that were requested.
type sessionViewBody struct {
	*cairn.Session
	// Situation is why the session waits, its current activity, or the outcome of its last run.
	Situation *cairn.Situation `json:"situation"`
	// Messages, Checkpoints and Decisions are the first pages of these lists.
	Messages    *messagesBody                 `json:"messages,omitempty"`
	Checkpoints *pageBody[cairn.Checkpoint]   `json:"checkpoints,omitempty"`
	Decisions   *pageBody[cairn.CallDecision] `json:"decisions,omitempty"`
	// ToolCache is the session's cache of tool results, most recently used first.
	ToolCache []store.CacheEntry `json:"tool_cache,omitempty"`
}

func getSession(c *request, in *getIn) (*sessionViewBody, error) {
	part, err := c.openExcerpt(in.ID)
	if err != nil {
		return nil, err
	}
	out := &sessionViewBody{Session: c.publicTo(part.row)}
	if out.Situation, err = c.situation(part); err != nil {
		return nil, err
	}
	for _, what := range split(in.Include) {
		switch what {
		case "messages":
			out.Messages, err = listMessages(c, &messagesIn{ID: in.ID})
		case "checkpoints":
			out.Checkpoints, err = listCheckpoints(c, &pageIn{ID: in.ID})
		case "decisions":
			out.Decisions, err = listDecisions(c, &decisionsIn{ID: in.ID})
		case "cache":
			if !part.whole() {
				return nil, notFound(in.ID)
			}
			out.ToolCache, err = c.h.eng.ToolCache(c.ctx, part.row.ID)
		default:
			err = cairn.Invalid("include", "unknown value %q: must be one of messages, checkpoints, decisions, cache", what)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

type decisionsIn struct {
	ID     string `path:"id"`
	Limit  int    `query:"limit"`
	Cursor string `query:"cursor"`
}

// listDecisions lists the decisions about a session's calls. A page has those of a number of calls.
func listDecisions(c *request, in *decisionsIn) (*pageBody[cairn.CallDecision], error) {
	p := paging{limit: in.Limit, cursor: in.Cursor}
	if err := p.check(); err != nil {
		return nil, err
	}
	if _, err := c.open(in.ID, ActionRead); err != nil {
		return nil, err
	}
	page, err := c.decisions(in.ID, store.PageQuery{Cursor: in.Cursor, Limit: p.limit})
	if err != nil {
		return nil, err
	}
	return pageAt(p, page.Items, page.Next), nil
}

type replyIn struct {
	ID string `path:"id"`
	// Message is the index of the reply in the transcript, from 0.
	Message int `path:"message"`
}

func getRequest(c *request, in *replyIn) (*cairn.SentRequest, error) {
	if _, err := c.open(in.ID, ActionRead); err != nil {
		return nil, err
	}
	if !c.principal.Is(RoleOperator) && !c.principal.Is(RoleAdmin) {
		return nil, cairn.Invalid("message", "only operators and administrators may read requests")
	}
	return c.h.eng.Request(c.ctx, in.ID, in.Message)
}

type checkpointIn struct {
	ID string `path:"id"`
	// Checkpoint is the checkpoint's id.
	Checkpoint string `path:"checkpoint"`
}

func getCheckpoint(c *request, in *checkpointIn) (*client.CheckpointView, error) {
	if _, err := c.open(in.ID, ActionRead); err != nil {
		return nil, err
	}
	cp, err := c.h.eng.FindCheckpoint(c.ctx, in.ID, in.Checkpoint)
	if err != nil {
		return nil, err
	}
	state, err := c.h.eng.State(c.ctx, in.ID, in.Checkpoint)
	return &client.CheckpointView{Checkpoint: *cp, State: state}, err
}

// restoreSession restores a session that was deleted or has expired. The list of removed sessions knows its owner.
func restoreSession(c *request, in *markIn) (*cairn.Session, error) {
	page, err := c.h.eng.Sessions(c.ctx, store.SessionQuery{RootID: in.ID, RootsOnly: true, Limit: 1,
		Removed: []store.Removal{store.Deleted, store.Expired}})
	if err != nil {
		return nil, err
	}
	if len(page.Items) == 0 || c.repeated() {
		row, err := c.open(in.ID, ActionChange)
		if c.repeated() && err == nil {
			return public(row), nil
		}
		if err != nil && len(page.Items) == 0 {
			return nil, err
		}
	}
	if len(page.Items) > 0 {
		if err := c.allow(Access{Action: ActionChange, Session: &page.Items[0]}, in.ID); err != nil {
			return nil, err
		}
	}
	row, err := c.h.eng.Restore(c.ctx, in.ID)
	return public(row), err
}

// sessionUsageBody is the usage of a session.
type sessionUsageBody struct {
	// Session is the usage of its own runs, Tree that of its runs and the sessions below it.
	Session cairn.Usage `json:"session"`
	Tree    cairn.Usage `json:"tree"`
}

func usageOf(c *request, in *idIn) (*sessionUsageBody, error) {
	row, err := c.open(in.ID, ActionRead)
	if err != nil {
		return nil, err
	}
	tree, err := c.h.eng.TreeUsage(c.ctx, row.ID)
	return &sessionUsageBody{Session: row.Usage, Tree: tree}, err
}

// makeCheckpoint makes a checkpoint of a session between turns.
func makeCheckpoint(c *request, in *markIn) (*cairn.Checkpoint, error) {
	row, err := c.open(in.ID, ActionChange)
	if err != nil {
		return nil, err
	}
	changed, err := c.changed(row.Version)
	if err != nil {
		return nil, err
	}
	if changed && row.CheckpointID != "" {
		page, err := c.h.eng.Checkpoints(c.ctx, row.ID, store.PageQuery{Newest: true, Limit: 1})
		if err == nil && len(page.Items) == 1 {
			return &page.Items[0], nil
		}
	}
	return c.h.eng.Checkpoint(c.ctx, row.ID)
}

type markIn struct {
	ID string `path:"id" json:"-"`
}

type patchIn struct {
	ID string `path:"id" json:"-"`
	client.Change
}

func patchSession(c *request, in *patchIn) (*cairn.Session, error) {
	if _, err := c.open(in.ID, ActionChange); err != nil {
		return nil, err
	}
	if in.UserID != nil && !c.principal.Is(RoleAdmin) {
		return nil, cairn.Invalid("user_id", "may only be set by administrators")
	}
	row, err := c.h.eng.SetContext(c.ctx, in.ID, store.ContextChange{Title: in.Title, Tags: in.Tags, Metadata: in.Metadata,
		ExpiresAt: in.ExpiresAt, UserID: in.UserID, Archived: in.Archived})
	return public(row), err
}

// deleteSession deletes a session. If it is busy, it is stopped first: see [engine.Engine.Delete].
func deleteSession(c *request, in *idIn) (none, error) {
	row, err := c.openRoot(in.ID, ActionChange)
	if err != nil {
		return none{}, err
	}
	return none{}, c.h.eng.Delete(c.ctx, row.ID)
}

type snapshotIn struct {
	ID string `path:"id"`
	// Last is the number of messages at the end of the transcript that are returned; 0 means all. There may be some more: a
	// call precedes its result.
	Last int `query:"last"`
}

func snapshot(c *request, in *snapshotIn) (*client.SessionSnapshot, error) {
	if in.Last < 0 {
		return nil, cairn.Invalid("last", "is negative")
	}
	row, err := c.open(in.ID, ActionRead)
	if err != nil {
		return nil, err
	}
	from := 0
	if in.Last > 0 {
		from = max(0, row.MessageCount-in.Last)
		if from, err = c.callBefore(row, from); err != nil {
			return nil, err
		}
	}
	snap, err := c.h.eng.SnapshotFrom(c.ctx, in.ID, from)
	if err != nil {
		return nil, err
	}
	return &client.SessionSnapshot{Session: c.publicTo(snap.Session), Messages: c.shown(snap.Messages), Offset: min(from, snap.Session.MessageCount), State: snap.State, Cursor: snap.Cursor()}, nil
}

// callBefore returns the index of the last message, up to an index, that is not the result of a call.
func (c *request) callBefore(row *cairn.Session, from int) (int, error) {
	for at := from; at > 0; at -= 10 {
		first := max(0, at-9)
		list, err := c.h.eng.Messages(c.ctx, row.ID, first, at-first+1)
		if err != nil {
			return 0, err
		}
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].Role != cairn.RoleTool {
				return first + i, nil
			}
		}
	}
	return from, nil
}

type messagesIn struct {
	ID string `path:"id"`
	// From is the index of the first message.
	From  int `query:"from"`
	Limit int `query:"limit"`
}

// messagesBody is a part of a transcript.
type messagesBody struct {
	// Items are the messages of this part, oldest first.
	Items []cairn.Message `json:"items"`
	// Next is the index at which the next part begins; 0 after the last part. HasMore reports whether there is one.
	Next    int  `json:"next,omitempty"`
	HasMore bool `json:"has_more"`
	// Limit is the maximum number of messages of the part, hidden ones included, and Offset the index at which it begins.
	Limit  int `json:"limit"`
	Offset int `json:"offset"`
	// Total is how many messages the session has, hidden ones included.
	Total int `json:"total"`
}

func listMessages(c *request, in *messagesIn) (*messagesBody, error) {
	p := paging{limit: in.Limit}
	if err := p.check(); err != nil {
		return nil, err
	}
	if in.From < 0 {
		return nil, cairn.Invalid("from", "is negative")
	}
	part, err := c.openExcerpt(in.ID)
	if err != nil {
		return nil, err
	}
	out := &messagesBody{Items: []cairn.Message{}, Total: min(part.row.MessageCount, part.upTo), Limit: p.limit, Offset: in.From}
	n := min(p.limit, part.upTo-in.From)
	if n <= 0 {
		return out, nil
	}
	list, err := c.h.eng.Messages(c.ctx, in.ID, in.From, n)
	if err != nil {
		return nil, err
	}
	out.Items = c.shown(list)
	if end := in.From + len(list); end < out.Total && len(list) > 0 {
		out.Next, out.HasMore = end, true
	}
	return out, nil
}

type pageIn struct {
	ID     string `path:"id"`
	Newest bool   `query:"newest"`
	Limit  int    `query:"limit"`
	Offset int    `query:"offset"`
	Cursor string `query:"cursor"`
}

func listRuns(c *request, in *pageIn) (*pageBody[cairn.Run], error) {
	page, err := of(c, in, c.h.eng.Runs)
	if err != nil {
		return nil, err
	}
	row, err := c.h.eng.Session(c.ctx, in.ID)
	if err != nil {
		return nil, hidden(err, in.ID)
	}
	for i := range page.Items {
		if !c.wholeErrors() {
			page.Items[i] = page.Items[i].Public()
		}
		page.Items[i].Status = wire.RunStatus(page.Items[i].Status, page.Items[i].Reason)
	}
	page.Total = &row.Turn
	return page, nil
}

func listCheckpoints(c *request, in *pageIn) (*pageBody[cairn.Checkpoint], error) {
	return of(c, in, c.h.eng.Checkpoints)
}

// of returns a page of a list that belongs to a session.
func of[T any](c *request, in *pageIn, list func(context.Context, string, store.PageQuery) (store.Page[T], error)) (*pageBody[T], error) {
	if _, err := c.open(in.ID, ActionRead); err != nil {
		return nil, err
	}
	return read(c.ctx, paging{in.Limit, in.Offset, in.Cursor}, store.PageQuery{Newest: in.Newest},
		func(q *store.PageQuery, cursor string, limit int) { q.Cursor, q.Limit = cursor, limit },
		func(ctx context.Context, q store.PageQuery) (store.Page[T], error) { return list(ctx, in.ID, q) })
}

type branchIn struct {
	ID string `path:"id" json:"-"`
	client.Branching
}

func branch(c *request, in *branchIn) (*cairn.Session, error) {
	row, err := c.open(in.ID, ActionChange)
	if err != nil {
		return nil, err
	}
	if in.SessionID == "" {
		in.SessionID = c.newID()
	}
	made, err := c.h.eng.Branch(c.ctx, row.ID, in.SessionID, branchOptions(&in.Branching)...)
	if errors.Is(err, cairn.ErrExists) && c.repeated() {
		made, err = c.open(in.SessionID, ActionRead)
	}
	return public(made), err
}

type rewindIn struct {
	ID string `path:"id" json:"-"`
	wire.Rewind
}

func rewind(c *request, in *rewindIn) (*cairn.Session, error) {
	row, err := c.open(in.ID, ActionChange)
	if err != nil {
		return nil, err
	}
	if changed, err := c.changed(row.Epoch); changed || err != nil {
		return public(row), err
	}
	row, err = c.h.eng.Rewind(c.ctx, row.ID, in.CheckpointID)
	return public(row), err
}

type taintIn struct {
	ID string `path:"id" json:"-"`
	wire.ClearTaint
}

// clearTaint is for administrators: the session's own user may have written the text.
func clearTaint(c *request, in *taintIn) (none, error) {
	row, err := c.open(in.ID, ActionChange)
	if err != nil {
		return none{}, err
	}
	if !c.principal.Is(RoleAdmin) {
		return none{}, cairn.Invalid("notes", "a taint may only be cleared by administrators")
	}
	return none{}, c.h.eng.ClearTaint(c.ctx, row.ID, in.Notes)
}

type stateIn struct {
	ID string `path:"id" json:"-"`
	wire.SetState
}

func putState(c *request, in *stateIn) (*cairn.Session, error) {
	row, err := c.open(in.ID, ActionChange)
	if err != nil {
		return nil, err
	}
	if !c.principal.Is(RoleAdmin) {
		return nil, cairn.Invalid("state", "may only be set by administrators")
	}
	row, err = c.h.eng.SetState(c.ctx, row.ID, in.State, engine.IfVersion(in.Version))
	return public(row), err
}

func listQueue(c *request, in *idIn) (*pageBody[client.QueuedTurn], error) {
	row, err := c.open(in.ID, ActionRead)
	if err != nil {
		return nil, err
	}
	turns, err := c.h.eng.Queue(c.ctx, row.ID)
	items := make([]client.QueuedTurn, 0, len(turns))
	for _, turn := range turns {
		items = append(items, client.QueuedTurn{ID: turn.ID, Messages: c.shown(turn.Messages), Steer: turn.Steer, Context: turn.Context, At: turn.At, Model: turn.Model})
	}
	total := len(items)
	page := pageAt(paging{limit: total}, items, "")
	page.Total = &total
	return page, err
}

type queuedIn struct {
	ID  string `path:"id"`
	Run string `path:"run"`
}

func dequeue(c *request, in *queuedIn) (none, error) {
	row, err := c.open(in.ID, ActionRun)
	if err != nil {
		return none{}, err
	}
	return none{}, c.h.eng.Dequeue(c.ctx, row.ID, in.Run)
}
