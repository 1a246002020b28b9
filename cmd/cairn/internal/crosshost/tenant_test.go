package crosshost_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/store/driver"
)

// Sessions of two tenants and of none, with the same name and the same calls, hop hosts in one store at the same time.
// Each is left as if it had been alone and had stayed in one process, and lists of a tenant have its sessions only.
func TestSessionsOfTenantsHopHosts(t *testing.T) {
	t.Parallel()
	all, place := hosts(t), files(t)
	parts := []resident{{"acme", cairn.Approve}, {"globex", rejects}, {"", cairn.Approve}}
	want := map[string]string{}
	for _, r := range parts {
		want[r.tenant] = inhabit(t, place, []hosttest.Host{all[0], all[0]}, []resident{{"", r.how}})[""]
	}
	if want["acme"] == want["globex"] {
		t.Fatal("the residents leave the same")
	}
	for i, from := range all {
		to := all[(i+1)%len(all)]
		t.Run(fmt.Sprintf("%s-%s", from.Name, to.Name), func(t *testing.T) {
			t.Parallel()
			for tenant, got := range inhabit(t, place, []hosttest.Host{from, to}, parts) {
				if got != want[tenant] {
					t.Errorf("tenant %q left behind:\n%s\none that stayed in one process:\n%s", tenant, got, want[tenant])
				}
			}
		})
	}
}

// resident is a tenant whose session "s" plays the conversation of delegator, with its way to answer.
type resident struct {
	tenant string
	how    func(cairn.CallRef) cairn.Submission
}

func rejects(ref cairn.CallRef) cairn.Submission {
	answer := cairn.Approve(ref)
	answer.Approved = false
	return answer
}

// inhabit begins the sessions of all residents on the first host, and resumes them on the second one. It returns their
// contents at the end, by tenant.
func inhabit(t *testing.T, place hosttest.Store, way []hosttest.Host, residents []resident) map[string]string {
	t.Helper()
	st := place.Open(t, nil)
	for n, h := range way {
		eng := h.Start(t, place.Another(t, st), []*cairn.Agent{delegator()}, &engine.Options{Coalesce: -1})
		runs := map[string]*engine.Run{}
		for _, r := range residents { // all at once
			id := cairn.InTenant(r.tenant, "s")
			var err error
			if n == 0 {
				runs[id], err = eng.Execute(t.Context(), id, "bot", cairn.Text("go"))
			} else {
				runs[id], err = eng.Resume(t.Context(), id)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for id, run := range runs {
			if res := outcome(t, run, nil); n == 0 && res.Status != cairn.RunSuspended || n > 0 && res.Status != cairn.RunCompleted {
				t.Fatalf("session %s, part %d, on %s, came to %+v", id, n+1, h.Name, res)
			}
		}
		for _, r := range residents {
			if n == 0 {
				decide(t, place.Another(t, st), cairn.InTenant(r.tenant, "s"), r.how)
			}
		}
		if err := eng.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	left := map[string]string{}
	log := st.(driver.LogProvider).EventLog()
	for _, r := range residents {
		id := cairn.InTenant(r.tenant, "s")
		problems, err := hosttest.Unsound(t.Context(), st, log, id)
		if err != nil || len(problems) > 0 {
			t.Errorf("session %s is unsound: %q, %v", id, problems, err)
		}
		text, err := hosttest.Describe(t.Context(), st, log, id)
		if err != nil {
			t.Fatal(err)
		}
		if r.tenant != "" {
			text = strings.ReplaceAll(text, r.tenant+"::", "")
			page, err := st.List(t.Context(), driver.SessionQuery{Tenant: &r.tenant})
			if err != nil || len(page.Items) != 2 {
				t.Errorf("tenant %s has %d sessions, want the root and the helper's; %v", r.tenant, len(page.Items), err)
			}
		}
		left[r.tenant] = text
	}
	return left
}
