package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// find returns the ids of the sessions that a search selects, the newest first.
func (h *harness) find(q driver.SessionQuery) string {
	h.Helper()
	var ids []string
	for _, s := range h.list(q) {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, " ")
}

// listSearch finds sessions by the words of their titles and openings only.
func listSearch(h *harness) {
	title := func(id, text string) {
		h.commit(id, &driver.Commit{Context: &driver.ContextChange{Title: &text}})
	}
	for id, opening := range map[string]string{"a": "Where is my LAMP? It's order-42.", "b": "Ölwechsel für 'meinen' Wagen", "c": "退款在哪里", "d": "lamp & | ! <-> \\ % _ \"shade\""} {
		h.create(id)
		h.commit(id, &driver.Commit{Messages: append([]cairn.Message{cairn.Context("hidden")}, says(opening)...)})
		h.commit(id, &driver.Commit{Messages: says("later words")})
		if row := h.load(id); row.Opening != opening || row.OpeningAt != 1 {
			h.Fatalf("the opening of %s is %q, of message %d", id, row.Opening, row.OpeningAt)
		}
	}
	h.create("e")
	title("e", "Broken lamp")
	order := h.find(driver.SessionQuery{})
	among := func(ids string) string {
		var list []string
		for _, id := range strings.Fields(order) {
			if strings.Contains(ids, id) {
				list = append(list, id)
			}
		}
		return strings.Join(list, " ")
	}
	want := func(search, ids string) {
		h.Helper()
		if got := h.find(driver.SessionQuery{Search: search, Limit: 1}); got != among(ids) {
			h.Errorf("a search of %q finds %q, want %q", search, got, among(ids))
		}
	}
	for search, ids := range map[string]string{"": "abcde", " .,-'% ": "abcde", "lamp": "ade", "LaMp": "ade", "la": "ade", "amp": "", "lamps": "",
		"42": "a", "order 42": "a", "lamp broken": "e", "lamp shade": "d", "lamp nothing": "", "hidden": "", "later": "", "ÖLW": "b", "wagen meinen": "b",
		"olwechsel": "", "款退": "c", "哪": "c", "款国": "", "lamp' | 'x": ""} {
		want(search, ids)
	}
	title("e", "Wagen")
	want("lamp", "ad")
	want("wag", "be")
	none := ""
	h.commit("e", &driver.Commit{Context: &driver.ContextChange{Title: &none}})
	want("wag", "b")
}

// listOpening keeps the opening as long as the message exists, cut to its maximum length.
func listOpening(h *harness) {
	long := strings.Repeat("ä", cairn.MaxOpeningBytes)
	begin := beginCommit("run", "worker", time.Hour)
	begin.Guard, begin.Create = driver.Guard{New: true}, &cairn.Session{Agent: agentName}
	begin.Messages = says("x" + long)
	row := h.commit("session", begin)
	if n := len(row.Opening); n != cairn.MaxOpeningBytes-1 || !strings.HasPrefix("x"+long, row.Opening) {
		h.Fatalf("the opening of a long message has %d bytes: %q", n, row.Opening)
	}
	h.commit("session", &driver.Commit{RewindRun: "run", Status: cairn.SessionInterrupted})
	if row = h.load("session"); row.Opening != "" || row.OpeningAt != 0 {
		h.Fatalf("the opening stays after its message: %q", row.Opening)
	}
	if got := h.find(driver.SessionQuery{Search: "x"}); got != "" {
		h.Fatalf("the message that is gone is found in %s", got)
	}
	h.commit("session", &driver.Commit{Messages: says("another")})
	branch := func(id string, n int) string {
		to := &cairn.Session{ID: id, Agent: agentName, Title: "Title", Opening: "another"}
		_, err := h.st.Branch(h.Context(), "session", driver.BranchPoint{Messages: &n}, to)
		h.must(err)
		return h.load(id).Title + " " + h.load(id).Opening
	}
	if before, after := branch("before", 0), branch("after", 1); before != "Title " || after != "Title another" {
		h.Fatalf("a branch before the opening has %q, one after it %q", before, after)
	}
	if got := h.find(driver.SessionQuery{Search: "another"}); got != "after session" {
		h.Fatalf("the branch is found as %q", got)
	}
}

// listRemoved lists sessions that were removed and not yet purged, unchanged.
func listRemoved(h *harness) {
	rows := map[string]*cairn.Session{}
	for i, root := range []string{"live", "deleted", "expired", "restored", "purged"} {
		s := &cairn.Session{ID: root, Agent: agentName, UserID: fmt.Sprint("user-", i%2), ThreadID: "thread", Title: "About " + root, Tags: []string{"tag"}}
		if root == "expired" {
			s.TTL = cairn.Duration(time.Millisecond)
		}
		_, err := driver.Create(h.Context(), h.st, s, nil)
		h.must(err)
		if root != "expired" {
			h.tree(root+"-child", root)
		}
	}
	h.awaitGone("expired")
	for _, root := range []string{"deleted", "restored", "purged"} {
		rows[root], rows[root+"-child"] = h.load(root), h.load(root+"-child")
		removed, err := h.sweeper().Remove(h.Context(), root, driver.Deleted)
		h.must(err)
		switch root {
		case "restored":
			_, err = h.sweeper().Restore(h.Context(), root)
		case "purged":
			_, err = h.sweeper().Purge(h.Context(), removed.Key)
		}
		h.must(err)
	}
	both := []driver.Removal{driver.Deleted, driver.Expired}
	for name, c := range map[string]struct {
		q    driver.SessionQuery
		want string
	}{
		"those that are there": {driver.SessionQuery{}, "restored-child restored live-child live"},
		"deleted":              {driver.SessionQuery{Removed: both[:1]}, "deleted-child deleted"},
		"expired":              {driver.SessionQuery{Removed: both[1:]}, "expired"},
		"both":                 {driver.SessionQuery{Removed: both}, "expired deleted-child deleted"},
		"roots":                {driver.SessionQuery{Removed: both, RootsOnly: true}, "expired deleted"},
		"of a user":            {driver.SessionQuery{Removed: both, UserID: "user-0"}, "expired"},
		"by tag":               {driver.SessionQuery{Removed: both, Tags: []string{"tag"}}, "expired deleted"},
		"by search":            {driver.SessionQuery{Removed: both, Search: "about del"}, "deleted"},
		"of a tree":            {driver.SessionQuery{Removed: both, RootID: "deleted"}, "deleted-child deleted"},
		"of no removed tree":   {driver.SessionQuery{Removed: both, RootID: "restored"}, ""},
		"of a thread":          {driver.SessionQuery{Removed: both, ThreadID: "thread"}, "expired deleted"},
		"of a thread, deleted": {driver.SessionQuery{Removed: both[:1], ThreadID: "thread"}, "deleted"},
		"of no thread":         {driver.SessionQuery{Removed: both, ThreadID: "deleted"}, ""},
		"of no reason":         {driver.SessionQuery{Removed: []driver.Removal{"none"}}, ""},
	} {
		for _, limit := range []int{0, 1} {
			c.q.Limit = limit
			if got := h.find(c.q); got != c.want {
				h.Errorf("%s, in pages of %d: %q, want %q", name, limit, got, c.want)
			}
		}
	}
	for _, s := range h.list(driver.SessionQuery{Removed: both[:1]}) {
		if s.Removal != string(driver.Deleted) || time.Since(s.RemovedAt).Abs() > time.Hour {
			h.Errorf("%s was removed as %q at %s", s.ID, s.Removal, s.RemovedAt)
		}
		want := *rows[s.ID]
		want.Removal, want.RemovedAt, want.AsOf = s.Removal, s.RemovedAt, s.AsOf
		same(h.T, "the row of "+s.ID, s, want)
	}
}
