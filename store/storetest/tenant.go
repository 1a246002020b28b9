package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// tenantTests are about sessions of tenants whose names are equal.
var tenantTests = []storeTest{
	{name: "ListsApart", run: tenantLists},
	{name: "InboxesApart", run: tenantInboxes},
	{name: "DueApart", run: tenantDue},
	{name: "OfWholeTree", run: tenantOfTree},
	{name: "Refused", run: tenantRefused},
	{name: "Removed", run: tenantRemoved, needs: func(o *Options) bool { return o.sweeps }},
	{name: "Imported", run: tenantImported, needs: func(o *Options) bool { return o.imports }},
	{name: "RecordsApart", run: tenantRecords, needs: func(o *Options) bool { return o.records }},
}

// tenants are the tenants of these tests. The last one is none.
var tenants = []string{"acme", "acme.eu", ""}

// tenantSessions makes the same sessions in each tenant: two roots of alice in one thread and a child of the second one.
func (h *harness) tenantSessions() {
	h.Helper()
	for _, name := range []string{"order-42", "order-43", "child"} {
		for _, tenant := range tenants {
			s := &cairn.Session{ID: cairn.InTenant(tenant, name), Agent: agentName, UserID: cairn.InTenant(tenant, "alice")}
			switch name {
			case "order-43":
				s.ThreadID = cairn.InTenant(tenant, "order-42")
			case "child":
				s.ParentID, s.RootID = cairn.InTenant(tenant, "order-43"), cairn.InTenant(tenant, "order-43")
			}
			tick()
			_, err := driver.Create(h.Context(), h.st, s, nil)
			h.must(err)
			h.commit(s.ID, &driver.Commit{Messages: says("the lamp of " + name)})
		}
	}
}

// inTenant returns names in a tenant, separated by spaces.
func inTenant(tenant, names string) string {
	list := strings.Fields(names)
	for i := range list {
		list[i] = cairn.InTenant(tenant, list[i])
	}
	return strings.Join(list, " ")
}

func tenantLists(h *harness) {
	h.tenantSessions()
	for _, tenant := range tenants {
		for what, test := range map[string]struct {
			q    driver.SessionQuery
			want string
		}{
			"tenant":            {driver.SessionQuery{Tenant: &tenant}, "child order-43 order-42"},
			"roots of a tenant": {driver.SessionQuery{Tenant: &tenant, RootsOnly: true, Archived: new(false)}, "order-43 order-42"},
			"user":              {driver.SessionQuery{UserID: cairn.InTenant(tenant, "alice")}, "child order-43 order-42"},
			"user of a tenant":  {driver.SessionQuery{Tenant: &tenant, UserID: cairn.InTenant(tenant, "alice"), Archived: new(false)}, "order-43 order-42"},
			"agent of a tenant": {driver.SessionQuery{Tenant: &tenant, Agent: agentName, RootsOnly: true}, "order-43 order-42"},
			"thread":            {driver.SessionQuery{ThreadID: cairn.InTenant(tenant, "order-42")}, "order-43 order-42"},
			"thread, tenant":    {driver.SessionQuery{Tenant: &tenant, ThreadID: cairn.InTenant(tenant, "order-42")}, "order-43 order-42"},
			"parent":            {driver.SessionQuery{Tenant: &tenant, ParentID: cairn.InTenant(tenant, "order-43")}, "child"},
			"root":              {driver.SessionQuery{Tenant: &tenant, RootID: cairn.InTenant(tenant, "order-43")}, "child order-43"},
			"search":            {driver.SessionQuery{Tenant: &tenant, Search: "lamp", RootsOnly: true}, "order-43 order-42"},
			"status":            {driver.SessionQuery{Tenant: &tenant, Statuses: []cairn.SessionStatus{cairn.SessionFailed}}, ""},
		} {
			for _, limit := range []int{0, 1, 2} {
				test.q.Limit = limit
				if got, want := h.find(test.q), inTenant(tenant, test.want); got != want {
					h.Errorf("%s of %q, in pages of %d: %q, want %q", what, tenant, limit, got, want)
				}
			}
		}
	}
	for what, q := range map[string]driver.SessionQuery{
		"a user of another tenant":  {Tenant: new("acme"), UserID: "acme.eu::alice"},
		"a user of no tenant":       {Tenant: new("acme"), UserID: "alice"},
		"a tenant's user of none":   {Tenant: new(""), UserID: "acme::alice"},
		"a tenant without sessions": {Tenant: new("acm")},
	} {
		if got := h.find(q); got != "" {
			h.Errorf("%s: %q", what, got)
		}
	}
	if n := len(h.list(driver.SessionQuery{})); n != 9 {
		h.Errorf("%d sessions of all tenants", n)
	}
}

func tenantInboxes(h *harness) {
	h.tenantSessions()
	open := []cairn.CallStatus{cairn.CallOpen}
	for i, name := range []string{"order-42", "child"} {
		for _, tenant := range tenants {
			ann := cairn.InTenant(tenant, "ann")
			h.write(cairn.InTenant(tenant, name), asks(fmt.Sprint("free-", i), "step"), asks(fmt.Sprint("assigned-", i), "step", ann))
		}
	}
	for _, tenant := range tenants {
		claimed := *h.call(cairn.InTenant(tenant, "order-43"), "free-1")
		claimed.ClaimedBy, claimed.ClaimedUntil = cairn.InTenant(tenant, "ann"), at(0).AddDate(1000, 0, 0)
		h.write(claimed.SessionID, driver.CallWrite{Call: claimed, Seen: claimed.Version})
	}
	for _, tenant := range tenants {
		ann := cairn.InTenant(tenant, "ann")
		for what, test := range map[string]struct {
			q    driver.CallQuery
			want string
		}{
			"tenant":           {driver.CallQuery{Tenant: &tenant}, "assigned-0 free-0 assigned-1 free-1"},
			"open":             {driver.CallQuery{Tenant: &tenant, Statuses: open}, "assigned-0 free-0 assigned-1 free-1"},
			"reviewer":         {driver.CallQuery{Tenant: &tenant, Statuses: open, Reviewer: ann}, "assigned-0 free-0 assigned-1 free-1"},
			"another reviewer": {driver.CallQuery{Tenant: &tenant, Statuses: open, Reviewer: ann + "e"}, "free-0 free-1"},
			"any status":       {driver.CallQuery{Tenant: &tenant, Reviewer: ann}, "assigned-0 free-0 assigned-1 free-1"},
			"user":             {driver.CallQuery{Tenant: &tenant, Statuses: open, UserID: cairn.InTenant(tenant, "alice")}, "assigned-0 free-0 assigned-1 free-1"},
			"agent":            {driver.CallQuery{Tenant: &tenant, Statuses: open, Agent: agentName, Tool: "refund"}, "assigned-0 free-0 assigned-1 free-1"},
			"claimed":          {driver.CallQuery{Tenant: &tenant, Claimed: ann}, "free-1"},
			"claimed by all":   {driver.CallQuery{Claimed: ann}, "free-1"},
			"root":             {driver.CallQuery{Tenant: &tenant, RootID: cairn.InTenant(tenant, "order-42")}, "assigned-0 free-0"},
			"other root":       {driver.CallQuery{Tenant: new("acm"), RootID: cairn.InTenant(tenant, "order-42")}, ""},
		} {
			for _, limit := range []int{0, 1, 3} {
				test.q.Limit = limit
				calls := h.calls(test.q)
				if got := callIDs(calls); got != test.want {
					h.Errorf("%s of %q, in pages of %d: %q, want %q", what, tenant, limit, got, test.want)
				}
				for i := range calls {
					if of, _ := cairn.SplitTenant(calls[i].RootID); of != tenant || calls[i].Tenant != tenant {
						h.Errorf("%s of %q: call of root %q and tenant %q", what, tenant, calls[i].RootID, calls[i].Tenant)
					}
				}
			}
		}
	}
}

func tenantDue(h *harness) {
	for _, tenant := range tenants {
		h.waiting(cairn.InTenant(tenant, "order-42"), agentName, "", driver.DueQueued)
	}
	if got := dueIDs(h.dueOf(1)); got != "acme::order-42 acme.eu::order-42 order-42" {
		h.Errorf("due: %q", got)
	}
}

// tenantOfTree finds the tenant in each row of a tree, however it was written.
func tenantOfTree(h *harness) {
	h.tenantSessions()
	want := func(what string, s *cairn.Session, tenant string) {
		h.Helper()
		if s.Tenant != tenant {
			h.Errorf("%s: tenant %q of session %q", what, s.Tenant, s.ID)
		}
	}
	for _, tenant := range tenants {
		for _, name := range []string{"order-42", "child"} {
			id := cairn.InTenant(tenant, name)
			want("read", h.load(id), tenant)
			begun := h.begin(id, "run")
			want("commit", begun, tenant)
			want("end", h.end(begun), tenant)
		}
		branch, err := h.st.Branch(h.Context(), cairn.InTenant(tenant, "order-42"), driver.BranchPoint{},
			&cairn.Session{ID: cairn.InTenant(tenant, "branch"), Agent: agentName})
		h.must(err)
		want("branch", branch, tenant)
		for _, s := range h.list(driver.SessionQuery{Tenant: &tenant}) {
			want("list", &s, tenant)
		}
		h.commit(cairn.InTenant(tenant, "order-42"), &driver.Commit{Calls: []driver.CallWrite{asks("call", "step")}})
		if c := h.call(cairn.InTenant(tenant, "order-42"), "call"); c.Tenant != tenant {
			h.Errorf("tenant %q of a call of %q", c.Tenant, c.RootID)
		}
	}
}

// tenantRefused creates no session whose ids are of different tenants, or of none that can be.
func tenantRefused(h *harness) {
	for _, test := range []struct {
		session cairn.Session
		field   string
	}{
		{cairn.Session{ID: "::order"}, "session"},
		{cairn.Session{ID: "acme::"}, "session"},
		{cairn.Session{ID: "acme::order::42"}, "session"},
		{cairn.Session{ID: "-acme::order"}, "session"},
		{cairn.Session{ID: "ac me::order"}, "session"},
		{cairn.Session{ID: "acme::order", UserID: "alice"}, "user_id"},
		{cairn.Session{ID: "acme::order", UserID: "other::alice"}, "user_id"},
		{cairn.Session{ID: "order", UserID: "acme::alice"}, "user_id"},
		{cairn.Session{ID: "acme::order", UserID: "acme::alice::b"}, "user_id"},
		{cairn.Session{ID: "acme::order", ThreadID: "other::thread"}, "thread_id"},
		{cairn.Session{ID: "acme::order", ThreadID: "thread"}, "thread_id"},
		{cairn.Session{ID: "acme::order", ParentID: "other::root", RootID: "other::root"}, "parent_id"},
		{cairn.Session{ID: "order", ParentID: "root", RootID: "acme::root"}, "root_id"},
	} {
		test.session.Agent = agentName
		_, err := driver.Create(h.Context(), h.st, &test.session, nil)
		var e *cairn.Error
		if !errors.Is(err, cairn.ErrInvalid) || !errors.As(err, &e) || e.Field != test.field {
			h.Errorf("session %q of %q in %q: %v, want an error about %s", test.session.ID, test.session.UserID, test.session.ThreadID, err, test.field)
		}
	}
	_, err := h.st.Commit(h.Context(), "acme::order", &driver.Commit{Create: &cairn.Session{Agent: agentName, UserID: "other::alice"}})
	h.wantError(err, cairn.ErrInvalid, "a session of another tenant's user")
	if list := h.list(driver.SessionQuery{}); len(list) > 0 {
		h.Errorf("created: %+v", list)
	}
	h.create("acme::order")
	for _, user := range []string{"alice", "other::alice", "acme::"} {
		_, err := h.st.Commit(h.Context(), "acme::order", &driver.Commit{Context: &driver.ContextChange{UserID: &user}})
		h.wantError(err, cairn.ErrInvalid, "the user "+user)
	}
	if row := h.load("acme::order"); row.UserID != "" {
		h.Errorf("the session has the user %q", row.UserID)
	}
	_, err = h.st.List(h.Context(), driver.SessionQuery{Tenant: new("a::b")})
	h.wantError(err, cairn.ErrInvalid, "a list of an impossible tenant")
	_, err = h.st.Calls(h.Context(), driver.CallQuery{Tenant: new("*")})
	h.wantError(err, cairn.ErrInvalid, "calls of an impossible tenant")
}

// tenantRemoved removes the session of one tenant.
func tenantRemoved(h *harness) {
	h.tenantSessions()
	h.remove("acme::order-43")
	gone := []driver.Removal{driver.Deleted, driver.Expired}
	for _, tenant := range tenants {
		want, removed := inTenant(tenant, "child order-43 order-42"), ""
		if tenant == "acme" {
			want, removed = "acme::order-42", "acme::child acme::order-43"
		}
		if got := h.find(driver.SessionQuery{Tenant: &tenant}); got != want {
			h.Errorf("sessions of %q: %q, want %q", tenant, got, want)
		}
		if got := h.find(driver.SessionQuery{Tenant: &tenant, Removed: gone}); got != removed {
			h.Errorf("removed sessions of %q: %q, want %q", tenant, got, removed)
		}
		if got := h.find(driver.SessionQuery{UserID: cairn.InTenant(tenant, "alice"), Removed: gone}); got != removed {
			h.Errorf("removed sessions of the user of %q: %q, want %q", tenant, got, removed)
		}
	}
	if row := h.restore("acme::order-43"); row.Tenant != "acme" {
		h.Errorf("restored: %+v", row)
	}
	if got := h.find(driver.SessionQuery{Tenant: new("acme")}); got != "acme::child acme::order-43 acme::order-42" {
		h.Errorf("sessions after a restore: %q", got)
	}
}

// tenantImported imports trees whose rows name another tenant than their ids.
func tenantImported(h *harness) {
	h.tenantSessions()
	for _, tenant := range tenants {
		h.write(cairn.InTenant(tenant, "order-42"), asks("call", "step", cairn.InTenant(tenant, "ann")))
	}
	to := h.other()
	for _, tenant := range tenants {
		root := cairn.InTenant(tenant, "order-42")
		parts := h.parts(root)
		for _, p := range parts {
			if p.Session != nil {
				p.Session.Row.Tenant = "forged"
			}
			for i := range p.Calls {
				p.Calls[i].Tenant = "forged"
			}
		}
		h.must(to.importer().Import(h.Context(), root, func(yield func(*driver.Part, error) bool) {
			for _, p := range parts {
				if !yield(p, nil) {
					return
				}
			}
		}))
		same(h.T, "imported row", to.load(root), h.load(root))
		same(h.T, "imported call", to.call(root, "call"), h.call(root, "call"))
		if got := to.find(driver.SessionQuery{Tenant: &tenant}); got != root {
			h.Errorf("imported sessions of %q: %q", tenant, got)
		}
		if got := callIDs(to.calls(driver.CallQuery{Tenant: &tenant, Reviewer: cairn.InTenant(tenant, "ann"), Statuses: []cairn.CallStatus{cairn.CallOpen}})); got != "call" {
			h.Errorf("imported calls of %q: %q", tenant, got)
		}
	}
}

// tenantRecords finds the records of one tenant's user.
func tenantRecords(h *harness) {
	for _, tenant := range tenants {
		h.putRecord(driver.RecordWrite{Namespace: driver.UserRecords, Key: "key of " + tenant + ".", Index: driver.UserIndex(cairn.InTenant(tenant, "alice")), Value: []byte("1")})
	}
	for _, tenant := range tenants {
		var keys []string
		for rec, err := range driver.RecordsOf(h.Context(), h.records(), cairn.InTenant(tenant, "alice")) {
			h.must(err)
			keys = append(keys, rec.Key)
		}
		if want := []string{"key of " + tenant + "."}; !slices.Equal(keys, want) {
			h.Errorf("records of the user of %q: %q", tenant, keys)
		}
	}
}
