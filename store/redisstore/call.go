package redisstore

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

var (
	scriptCall  = about("call", "read a pending call", reads)
	scriptCalls = keyed("calls", "list pending calls", reads)
)

// callIndexes returns the indexes that a pending call is in: those of all calls, its tree and its session, that of its
// claim, for an effect that of unsettled ones, and while it is open those of its assignment.
func callIndexes(call *cairn.PendingCall) []string {
	names := []string{"calls", "tree:" + call.RootID, "session:" + call.SessionID}
	if call.ClaimedBy != "" {
		names = append(names, "claimed:"+call.ClaimedBy)
	}
	if call.Kind == cairn.CallEffect && call.Status != cairn.CallSettled {
		names = append(names, "unsettled")
	}
	if call.Status != cairn.CallOpen {
		return names
	}
	names = append(names, "open")
	if call.Tenant != "" {
		names = append(names, "open:"+call.Tenant)
	}
	if len(call.Reviewers) == 0 {
		return append(names, "unassigned")
	}
	for _, reviewer := range call.Reviewers {
		names = append(names, "assigned:"+reviewer)
	}
	return names
}

// indexesOf returns the indexes that together contain every call that a query selects.
func indexesOf(q *driver.CallQuery) []string {
	open := len(q.Statuses) == 1 && q.Statuses[0] == cairn.CallOpen
	switch {
	case q.SessionID != "":
		return []string{"session:" + q.SessionID}
	case q.RootID != "":
		return []string{"tree:" + q.RootID}
	case q.Claimed != "":
		return []string{"claimed:" + q.Claimed}
	case q.Unsettled():
		return []string{"unsettled"}
	case open && q.Reviewer != "":
		return []string{"unassigned", "assigned:" + q.Reviewer}
	case open && q.Tenant != nil && *q.Tenant != "":
		return []string{"open:" + *q.Tenant}
	case open:
		return []string{"open"}
	}
	return []string{"calls"}
}

// callHeader is what precedes a pending call's data in its record: version, creation, update, session, user, agent,
// indexes and deadline.
type callHeader struct {
	version, created, updated int64
	session, user, agent      string
	indexes                   []string
	deadline                  int64
}

func (h *callHeader) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &[]any{&h.version, &h.created, &h.updated, &h.session, &h.user, &h.agent, &h.indexes, &h.deadline})
}

// readCall reads the record of a pending call.
func readCall(root, id, record string) (call cairn.PendingCall, err error) {
	head, data, ok := strings.Cut(record, "\n")
	var h callHeader
	if !ok {
		return call, cairn.Errorf(cairn.ErrCorrupt, "stored call %q has no data", id)
	}
	if err := backend.DecodeJSON("call", head, &h); err != nil {
		return call, err
	}
	if err := backend.DecodeJSON("call", data, &call); err != nil {
		return call, err
	}
	call.ID, call.RootID, call.SessionID, call.UserID, call.Agent = id, root, h.session, h.user, h.agent
	call.Tenant, _ = cairn.SplitTenant(root)
	call.Version, call.CreatedAt, call.UpdatedAt = h.version, fromMicros(h.created), fromMicros(h.updated)
	call.Deadline, call.ClaimedUntil = fromMicros(h.deadline), stored(call.ClaimedUntil)
	return call, nil
}

// readCalls reads the calls of one tree from a list of ids and records.
func readCalls(list []any, root string) ([]cairn.PendingCall, error) {
	var calls []cairn.PendingCall
	for i := 0; i+1 < len(list); i += 2 {
		call, err := readCall(root, plain(list[i]), plain(list[i+1]))
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// Calls implements driver.Store.
func (s *Store) Calls(ctx context.Context, q driver.CallQuery) (driver.Page[cairn.PendingCall], error) {
	createdAt, root, id, err := q.Begin()
	if err != nil {
		return driver.Page[cairn.PendingCall]{}, err
	}
	from, last := "-inf", ""
	if root != "" {
		from, last = strconv.FormatInt(createdAt.UnixMicro(), 10), root+"\n"+id
	}
	if q.RootID != "" && q.ID != "" {
		return s.callOf(ctx, &q)
	}
	now, err := s.now(ctx, &q)
	if err != nil {
		return driver.Page[cairn.PendingCall]{}, err
	}
	read := func(r reply) ([]*cairn.PendingCall, error) { return readNamedCalls(r.list(1)) }
	size := driver.PageSize(q.Limit)
	indexes := indexesOf(&q)
	list := merged[cairn.PendingCall]{compare: driver.CompareCalls}
	list.first = func(n int) ([][]*cairn.PendingCall, error) {
		var all [][]*cairn.PendingCall
		for _, index := range indexes {
			parts, err := readParts(ctx, &s.database, q.RootID, scriptCalls, read, index, from, last, n)
			if err != nil {
				return nil, err
			}
			all = append(all, parts...)
		}
		return all, nil
	}
	list.more = func(part int, after *cairn.PendingCall, n int) ([]*cairn.PendingCall, error) {
		bucket, index := part%len(s.buckets), indexes[part/len(s.buckets)]
		r, err := s.run(ctx, scriptCalls, bucket, index, after.CreatedAt.UnixMicro(), after.RootID+"\n"+after.ID, n)
		if err != nil {
			return nil, err
		}
		return read(r)
	}
	page, err := readMerged(&list, size, max(size+1, scanBatch), func(call *cairn.PendingCall) (yes, over bool) {
		return q.Selects(call, now), false
	}, driver.CallCursor)
	if err != nil {
		return page, err
	}
	if again, err := lookAt(ctx, &s.database, page.Items, func(call *cairn.PendingCall) string { return call.RootID }); again || err != nil {
		if err != nil {
			return driver.Page[cairn.PendingCall]{}, err
		}
		return s.Calls(ctx, q)
	}
	return page, nil
}

// callOf is Calls for a query that names one call.
func (s *Store) callOf(ctx context.Context, q *driver.CallQuery) (page driver.Page[cairn.PendingCall], err error) {
	r, err := s.ask(ctx, scriptCall, q.RootID, q.ID)
	switch {
	case driver.IsGone(err):
		return page, nil
	case err != nil:
		return page, err
	}
	record := reply(r.list(1)).text(0)
	if record == "" {
		return page, nil
	}
	call, err := readCall(q.RootID, q.ID, record)
	if err != nil {
		return page, err
	}
	now, err := s.now(ctx, q)
	if err == nil && q.Cursor == "" && q.Selects(&call, now) {
		page.Items = []cairn.PendingCall{call}
	}
	return page, err
}

// now returns the server's time for a query that needs it.
func (s *Store) now(ctx context.Context, q *driver.CallQuery) (time.Time, error) {
	if q.Claimed == "" {
		return time.Time{}, nil
	}
	if err := s.check(ctx); err != nil {
		return time.Time{}, err
	}
	now, err := s.client.Time(ctx).Result()
	return now.UTC(), s.fault(ctx, "read the time", err)
}

// readNamedCalls decodes a list of names and records of calls. A name is the call's root and id.
func readNamedCalls(list []any) ([]*cairn.PendingCall, error) {
	var calls []*cairn.PendingCall
	for i := 0; i+1 < len(list); i += 2 {
		root, id, _ := strings.Cut(plain(list[i]), "\n")
		call, err := readCall(root, id, plain(list[i+1]))
		if err != nil {
			return nil, err
		}
		calls = append(calls, &call)
	}
	return calls, nil
}
