package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

var archiveTests = []storeTest{
	{name: "AndBack", run: archiveAndBack},
	{name: "MessagesOfTheUser", run: archiveMessages},
	{name: "Repeated", run: archiveRepeated},
	{name: "WhileRunning", run: archiveRunning},
	{name: "NewSession", run: archiveNew},
	{name: "EveryFilter", run: archiveFilters},
	{name: "PagingWhileWriting", run: archivePaging},
	{name: "CallsStayInTheInbox", run: archiveCalls},
	{name: "ExpiresAndIsRestored", run: archiveExpires, needs: func(o *Options) bool { return o.sweeps }},
	{name: "Copied", run: archiveCopied, needs: func(o *Options) bool { return o.imports }},
	{name: "SecondHandleSees", run: archiveSeen, needs: needsSecond},
}

// archive archives a session, or makes it current again.
func (h *harness) archive(id string, archived bool) *cairn.Session {
	h.Helper()
	return h.commit(id, &driver.Commit{Context: &driver.ContextChange{Archived: &archived}})
}

// archived reports whether a session is archived, and fails the test if the lists of its user do not agree.
func (h *harness) archived(id string) bool {
	h.Helper()
	s := h.load(id)
	is := !s.ArchivedAt.IsZero()
	for _, want := range []bool{false, true} {
		found := strings.Contains(h.find(driver.SessionQuery{UserID: s.UserID, Archived: &want}), id)
		if found != (want == is) {
			h.Fatalf("session %q was archived at %v; that it is listed with Archived %t is %t", id, s.ArchivedAt, want, found)
		}
	}
	return is
}

// owned makes a session of a user.
func (h *harness) owned(id, user string) *cairn.Session {
	h.Helper()
	tick()
	s, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: id, Agent: agentName, UserID: user}, nil)
	h.must(err)
	return s
}

func archiveAndBack(h *harness) {
	if s := h.owned("session", "user"); !s.ArchivedAt.IsZero() || h.archived("session") {
		h.Fatalf("a new session was archived at %v", s.ArchivedAt)
	}
	first := h.archive("session", true)
	if !first.ArchivedAt.Equal(first.UpdatedAt) {
		h.Fatalf("archived at %v by a commit at %v", first.ArchivedAt, first.UpdatedAt)
	}
	if again := h.archive("session", true); !again.ArchivedAt.Equal(first.ArchivedAt) {
		h.Fatalf("archived at %v, then again at %v", first.ArchivedAt, again.ArchivedAt)
	}
	title, user := "Title", "another user"
	s := h.commit("session", &driver.Commit{Context: &driver.ContextChange{Title: &title, UserID: &user}})
	if !s.ArchivedAt.Equal(first.ArchivedAt) || !h.archived("session") || s.Title != title {
		h.Fatalf("another change: %+v", s)
	}
	same(h.T, "the loaded row", h.load("session"), s)
	if list := h.find(driver.SessionQuery{UserID: "user"}); list != "" {
		h.Fatalf("the former user has %q", list)
	}
	if s = h.archive("session", false); !s.ArchivedAt.IsZero() || h.archived("session") {
		h.Fatalf("archived at %v after it was made current", s.ArchivedAt)
	}
	if s = h.archive("session", false); !s.ArchivedAt.IsZero() {
		h.Fatalf("archived at %v after it was made current twice", s.ArchivedAt)
	}
	if second := h.archive("session", true); !second.ArchivedAt.After(first.ArchivedAt) || !h.archived("session") {
		h.Fatalf("archived at %v, then anew at %v", first.ArchivedAt, second.ArchivedAt)
	}
}

// archiveMessages adds what is, and is not, a message of the user that arrives.
func archiveMessages(h *harness) {
	reply := cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("hello")}}
	companion := cairn.User(cairn.TextPart("report"))
	companion.Origin, companion.ChildID = cairn.OriginCompanion, "child"
	begin := beginCommit("run", "worker", time.Hour)
	queued := &driver.QueuedTurn{ID: "turn", Messages: says("later")}
	for _, c := range []struct {
		name    string
		before  *driver.Commit // in the current session
		commit  *driver.Commit
		current bool
	}{
		{"nothing", nil, &driver.Commit{}, false},
		{"a message", nil, &driver.Commit{Messages: says("hello")}, true},
		{"a file", nil, &driver.Commit{Messages: []cairn.Message{cairn.User(cairn.Part{Type: cairn.PartFile, File: &cairn.File{MediaType: "text/plain", Data: []byte("x")}})}}, true},
		{"a message after others", nil, &driver.Commit{Messages: append([]cairn.Message{cairn.Context("hidden"), reply}, says("hello")...)}, true},
		{"a turn", nil, begin, true},
		{"a turn that is queued", nil, &driver.Commit{Enqueue: queued}, true},
		{"context", nil, &driver.Commit{Messages: []cairn.Message{cairn.Context("hidden")}}, false},
		{"context that is queued", nil, &driver.Commit{Enqueue: &driver.QueuedTurn{ID: "added", Context: true, Messages: []cairn.Message{cairn.Context("hidden")}}}, false},
		{"a reply", nil, &driver.Commit{Messages: []cairn.Message{reply}}, false},
		{"a companion's result", nil, &driver.Commit{Messages: []cairn.Message{companion}}, false},
		{"a status", nil, &driver.Commit{Status: cairn.SessionFailed}, false},
		{"a call", nil, &driver.Commit{Calls: []driver.CallWrite{asks("call", "step")}}, false},
		{"a turn that was queued", &driver.Commit{Enqueue: queued}, &driver.Commit{Messages: says("later"), Dequeue: []string{"turn"}}, false},
		{"a turn that is queued already", &driver.Commit{Enqueue: queued}, &driver.Commit{Enqueue: queued}, false},
		{"a message that archives", nil, &driver.Commit{Messages: says("hello"), Context: &driver.ContextChange{Archived: new(true)}}, false},
	} {
		h.owned(c.name, "user")
		if c.before != nil {
			h.commit(c.name, c.before)
		}
		h.archive(c.name, true)
		s := h.commit(c.name, c.commit)
		if s.ArchivedAt.IsZero() != c.current || h.archived(c.name) == c.current {
			h.Errorf("after %s the session is archived since %v", c.name, s.ArchivedAt)
		}
	}
}

// archiveRepeated repeats the beginning of a turn after the session was archived: it was applied before.
func archiveRepeated(h *harness) {
	h.owned("session", "user")
	begin := beginCommit("run", "worker", time.Hour)
	h.commit("session", begin)
	want := h.archive("session", true)
	got := h.commit("session", begin)
	if got.Version != want.Version || !h.archived("session") {
		h.Fatalf("the beginning of a turn that is sent again makes %+v", got)
	}
}

// archiveRunning archives a session that a run holds. The run's steps leave it archived.
func archiveRunning(h *harness) {
	h.owned("session", "user")
	h.begin("session", "run")
	s := h.archive("session", true)
	if s.Status != cairn.SessionActive || !s.Running(s.AsOf) {
		h.Fatalf("the run does not hold the session any more: %+v", s)
	}
	s = h.step(s, "one")
	if h.end(h.step(s, "two")); !h.archived("session") {
		h.Fatal("the run made the session current")
	}
}

// archiveNew creates sessions: they are current, whatever the row says that they are made of.
func archiveNew(h *harness) {
	_, err := driver.Create(h.Context(), h.st, &cairn.Session{ID: "made", Agent: agentName, UserID: "user", ArchivedAt: time.Now()}, nil)
	h.must(err)
	h.archive("made", true)
	s := h.load("made")
	s.ID = "branch"
	_, err = h.st.Branch(h.Context(), "made", driver.BranchPoint{}, s)
	h.must(err)
	if h.archived("branch") || !h.archived("made") {
		h.Fatal("a branch of an archived session is archived, or the session is not")
	}
	h.commit("at once", &driver.Commit{Guard: driver.Guard{New: true}, Create: &cairn.Session{Agent: agentName, UserID: "user"},
		Context: &driver.ContextChange{Archived: new(true)}})
	if s := h.load("at once"); !h.archived("at once") || !s.ArchivedAt.Equal(s.CreatedAt) {
		h.Fatalf("created at %v, archived at %v", s.CreatedAt, s.ArchivedAt)
	}
}

func archiveFilters(h *harness) {
	rows := h.population()
	title := "Broken lamp"
	for i, row := range rows {
		if i%5 < 2 { // of the roots and of the others
			rows[i] = h.archive(row.ID, true)
		}
		if i%3 == 0 {
			rows[i] = h.commit(row.ID, &driver.Commit{Context: &driver.ContextChange{Title: &title}})
		}
		rows[i] = h.load(row.ID)
	}
	for name, q := range map[string]driver.SessionQuery{
		"all": {}, "user": {UserID: "user-1"}, "agent": {Agent: "sales"}, "status": {Statuses: []cairn.SessionStatus{cairn.SessionPaused}},
		"tag": {Tags: []string{"green"}}, "metadata": {Metadata: cairn.Metadata{"plan": "free"}}, "thread": {ThreadID: rows[0].ID},
		"parent": {ParentID: rows[2].ID}, "root": {RootID: rows[1].ID}, "roots": {RootsOnly: true}, "search": {Search: "lamp"},
		"created": {CreatedAfter: rows[6].CreatedAt, CreatedBefore: rows[18].CreatedAt}, "updated": {UpdatedAfter: rows[10].UpdatedAt},
		"roots of a user": {UserID: "user-0", RootsOnly: true}, "search of a user": {UserID: "user-0", Search: "lamp"},
		"user and agent": {UserID: "user-0", Agent: agentName}, "no such user": {UserID: "user"},
	} {
		for _, archived := range []bool{false, true} {
			q.Archived = &archived
			var want []*cairn.Session
			for _, s := range expected(rows, q) {
				if s.ParentID == "" && s.ArchivedAt.IsZero() != archived && (q.Search == "" || s.Title == title) {
					want = append(want, s)
				}
			}
			for _, limit := range []int{0, 1, 2} {
				q.Limit = limit
				same(h.T, fmt.Sprintf("%s, archived %t, in pages of %d", name, archived, limit), h.list(q), want)
			}
		}
	}
}

// archivePaging archives, between two pages of a user's current sessions, those of the first: all others are listed.
func archivePaging(h *harness) {
	for i := range 9 {
		h.owned(fmt.Sprint("session-", i), "user")
	}
	current := false
	var got []string
	for _, s := range pages(h.T, "sessions", func(cursor string) (driver.Page[cairn.Session], error) {
		page, err := h.st.List(h.Context(), driver.SessionQuery{UserID: "user", Archived: &current, Limit: 2, Cursor: cursor})
		for i := range page.Items {
			h.archive(page.Items[i].ID, true)
		}
		return page, err
	}) {
		got = append(got, s.ID)
	}
	if want := "session-8 session-7 session-6 session-5 session-4 session-3 session-2 session-1 session-0"; strings.Join(got, " ") != want {
		h.Fatalf("listed %q, want %q", got, want)
	}
	if list := h.find(driver.SessionQuery{UserID: "user", Archived: &current}); list != "" {
		h.Fatalf("%q is current", list)
	}
}

// archiveCalls keeps the open calls of an archived session in every list of calls, and the session due.
func archiveCalls(h *harness) {
	h.owned("session", "user")
	h.write("session", asks("call", "step", "ann"), asks("other", "step"))
	h.commit("session", &driver.Commit{Status: cairn.SessionPaused, Suspend: &driver.Suspend{StepID: "step"}})
	before, due := h.calls(driver.CallQuery{}), h.due(10)
	h.archive("session", true)
	open := []cairn.CallStatus{cairn.CallOpen}
	for name, q := range map[string]driver.CallQuery{
		"all": {}, "open": {Statuses: open}, "of the user": {UserID: "user", Statuses: open}, "of the session": {SessionID: "session"},
		"of the tree": {RootID: "session", Statuses: open}, "of the agent": {Agent: agentName, Statuses: open}, "of a reviewer": {Reviewer: "ann", Statuses: open},
	} {
		same(h.T, "the calls, "+name, h.calls(q), before)
	}
	h.write("session", answers(h.call("session", "call"), "ann"))
	if !h.archived("session") {
		h.Fatal("an answer made the session current")
	}
	if list := h.due(10); len(due) != 1 || len(list) != 1 || list[0].SessionID != "session" {
		h.Fatalf("due is %+v, and was %+v", list, due)
	}
}

// archiveExpires lets an archived session expire, and restores an archived one.
func archiveExpires(h *harness) {
	h.owned("session", "user")
	want := h.archive("session", true)
	past := time.Now().Add(-time.Hour)
	h.commit("session", &driver.Commit{Context: &driver.ContextChange{ExpiresAt: &past}})
	h.awaitGone("session")
	gone := []driver.Removal{driver.Deleted, driver.Expired}
	for archived, want := range map[bool]string{false: "", true: "session"} {
		if list := h.find(driver.SessionQuery{UserID: "user", Archived: &archived, Removed: gone}); list != want {
			h.Fatalf("removed sessions with Archived %t: %q, want %q", archived, list, want)
		}
		if list := h.find(driver.SessionQuery{UserID: "user", Archived: &archived}); list != "" {
			h.Fatalf("existing sessions with Archived %t: %q", archived, list)
		}
	}
	s, err := h.sweeper().Restore(h.Context(), "session")
	h.must(err)
	if !s.ArchivedAt.Equal(want.ArchivedAt) || !h.archived("session") {
		h.Fatalf("archived at %v, and at %v once it was restored", want.ArchivedAt, s.ArchivedAt)
	}
	h.archive("session", false)
	_, err = h.sweeper().Remove(h.Context(), "session", driver.Deleted)
	h.must(err)
	if list := h.find(driver.SessionQuery{UserID: "user", Archived: new(false), Removed: gone}); list != "session" {
		h.Fatalf("removed sessions that are current: %q", list)
	}
	_, err = h.sweeper().Restore(h.Context(), "session")
	h.must(err)
	if h.archived("session") {
		h.Fatal("restored as archived")
	}
}

func archiveCopied(h *harness) {
	to := h.other()
	h.owned("current", "user")
	h.owned("archived", "user")
	want := h.archive("archived", true)
	for _, id := range []string{"current", "archived"} {
		copied, err := store.Copy(h.Context(), h.importer(), to.importer(), id)
		if err != nil || !copied {
			h.Fatalf("copy of %s: %t, %v", id, copied, err)
		}
		if to.archived(id) != (id == "archived") {
			h.Fatalf("the copy of %s was archived at %v", id, to.load(id).ArchivedAt)
		}
	}
	if got := to.load("archived"); !got.ArchivedAt.Equal(want.ArchivedAt) {
		h.Fatalf("archived at %v, the copy at %v", want.ArchivedAt, got.ArchivedAt)
	}
	to.archive("archived", false)
	to.archive("current", true)
	if to.archived("archived") || !to.archived("current") {
		h.Fatal("the copies do not change")
	}
}

// archiveSeen archives through one handle what another one has in memory.
func archiveSeen(h *harness) {
	other := h.on(h.opts.Second(h.T, h.st))
	h.owned("session", "user")
	s := other.begin("session", "run")
	h.archive("session", true)
	if !other.archived("session") {
		h.Fatal("the other handle does not see it")
	}
	_, err := other.st.Commit(h.Context(), "session", other.stepCommit(s, "step"))
	h.wantError(err, cairn.ErrStale, "a step on the row before")
	s = other.end(other.step(other.load("session"), "step"))
	if s.ArchivedAt.IsZero() || !h.archived("session") {
		h.Fatal("the other handle's run made it current")
	}
	other.begin("session", "next run")
	if h.archived("session") {
		h.Fatal("a message through the other handle left it archived")
	}
}
