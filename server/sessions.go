package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server/internal/wire"
	"github.com/cairn-agents/cairn/store"
)

type listIn struct {
	agentQuery
	// Status lists sessions with one of these statuses: idle, active, paused, completed, failed or interrupted. Those
	// that have expired, or were deleted, and can be restored, are listed with the words expired and deleted.
	Status []string `query:"status"`
	// Tags must all be present.
	Tags []string `query:"tag"`
	// Metadata is a JSON object. Sessions have each of its values at the same path of their metadata.
	Metadata cairn.Metadata `query:"metadata"`
	UserID   string         `query:"user_id"`
	// ParentID lists the sessions of the sub-agents and companions of that session, instead of sessions without a parent.
	ParentID string `query:"parent_id"`
	Search   string `query:"search"`
	// ThreadID lists the sessions of a thread.
	ThreadID string `query:"thread_id"`
	// Latest lists one session of each thread: the latest.
	Latest bool `query:"latest"`
	// Removed lists sessions that were "deleted" or have "expired" and can be restored, instead of the existing
	// ones.
	Removed []string `query:"removed"`
	// Archived is which sessions are listed: "false" those that are not archived, "true" those that are, "all" both.
	// Without it, a list by thread_id, parent_id or removed has both, and any other list those that are not archived.
	Archived      string    `query:"archived" schema:"enum=false|true|all"`
	CreatedAfter  time.Time `query:"created_after"`
	CreatedBefore time.Time `query:"created_before"`
	// UpdatedAfter is inclusive and UpdatedBefore exclusive. A commit of a run updates its session, too.
	UpdatedAfter  time.Time `query:"updated_after"`
	UpdatedBefore time.Time `query:"updated_before"`
	Limit         int       `query:"limit"`
	Offset        int       `query:"offset"`
	Cursor        string    `query:"cursor"`
}

// listSessions lists the principal's sessions, or those of any user for an administrator or operator. The policy
// filters each page. The children of a session are for every principal that may read the session.
func listSessions(c *request, in *listIn) (*pageBody[*cairn.Session], error) {
	q := store.SessionQuery{UserID: in.UserID, ThreadID: in.ThreadID, Tags: in.Tags, Metadata: in.Metadata, Search: in.Search,
		RootsOnly: true, CreatedAfter: in.CreatedAfter, CreatedBefore: in.CreatedBefore,
		UpdatedAfter: in.UpdatedAfter, UpdatedBefore: in.UpdatedBefore}
	var err error
	if q.Agent, err = in.agentQuery.name(); err != nil {
		return nil, err
	}
	p := paging{in.Limit, in.Offset, in.Cursor}
	if err := cmp.Or(p.check(), withStatus(&q, in.Status)); err != nil {
		return nil, err
	}
	for _, why := range in.Removed {
		if store.Removal(why) != store.Deleted && store.Removal(why) != store.Expired {
			return nil, cairn.Invalid("removed", "unknown value %q: must be %s or %s", why, store.Deleted, store.Expired)
		}
		q.Removed = append(q.Removed, store.Removal(why))
	}
	if q.Archived, err = in.archived(&q); err != nil {
		return nil, err
	}
	if in.ParentID != "" { // whose root decides about the children as well
		if _, err := c.open(in.ParentID, ActionRead); err != nil {
			return nil, err
		}
		q.ParentID, q.RootsOnly = in.ParentID, false
	}
	if !c.principal.seesAll() {
		if in.UserID != "" && in.UserID != c.principal.User {
			return nil, cairn.Invalid("user_id", "may only be set by administrators and operators")
		}
	}
	if !c.principal.seesAll() && in.ParentID == "" {
		if c.principal.User == "" {
			return pageAt[*cairn.Session](p, nil, ""), nil
		}
		q.UserID = c.principal.User
	}
	page, err := read(c.ctx, p, q,
		func(q *store.SessionQuery, cursor string, limit int) { q.Cursor, q.Limit = cursor, limit }, c.h.eng.Sessions)
	if err != nil {
		return nil, err
	}
	out := &pageBody[*cairn.Session]{Items: []*cairn.Session{}, Next: page.Next, HasMore: page.HasMore, Limit: page.Limit, Offset: page.Offset, Cursor: page.Cursor}
	for i := range page.Items {
		row := &page.Items[i]
		ok := in.ParentID != ""
		if !ok {
			ok, err = c.h.opts.Policy(c.ctx, Access{Principal: c.principal, Action: ActionRead, Session: row})
		}
		if err == nil && ok && in.Latest {
			var latest *cairn.Session
			latest, err = c.h.eng.Thread(c.ctx, row.ThreadID)
			ok = err == nil && latest.ID == row.ID
		}
		if err != nil && !errors.Is(err, cairn.ErrNotFound) {
			return nil, err
		}
		if ok {
			out.Items = append(out.Items, public(row))
		}
	}
	return out, nil
}

// archived returns which sessions a request lists, see store.SessionQuery.Archived.
func (in *listIn) archived(q *store.SessionQuery) (*bool, error) {
	switch in.Archived {
	case "":
		if in.ThreadID != "" || in.ParentID != "" || len(q.Removed) > 0 {
			return nil, nil
		}
		return new(false), nil
	case "all":
		return nil, nil
	case "false", "true":
		return new(in.Archived == "true"), nil
	}
	return nil, cairn.Invalid("archived", "unknown value %q: must be one of false, true, all", in.Archived)
}

// withStatus adds the statuses by which a request selects sessions.
func withStatus(q *store.SessionQuery, words []string) error {
	known := enums[reflect.TypeFor[cairn.SessionStatus]()]
	for _, word := range split(words) {
		switch removal := store.Removal(word); {
		case removal == store.Deleted || removal == store.Expired:
			q.Removed = append(q.Removed, removal)
		case slices.Contains(known, word):
			q.Statuses = append(q.Statuses, cairn.SessionStatus(word))
		default:
			return cairn.Invalid("status", "unknown status %q: must be one of %s, %s, %s", word, strings.Join(known, ", "), store.Expired, store.Deleted)
		}
	}
	if len(q.Removed) > 0 && len(q.Statuses) > 0 {
		return cairn.Invalid("status", "%s and %s cannot be combined with other statuses", store.Expired, store.Deleted)
	}
	return nil
}

// split returns the words of a parameter that may be repeated, or have several words with commas between them.
func split(values []string) (words []string) {
	for _, value := range values {
		words = append(words, strings.Split(value, ",")...)
	}
	return words
}

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
	out := &sessionViewBody{Session: public(part.row)}
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
	page, err := c.h.eng.Decisions(c.ctx, in.ID, store.PageQuery{Cursor: in.Cursor, Limit: p.limit})
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

// checkpointViewBody is a checkpoint with the state of its session at that point.
type checkpointViewBody struct {
	*cairn.Checkpoint
	// State is the session's state as of the checkpoint.
	State json.RawMessage `json:"state"`
}

func getCheckpoint(c *request, in *checkpointIn) (*checkpointViewBody, error) {
	if _, err := c.open(in.ID, ActionRead); err != nil {
		return nil, err
	}
	cp, err := c.h.eng.FindCheckpoint(c.ctx, in.ID, in.Checkpoint)
	if err != nil {
		return nil, err
	}
	state, err := c.h.eng.State(c.ctx, in.ID, in.Checkpoint)
	return &checkpointViewBody{Checkpoint: cp, State: state}, err
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
		if err := c.allow(Access{Principal: c.principal, Action: ActionChange, Session: &page.Items[0]}, in.ID); err != nil {
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
	// Title replaces the title. Fields that are absent stay unchanged.
	Title *string   `json:"title,omitempty"`
	Tags  *[]string `json:"tags,omitempty"`
	// Metadata sets single entries; null or an empty string removes an entry.
	Metadata  cairn.Metadata `json:"metadata,omitempty"`
	ExpiresAt *time.Time     `json:"expires_at,omitempty"`
	// UserID may be set by administrators only.
	UserID *string `json:"user_id,omitempty"`
	// Archived archives the session with the other sessions of its thread, or makes them current. Lists leave archived
	// sessions out; nothing else changes, and the next message of the user makes the session current.
	Archived *bool `json:"archived,omitempty"`
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

// snapshotBody is a transcript with the log position from which events follow it.
type snapshotBody struct {
	// Session is the session as of the cursor.
	Session *cairn.Session `json:"session"`
	// Messages are its transcript.
	Messages []cairn.Message `json:"messages"`
	// State is its state.
	State json.RawMessage `json:"state"`
	// Cursor is the log position that all of this belongs to: later events are behind it.
	Cursor string `json:"cursor"`
}

func snapshot(c *request, in *idIn) (*snapshotBody, error) {
	if _, err := c.open(in.ID, ActionRead); err != nil {
		return nil, err
	}
	snap, err := c.h.eng.Snapshot(c.ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &snapshotBody{Session: public(snap.Session), Messages: c.shown(snap.Messages), State: snap.State, Cursor: snap.Cursor().String()}, nil
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
	// SessionID is the id of the new session; if it is empty, one is generated.
	SessionID string `json:"session_id,omitempty"`
	// CheckpointID or Messages is the point to branch from; without either, that is the end.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	Messages     *int   `json:"messages,omitempty"`
}

func branch(c *request, in *branchIn) (*cairn.Session, error) {
	row, err := c.open(in.ID, ActionChange)
	if err != nil {
		return nil, err
	}
	if in.SessionID == "" {
		in.SessionID = c.newID()
	}
	var opts []engine.BranchOption
	if in.CheckpointID != "" {
		opts = append(opts, engine.AtCheckpoint(in.CheckpointID))
	}
	if in.Messages != nil {
		opts = append(opts, engine.AtMessage(*in.Messages))
	}
	made, err := c.h.eng.Branch(c.ctx, row.ID, in.SessionID, opts...)
	if errors.Is(err, cairn.ErrExists) && c.repeated() {
		made, err = c.open(in.SessionID, ActionRead)
	}
	return public(made), err
}

type rewindIn struct {
	ID           string `path:"id" json:"-"`
	CheckpointID string `json:"checkpoint_id"`
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

type stateIn struct {
	ID string `path:"id" json:"-"`
	// State is the new state: an object of the agent's state type.
	State json.RawMessage `json:"state"`
	// Version, if it is not 0, is the version of the session that the client saw. If the session has changed since, the
	// state is not set.
	Version int64 `json:"version,omitempty"`
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

func listQueue(c *request, in *idIn) (*pageBody[store.QueuedTurn], error) {
	row, err := c.open(in.ID, ActionRead)
	if err != nil {
		return nil, err
	}
	turns, err := c.h.eng.Queue(c.ctx, row.ID)
	for i := range turns {
		turns[i].Messages = c.shown(turns[i].Messages)
	}
	total := len(turns)
	page := pageAt(paging{limit: total}, turns, "")
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
