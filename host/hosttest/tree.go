package hosttest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// tree is all that a session and its sub-agents left behind.
type tree struct {
	sessions []*record // the root first, each session before its children
	calls    []cairn.PendingCall
	events   []cairn.Event
	// order gives the position of a call in the transcripts, by its id.
	order map[string]int
}

// record is all that one session left behind.
type record struct {
	row         *cairn.Session
	messages    []cairn.Message
	state       json.RawMessage
	runs        []cairn.Run
	checkpoints []cairn.Checkpoint
	staged      []driver.Staged
	calls       []cairn.PendingCall
	events      []cairn.Event
	usage       []cairn.UsageRow
	metered     bool // the store keeps usage rows
}

// treeOf reads the tree that a session belongs to.
func treeOf(ctx context.Context, st driver.Store, log driver.Log, session string) (*tree, error) {
	row, err := driver.Load(ctx, st, session)
	if err != nil {
		return nil, err
	}
	return readTree(ctx, st, log, row.RootID)
}

// readTree reads a root session with all sessions below it.
func readTree(ctx context.Context, st driver.Store, log driver.Log, root string) (*tree, error) {
	t := &tree{order: map[string]int{}}
	row, err := driver.Load(ctx, st, root)
	if err != nil {
		return nil, err
	}
	if t.events, err = allEvents(ctx, log, row.Log()); err != nil {
		return nil, err
	}
	t.calls, err = pages(func(cursor string) (driver.Page[cairn.PendingCall], error) {
		return st.Calls(ctx, driver.CallQuery{RootID: root, Cursor: cursor})
	})
	if err != nil {
		return nil, err
	}
	if err := t.add(ctx, st, root); err != nil {
		return nil, err
	}
	for i := range t.events { // calls about a budget belong to no tool call
		if ev := &t.events[i]; ev.Type == cairn.EventToolPending && ev.Tool == cairn.BudgetTool {
			t.order[ev.CallID] = len(t.order) + i
		}
	}
	place := func(c *cairn.PendingCall) int { return t.order[cmp.Or(c.ToolCallID, c.ID)] }
	byPlace := func(a, b cairn.PendingCall) int { return cmp.Or(place(&a)-place(&b), a.Number-b.Number) }
	slices.SortFunc(t.calls, byPlace)
	for _, r := range t.sessions {
		r.calls = slices.DeleteFunc(slices.Clone(t.calls), func(c cairn.PendingCall) bool { return c.SessionID != r.row.ID })
	}
	return t, t.readUsage(ctx, st)
}

// add reads a session and the sessions below it.
func (t *tree) add(ctx context.Context, st driver.Store, id string) error {
	r := &record{}
	var err error
	if r.row, err = driver.Load(ctx, st, id); err != nil {
		return err
	}
	if r.messages, err = driver.AllMessages(ctx, st, id); err != nil {
		return err
	}
	if r.state, err = driver.State(ctx, st, id, ""); err != nil {
		return err
	}
	r.runs, err = pages(func(cursor string) (driver.Page[cairn.Run], error) {
		return st.Runs(ctx, id, driver.PageQuery{Cursor: cursor})
	})
	if err != nil {
		return err
	}
	r.checkpoints, err = pages(func(cursor string) (driver.Page[cairn.Checkpoint], error) {
		return st.Checkpoints(ctx, id, driver.PageQuery{Cursor: cursor})
	})
	if err != nil {
		return err
	}
	if r.staged, err = driver.StagedOf(ctx, st, id, ""); err != nil {
		return err
	}
	r.events = slices.DeleteFunc(slices.Clone(t.events), func(ev cairn.Event) bool { return ev.SessionID != id })
	t.sessions = append(t.sessions, r)
	for i := range r.messages {
		for _, use := range r.messages[i].ToolUses() {
			t.order[use.CallID] = len(t.order) + 1
		}
	}
	return t.addChildren(ctx, st, id)
}

// addChildren reads the children of a session, in the order of the calls that consulted them.
func (t *tree) addChildren(ctx context.Context, st driver.Store, id string) error {
	children, err := pages(func(cursor string) (driver.Page[cairn.Session], error) {
		return st.List(ctx, driver.SessionQuery{ParentID: id, Cursor: cursor})
	})
	if err != nil {
		return err
	}
	asked := map[string]int{}
	for i := range t.events {
		if ev := &t.events[i]; ev.Type == cairn.EventSubagentStart {
			asked[ev.ChildID] = t.order[ev.CallID]
		}
	}
	slices.SortFunc(children, func(a, b cairn.Session) int {
		if asked[a.ID] != asked[b.ID] {
			return asked[a.ID] - asked[b.ID]
		}
		return strings.Compare(a.ID, b.ID)
	})
	for i := range children {
		if err := t.add(ctx, st, children[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// pages reads a list to its end.
func pages[T any](read func(cursor string) (driver.Page[T], error)) ([]T, error) {
	var all []T
	cursor := ""
	for {
		page, err := read(cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			return all, nil
		}
	}
}

func allEvents(ctx context.Context, log driver.Log, name string) ([]cairn.Event, error) {
	var all []cairn.Event
	for {
		batch, err := log.Read(ctx, name, int64(len(all)), 0)
		if err != nil || len(batch) == 0 {
			return all, err
		}
		all = append(all, batch...)
	}
}
