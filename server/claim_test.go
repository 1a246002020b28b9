package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

// A claim lasts 15 minutes, or as long as the request says, which is at most a day.
func TestClaimsAreBounded(t *testing.T) {
	for seconds, status := range map[int64]int{0: 200, 1: 200, 86400: 200, 86401: 400, -1: 400, 1 << 40: 400, 18446744074: 400} {
		w := newWorld(t, nil)
		call := w.ask("pay")[0]
		res, data := w.do("r", "POST", "/inbox/s/"+call.ID+"/claim", fmt.Sprintf(`{"seconds": %d}`, seconds))
		if res.StatusCode != status {
			t.Errorf("%d seconds: %d %s", seconds, res.StatusCode, data)
		}
		got := want[cairn.PendingCall](w, 200, "r", "GET", "/inbox/s/"+call.ID, nil)
		lasts := cairn.DefaultClaim
		if seconds > 0 {
			lasts = time.Duration(seconds) * time.Second
		}
		if status == 200 && got.ClaimedUntil.Sub(got.UpdatedAt).Round(time.Second) != lasts || status != 200 && got.ClaimedBy != "" {
			t.Errorf("%d seconds: claimed by %q from %s until %s", seconds, got.ClaimedBy, got.UpdatedAt, got.ClaimedUntil)
		}
	}
}

// An administrator takes or releases a call that another reviewer has claimed, and decides it. Other reviewers cannot.
func TestAdministratorOverridesClaim(t *testing.T) {
	for name, act := range map[string]struct {
		path   string
		holder string
		trail  []cairn.DecisionKind
	}{
		"claims":   {"/claim", "xena", []cairn.DecisionKind{cairn.DecisionClaimed, cairn.DecisionReleased, cairn.DecisionClaimed}},
		"releases": {"/release", "", []cairn.DecisionKind{cairn.DecisionClaimed, cairn.DecisionReleased}},
		"decides":  {"", "", []cairn.DecisionKind{cairn.DecisionClaimed, cairn.DecisionReleased, cairn.DecisionApproved}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			call := w.ask("pay")[0]
			path, body := "/inbox/s/"+call.ID+act.path, map[string]any{}
			if act.path == "" {
				path, body = "/submit-tool-result", map[string]any{"session_id": "s", "type": "approval-response", "call_id": call.ID,
					"approval_id": call.ApprovalID, "approved": true}
			}
			want[cairn.PendingCall](w, 200, "r", "POST", "/inbox/s/"+call.ID+"/claim", nil)
			if p := want[problemBody](w, 409, "a", "POST", path, body); p.Code != string(cairn.ErrClaimed) {
				t.Errorf("another reviewer: %+v", p)
			}
			want[struct{}](w, 200, "x", "POST", path, body)
			got := want[cairn.PendingCall](w, 200, "x", "GET", "/inbox/s/"+call.ID, nil)
			if got.ClaimedBy != act.holder || len(got.Trail) != len(act.trail) {
				t.Fatalf("claimed by %q, trail %+v", got.ClaimedBy, got.Trail)
			}
			for i, kind := range act.trail {
				if got.Trail[i].Kind != kind || i > 0 && got.Trail[i].Reviewer != "xena" {
					t.Errorf("entry %d of the trail is %+v, want %s by xena", i, got.Trail[i], kind)
				}
			}
			if got.Trail[1].Notes != "claim of rita" {
				t.Errorf("the trail does not name whose claim ended: %+v", got.Trail[1])
			}
		})
	}
}
