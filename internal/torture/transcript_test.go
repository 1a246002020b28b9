package torture

import (
	"testing"

	"github.com/cairn-agents/cairn"
)

// A run that resumes a step and waits again may have late answers and nothing else. Any other message without a reply
// stays a fault, and so does a late answer of a run that is not suspended.
func TestLateAnswersOfARunThatOnlyWaits(t *testing.T) {
	t.Parallel()
	late, joined := &cairn.Message{ID: "answer_1", Hidden: true}, &cairn.Message{ID: "companion_1", Hidden: true}
	for name, c := range map[string]struct {
		status  cairn.RunStatus
		resumes bool
		loose   []*cairn.Message
		sound   bool
	}{
		"waits again":         {cairn.RunSuspended, true, []*cairn.Message{late}, true},
		"another message":     {cairn.RunSuspended, true, []*cairn.Message{late, joined}, false},
		"resumes nothing":     {cairn.RunSuspended, false, []*cairn.Message{late}, false},
		"completed, no reply": {cairn.RunCompleted, true, []*cairn.Message{late}, false},
	} {
		run := turn{run: &cairn.Run{ID: "run", Kind: cairn.RunResume, Status: c.status}, resumes: c.resumes, loose: c.loose}
		if err := run.begins(); (err == nil) != c.sound {
			t.Errorf("%s: %v", name, err)
		}
	}
}
