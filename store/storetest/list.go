package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

var listTests = []storeTest{
	{name: "EveryFilter", run: listFilters},
	{name: "FiltersAreNotPatterns", run: listHostileFilters},
	{name: "FollowsWrites", run: listFollowsWrites},
	{name: "PageSizes", run: listPageSizes},
	{name: "PagingWhileWriting", run: listPagingWhileWriting},
	{name: "BadCursor", run: listBadCursor},
	{name: "Search", run: listSearch},
	{name: "Opening", run: listOpening},
	{name: "Removed", run: listRemoved, needs: func(o *Options) bool { return o.sweeps }},
	{name: "CountTree", run: listCountTree},
}

// population makes sessions that differ in everything that a query can ask for, and returns their rows.
func (h *harness) population() []*cairn.Session {
	h.Helper()
	var ids []string
	for i := range 24 {
		s := &cairn.Session{ID: fmt.Sprintf("session-%02d", i), Agent: agentName, UserID: fmt.Sprint("user-", i%3)}
		if i%2 == 1 {
			s.Agent = "sales"
		}
		for j, tag := range []string{"red", "green", "blue"} {
			if i>>j&1 == 1 {
				s.Tags = append(s.Tags, tag)
			}
		}
		s.Metadata = map[string]string{"plan": []string{"free", "paid", ""}[i%3], "region": []string{"eu", "us"}[i%2]}
		if i%4 == 3 {
			s.ParentID, s.RootID = ids[i-1], ids[i-2]
		}
		_, err := store.Create(h.Context(), h.st, s, nil)
		h.must(err)
		ids = append(ids, s.ID)
	}
	statuses := []cairn.SessionStatus{cairn.SessionIdle, cairn.SessionActive, cairn.SessionPaused, cairn.SessionCompleted, cairn.SessionFailed}
	for i, id := range ids {
		if i%2 == 0 {
			h.commit(id, &store.Commit{Status: statuses[i%len(statuses)]})
		}
	}
	var rows []*cairn.Session
	for _, id := range ids {
		rows = append(rows, h.load(id))
	}
	return rows
}

func listFilters(h *harness) {
	rows := h.population()
	early, late := rows[6].CreatedAt, rows[18].CreatedAt
	changed := rows[10].UpdatedAt
	for name, q := range map[string]store.SessionQuery{
		"all":             {},
		"user":            {UserID: "user-1"},
		"no such user":    {UserID: "user"},
		"agent":           {Agent: "sales"},
		"status":          {Statuses: []cairn.SessionStatus{cairn.SessionPaused}},
		"statuses":        {Statuses: []cairn.SessionStatus{cairn.SessionPaused, cairn.SessionFailed, cairn.SessionIdle}},
		"tag":             {Tags: []string{"green"}},
		"tags":            {Tags: []string{"blue", "red"}},
		"no such tag":     {Tags: []string{"red", "re"}},
		"metadata":        {Metadata: map[string]string{"plan": "paid"}},
		"several entries": {Metadata: map[string]string{"plan": "free", "region": "eu"}},
		"empty entry":     {Metadata: map[string]string{"plan": ""}},
		"missing entry":   {Metadata: map[string]string{"no": ""}},
		"parent":          {ParentID: rows[2].ID},
		"root":            {RootID: rows[1].ID},
		"roots only":      {RootsOnly: true},
		"created after":   {CreatedAfter: early},
		"created before":  {CreatedBefore: late},
		"created between": {CreatedAfter: early, CreatedBefore: late},
		"updated after":   {UpdatedAfter: changed},
		"updated before":  {UpdatedBefore: changed},
		"updated between": {UpdatedAfter: rows[4].UpdatedAt, UpdatedBefore: changed},
		"other time zone": {CreatedAfter: early.In(time.FixedZone("east", 3600)), CreatedBefore: late.In(time.FixedZone("west", -7200))},
		"everything": {UserID: "user-0", Agent: agentName, Statuses: []cairn.SessionStatus{cairn.SessionActive, cairn.SessionIdle, cairn.SessionPaused},
			Tags: []string{"green"}, Metadata: map[string]string{"region": "eu"}, RootsOnly: true, CreatedAfter: rows[0].CreatedAt, UpdatedBefore: time.Now().Add(time.Hour)},
	} {
		want := expected(rows, q)
		if (len(want) == 0) != strings.HasPrefix(name, "no such") && name != "missing entry" {
			h.Fatalf("%s: the test's population has %d matches", name, len(want))
		}
		for _, limit := range []int{0, 1, max(1, len(want))} {
			q.Limit = limit
			same(h.T, fmt.Sprintf("%s, in pages of %d", name, limit), h.list(q), want)
		}
	}
}

// list reads a list to its end.
func (h *harness) list(q store.SessionQuery) []cairn.Session {
	h.Helper()
	first := true
	return pages(h.T, "sessions", func(cursor string) (store.Page[cairn.Session], error) {
		q.Cursor = cursor
		page, err := h.st.List(h.Context(), q)
		if err == nil && len(page.Items) == 0 && !first {
			h.Fatal("a page is empty, so the one before was the last and had a cursor")
		}
		first = false
		return page, err
	})
}

// expected returns the sessions that a query must give, in order.
func expected(rows []*cairn.Session, q store.SessionQuery) []*cairn.Session {
	var out []*cairn.Session
	for _, s := range rows {
		ok := (q.UserID == "" || q.UserID == s.UserID) && (q.Agent == "" || q.Agent == s.Agent) &&
			(q.Statuses == nil || slices.Contains(q.Statuses, s.Status)) &&
			(q.ParentID == "" || q.ParentID == s.ParentID) && (q.RootID == "" || q.RootID == s.RootID) &&
			!(q.RootsOnly && s.ParentID != "") &&
			!(s.CreatedAt.Before(q.CreatedAfter) || s.UpdatedAt.Before(q.UpdatedAfter)) &&
			(q.CreatedBefore.IsZero() || s.CreatedAt.Before(q.CreatedBefore)) &&
			(q.UpdatedBefore.IsZero() || s.UpdatedAt.Before(q.UpdatedBefore))
		for _, tag := range q.Tags {
			ok = ok && slices.Contains(s.Tags, tag)
		}
		for k, v := range q.Metadata {
			have, there := s.Metadata[k]
			ok = ok && there && have == v
		}
		if ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *cairn.Session) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return out
}

func listHostileFilters(h *harness) {
	var rows []*cairn.Session
	for i, odd := range oddTexts {
		s := &cairn.Session{ID: fmt.Sprint("session-", i), Agent: odd, UserID: odd, Tags: []string{odd}, Metadata: map[string]string{odd: odd}}
		row, err := store.Create(h.Context(), h.st, s, nil)
		h.must(err)
		rows = append(rows, row)
	}
	for i, odd := range oddTexts {
		for name, q := range map[string]store.SessionQuery{
			"user": {UserID: odd}, "agent": {Agent: odd}, "tag": {Tags: []string{odd}}, "metadata": {Metadata: map[string]string{odd: odd}},
		} {
			same(h.T, fmt.Sprintf("sessions by %s %q", name, odd), h.list(q), rows[i:i+1])
		}
	}
}

func listFollowsWrites(h *harness) {
	user, tags := "new user", []string{"new"}
	h.create("session")
	h.commit("session", &store.Commit{Status: cairn.SessionFailed,
		Context: &store.ContextChange{UserID: &user, Tags: &tags, Metadata: map[string]string{"k": "v"}}})
	found := store.SessionQuery{UserID: user, Tags: tags, Metadata: map[string]string{"k": "v"}, Statuses: []cairn.SessionStatus{cairn.SessionFailed}}
	same(h.T, "after a change", h.list(found), []*cairn.Session{h.load("session")})
	nobody, none := "", []string{}
	h.commit("session", &store.Commit{Context: &store.ContextChange{UserID: &nobody, Tags: &none, Metadata: map[string]string{"k": ""}}})
	for name, q := range map[string]store.SessionQuery{"user": {UserID: user}, "tag": {Tags: tags}, "metadata": {Metadata: map[string]string{"k": "v"}},
		"empty metadata": {Metadata: map[string]string{"k": ""}}} {
		if list := h.list(q); len(list) > 0 {
			h.Fatalf("by old %s: %+v", name, list)
		}
	}
	h.must(h.st.Delete(h.Context(), "session"))
	if list := h.list(store.SessionQuery{}); len(list) > 0 {
		h.Fatalf("after deletion: %+v", list)
	}
}

func listPageSizes(h *harness) {
	for i := range 105 {
		h.create(fmt.Sprint("session-", i))
	}
	for limit, want := range map[int]int{0: 100, 100: 100, 104: 104, 105: 105, 1 << 30: 105} {
		page, err := h.st.List(h.Context(), store.SessionQuery{Limit: limit})
		h.must(err)
		if len(page.Items) != want || (page.Next == "") != (want == 105) {
			h.Fatalf("limit %d: %d sessions and cursor %q, want %d", limit, len(page.Items), page.Next, want)
		}
	}
}

// listPagingWhileWriting changes, creates and deletes sessions between pages: those that existed all the time are
// listed exactly once.
func listPagingWhileWriting(h *harness) {
	for i := range 12 {
		h.create(fmt.Sprintf("session-%02d", i))
	}
	h.must(h.st.Delete(h.Context(), "session-11"))
	before := h.list(store.SessionQuery{})
	var got []cairn.Session
	n := 0
	got = pages(h.T, "sessions", func(cursor string) (store.Page[cairn.Session], error) {
		page, err := h.st.List(h.Context(), store.SessionQuery{Cursor: cursor, Limit: 3})
		n++
		h.create(fmt.Sprint("new-", n))
		if n == 1 {
			h.must(h.st.Delete(h.Context(), page.Items[2].ID)) // the cursor's item
		}
		h.commit("session-00", &store.Commit{Messages: says("change")})
		return page, err
	})
	var gotIDs, wantIDs []string
	for i := range before {
		wantIDs = append(wantIDs, before[i].ID)
	}
	for i := range got {
		if !strings.HasPrefix(got[i].ID, "new") {
			gotIDs = append(gotIDs, got[i].ID)
		}
	}
	same(h.T, "sessions, while writing", gotIDs, wantIDs)
}

func listBadCursor(h *harness) {
	h.create("session")
	for _, cursor := range badCursors {
		_, err := h.st.List(h.Context(), store.SessionQuery{Cursor: cursor})
		h.wantError(err, cairn.ErrInvalid, fmt.Sprintf("cursor %q", cursor))
	}
}

func listCountTree(h *harness) {
	count := func(root string, want int) {
		h.Helper()
		n, err := store.CountTree(h.Context(), h.st, root)
		if err != nil || n != want {
			h.Fatalf("the tree of %q has %d sessions, want %d; error %v", root, n, want, err)
		}
	}
	count("root", 0)
	for _, s := range []*cairn.Session{
		{ID: "root"}, {ID: "child", ParentID: "root", RootID: "root"}, {ID: "grandchild", ParentID: "child", RootID: "root"},
		{ID: "other"}, {ID: "roo"},
	} {
		s.Agent = agentName
		_, err := store.Create(h.Context(), h.st, s, nil)
		h.must(err)
	}
	count("root", 3)
	count("other", 1)
	count("child", 0)
	h.must(h.st.Delete(h.Context(), "grandchild"))
	count("root", 2)
}
