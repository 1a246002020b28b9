package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var listTests = []storeTest{
	{name: "EveryFilter", run: listFilters},
	{name: "FiltersAreNotPatterns", run: listHostileFilters},
	{name: "MetadataByPathAndType", run: listMetadata},
	{name: "MetadataFilterRefused", run: listMetadataRefused},
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
		s.Metadata = cairn.Metadata{"plan": []string{"free", "paid", ""}[i%3], "region": []string{"eu", "us"}[i%2]}
		if i%6 == 4 {
			s.ThreadID = ids[0]
		}
		if i%4 == 3 {
			s.ParentID, s.RootID = ids[i-1], ids[i-2]
		}
		_, err := driver.Create(h.Context(), h.st, s, nil)
		h.must(err)
		ids = append(ids, s.ID)
	}
	statuses := []cairn.SessionStatus{cairn.SessionIdle, cairn.SessionActive, cairn.SessionPaused, cairn.SessionCompleted, cairn.SessionFailed}
	for i, id := range ids {
		if i%2 == 0 {
			h.commit(id, &driver.Commit{Status: statuses[i%len(statuses)]})
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
	for name, q := range map[string]driver.SessionQuery{
		"all":             {},
		"user":            {UserID: "user-1"},
		"no such user":    {UserID: "user"},
		"agent":           {Agent: "sales"},
		"status":          {Statuses: []cairn.SessionStatus{cairn.SessionPaused}},
		"statuses":        {Statuses: []cairn.SessionStatus{cairn.SessionPaused, cairn.SessionFailed, cairn.SessionIdle}},
		"tag":             {Tags: []string{"green"}},
		"tags":            {Tags: []string{"blue", "red"}},
		"no such tag":     {Tags: []string{"red", "re"}},
		"metadata":        {Metadata: cairn.Metadata{"plan": "paid"}},
		"several entries": {Metadata: cairn.Metadata{"plan": "free", "region": "eu"}},
		"empty entry":     {Metadata: cairn.Metadata{"plan": ""}},
		"missing entry":   {Metadata: cairn.Metadata{"no": ""}},
		"thread":          {ThreadID: rows[0].ID},
		"no such thread":  {ThreadID: rows[4].ID},
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
			Tags: []string{"green"}, Metadata: cairn.Metadata{"region": "eu"}, RootsOnly: true, CreatedAfter: rows[0].CreatedAt, UpdatedBefore: time.Now().Add(time.Hour)},
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
func (h *harness) list(q driver.SessionQuery) []cairn.Session {
	h.Helper()
	first := true
	return pages(h.T, "sessions", func(cursor string) (driver.Page[cairn.Session], error) {
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
func expected(rows []*cairn.Session, q driver.SessionQuery) []*cairn.Session {
	var out []*cairn.Session
	for _, s := range rows {
		ok := (q.UserID == "" || q.UserID == s.UserID) && (q.Agent == "" || q.Agent == s.Agent) &&
			(q.Statuses == nil || slices.Contains(q.Statuses, s.Status)) &&
			(q.ThreadID == "" || q.ThreadID == s.ThreadID) && (q.ParentID == "" || q.ParentID == s.ParentID) && (q.RootID == "" || q.RootID == s.RootID) &&
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
		s := &cairn.Session{ID: fmt.Sprint("session-", i), Agent: odd, UserID: odd, Tags: []string{odd},
			Metadata: cairn.Metadata{odd: odd, "inner": map[string]any{odd: map[string]any{odd: odd}}}}
		row, err := driver.Create(h.Context(), h.st, s, nil)
		h.must(err)
		rows = append(rows, row)
	}
	for i, odd := range oddTexts {
		for name, q := range map[string]driver.SessionQuery{
			"user": {UserID: odd}, "agent": {Agent: odd}, "tag": {Tags: []string{odd}}, "metadata": {Metadata: cairn.Metadata{odd: odd}},
			"a path": {Metadata: cairn.Metadata{"inner": map[string]any{odd: map[string]any{odd: odd}}}},
		} {
			same(h.T, fmt.Sprintf("sessions by %s %q", name, odd), h.list(q), rows[i:i+1])
		}
	}
}

// listMetadata filters by the values at paths of JSON documents, in which the type of a value counts.
func listMetadata(h *harness) {
	object := func(key string, value any) map[string]any { return map[string]any{key: value} }
	deepest := any("bottom")
	for range driver.MaxFilterDepth - 1 {
		deepest = object("n", deepest)
	}
	for id, m := range map[string]cairn.Metadata{
		"number": {"n": 1}, "text": {"n": "1"}, "fraction": {"n": 1.5}, "large": {"n": -9007199254740991}, "small": {"n": 1e-300},
		"true": {"n": true}, "false": {"n": false}, "null": {"n": nil}, "empty": {"n": ""}, "word": {"n": "true"}, "none": nil,
		"list": {"n": []int{1}}, "object": {"n": object("n", 1)}, "inner text": {"n": object("n", "1")},
		"looks like an object": {"n": `{"n":1}`}, "pair": {"n": object("a", 1), "plan": "pro"}, "other pair": {"n": object("a", 2), "plan": "pro"},
		"deepest": {"n": deepest}, "odd": {"n": "a\"<&>\u2028é\\"},
	} {
		_, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: id, Agent: agentName, Metadata: m}, nil)
		h.must(err)
	}
	for _, c := range []struct {
		filter cairn.Metadata
		want   string
	}{
		{cairn.Metadata{"n": 1}, "number"}, {cairn.Metadata{"n": 1.0}, "number"}, {cairn.Metadata{"n": json.Number("1e0")}, "number"},
		{cairn.Metadata{"n": "1"}, "text"}, {cairn.Metadata{"n": 1.5}, "fraction"}, {cairn.Metadata{"n": int64(-9007199254740991)}, "large"},
		{cairn.Metadata{"n": 1e-300}, "small"}, {cairn.Metadata{"n": true}, "true"}, {cairn.Metadata{"n": false}, "false"},
		{cairn.Metadata{"n": nil}, "null"}, {cairn.Metadata{"n": ""}, "empty"}, {cairn.Metadata{"n": "true"}, "word"}, {cairn.Metadata{"n": 0}, ""},
		{cairn.Metadata{"n": object("n", 1)}, "object"}, {cairn.Metadata{"n": object("n", "1")}, "inner text"}, {cairn.Metadata{"n": object("m", nil)}, ""},
		{cairn.Metadata{"n": `{"n":1}`}, "looks like an object"}, {cairn.Metadata{"m": nil}, ""}, {cairn.Metadata{"0": 1}, ""},
		{cairn.Metadata{"n": object("a", 1), "plan": "pro"}, "pair"}, {cairn.Metadata{"n": object("a", 2), "plan": "free"}, ""},
		{cairn.Metadata{"n": deepest}, "deepest"}, {cairn.Metadata{"n": "a\"<&>\u2028é\\"}, "odd"},
	} {
		var got []string
		for _, s := range h.list(driver.SessionQuery{Metadata: c.filter}) {
			got = append(got, s.ID)
		}
		if strings.Join(got, ", ") != c.want {
			h.Fatalf("metadata %v: sessions %q, want %q", c.filter, got, c.want)
		}
	}
	same(h.T, "a loaded document", h.load("pair").Metadata, cairn.Metadata{"n": map[string]any{"a": 1.0}, "plan": "pro"})
	same(h.T, "a loaded list", h.load("list").Metadata, cairn.Metadata{"n": []any{1.0}})
}

// listMetadataRefused gives filters that compare nothing.
func listMetadataRefused(h *harness) {
	h.create("session")
	deep := any(1)
	for range driver.MaxFilterDepth {
		deep = map[string]any{"n": deep}
	}
	for what, value := range map[string]any{
		"a list": []int{1}, "an empty object": map[string]any{}, "too deep": deep, "an inner list": map[string]any{"n": []string{}},
		"not UTF-8": "\xff", "a NUL": "\x00", "too large": strings.Repeat("x", cairn.MaxMetadataBytes), "not exact": int64(1 << 53), "no JSON": func() {},
	} {
		_, err := h.st.List(h.Context(), driver.SessionQuery{Metadata: cairn.Metadata{"n": value}})
		h.wantRefused(err, what)
		if e := cairn.AsError(err); e.Field != "metadata" {
			h.Fatalf("%s: the error names %q", what, e.Field)
		}
	}
}

func listFollowsWrites(h *harness) {
	user, tags := "new user", []string{"new"}
	h.create("session")
	h.commit("session", &driver.Commit{Status: cairn.SessionFailed,
		Context: &driver.ContextChange{UserID: &user, Tags: &tags, Metadata: cairn.Metadata{"k": "v"}}})
	found := driver.SessionQuery{UserID: user, Tags: tags, Metadata: cairn.Metadata{"k": "v"}, Statuses: []cairn.SessionStatus{cairn.SessionFailed}}
	same(h.T, "after a change", h.list(found), []*cairn.Session{h.load("session")})
	nobody, none := "", []string{}
	h.commit("session", &driver.Commit{Context: &driver.ContextChange{UserID: &nobody, Tags: &none, Metadata: cairn.Metadata{"k": ""}}})
	for name, q := range map[string]driver.SessionQuery{"user": {UserID: user}, "tag": {Tags: tags}, "metadata": {Metadata: cairn.Metadata{"k": "v"}},
		"empty metadata": {Metadata: cairn.Metadata{"k": ""}}} {
		if list := h.list(q); len(list) > 0 {
			h.Fatalf("by old %s: %+v", name, list)
		}
	}
	h.must(h.st.Delete(h.Context(), "session"))
	if list := h.list(driver.SessionQuery{}); len(list) > 0 {
		h.Fatalf("after deletion: %+v", list)
	}
}

func listPageSizes(h *harness) {
	for i := range 105 {
		h.create(fmt.Sprint("session-", i))
	}
	for limit, want := range map[int]int{0: 100, 100: 100, 104: 104, 105: 105, 1 << 30: 105} {
		page, err := h.st.List(h.Context(), driver.SessionQuery{Limit: limit})
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
	before := h.list(driver.SessionQuery{})
	var got []cairn.Session
	n := 0
	got = pages(h.T, "sessions", func(cursor string) (driver.Page[cairn.Session], error) {
		page, err := h.st.List(h.Context(), driver.SessionQuery{Cursor: cursor, Limit: 3})
		n++
		h.create(fmt.Sprint("new-", n))
		if n == 1 {
			h.must(h.st.Delete(h.Context(), page.Items[2].ID)) // the cursor's item
		}
		h.commit("session-00", &driver.Commit{Messages: says("change")})
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
		_, err := h.st.List(h.Context(), driver.SessionQuery{Cursor: cursor})
		h.wantError(err, cairn.ErrInvalid, fmt.Sprintf("cursor %q", cursor))
	}
}

func listCountTree(h *harness) {
	count := func(root string, want int) {
		h.Helper()
		n, err := driver.CountTree(h.Context(), h.st, root)
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
		_, err := driver.Create(h.Context(), h.st, s, nil)
		h.must(err)
	}
	count("root", 3)
	count("other", 1)
	count("child", 0)
	h.must(h.st.Delete(h.Context(), "grandchild"))
	count("root", 2)
}
