package aisdk

import (
	"strings"
	"testing"
)

// Wherever a client joins, it shows in the end what no discard has voided: neither more nor less. A client that cannot
// forget what was discarded is cut, and joins again.
func TestDiscardedSteps(t *testing.T) {
	t.Parallel()
	const looked = "\ntool_arg_start c1 look\ntool_arg_end c1 look {}\ntool_start c1 look {}\ntool_end c1 look {\"sea\":1}"
	for name, c := range map[string]struct{ log, want string }{
		"two open steps": {"step_start 1\ntext_delta Wrong." + looked + "\nstep_start 2\ntext_delta Worse.\nstep_discarded 1" +
			"\nstep_start 1\ntext_delta Right.\nstep_committed", "text:Right."},
		"two open steps without words": {"step_start 1\nstep_start 2\nstep_discarded 1\nstep_start 1\ntext_delta Right.\nstep_committed", "text:Right."},
		"two open steps, twice": {"step_start 1" + looked + "\nstep_start 2\nstep_discarded 1\nstep_start 1" + looked + "\nstep_start 2\ntext_delta Wrong.\nstep_discarded 1" +
			"\nstep_start 1\ntext_delta Right.\nstep_committed", "text:Right."},
		"the second of two open steps": {"step_start 1" + looked + "\nstep_start 2\ntext_delta Wrong.\nstep_discarded 2" +
			"\nstep_start 2\ntext_delta Right.\nstep_committed 1\nstep_committed 2", "look#c1 output {\"sea\":1}\ntext:Right."},
		"behind a committed step": {"step_start 1" + looked + "\nstep_committed\nstep_start 2\ntext_delta Wrong.\nstep_start 3\ntext_delta Worse.\nstep_discarded 2" +
			"\nstep_start 2\ntext_delta Right.\nstep_committed", "look#c1 output {\"sea\":1}\ntext:Right."},
		"no step": {"step_start 1" + looked + "\nstep_committed\nstep_discarded 2\nstep_start 2\ntext_delta Right.\nstep_committed",
			"look#c1 output {\"sea\":1}\ntext:Right."},
		"no step, at once":       {"step_discarded 1\nstep_start 1\ntext_delta Right.\nstep_committed", "text:Right."},
		"no step, at the end":    {"step_start 1\ntext_delta Right.\nstep_committed\nstep_discarded 2", "text:Right."},
		"of a sub-agent":         {"step_start 1\ntext_delta Right.\nchild step_start 1\nchild text_delta Wrong.\nchild step_discarded 1\nstep_committed 1", "text:Right."},
		"in the words of a step": {"step_start 1\ntext_delta Ri\nchild step_discarded 1\ntext_delta ght.\nstep_committed 1", "text:Right."},
	} {
		for _, v := range []Version{V5, V6, V7} {
			for _, sameRun := range []bool{false, true} { // ids of runs are unique in a session only
				events := logOf(t, "run_start r1\n"+c.log+"\nrun_end completed")
				for i := range events {
					if sameRun {
						events[i].RunID = "r1"
					}
				}
				for n := range len(events) + 1 {
					k, e := reducer(t), New(v, "s", TurnID("r1"))
					k.take(e.Replay(events[:n]))
					for i := n; i < len(events); i++ {
						if e.Taken(&events[i]) {
							k, e = reducer(t), New(v, "s", TurnID("r1"))
							k.take(e.Replay(events[:i+1]))
							continue
						}
						k.take(e.Event(&events[i]))
					}
					if k.String() != c.want || k.end != "[DONE]" {
						t.Errorf("%s: a client of version %d that joins after %d shows\n%s\nwant\n%s", name, v, n, strings.TrimSpace(k.String()), c.want)
					}
				}
			}
		}
	}
}

// The step that takes the place of one that showed nothing does not cut a client.
func TestDiscardOfNoStepCutsNobody(t *testing.T) {
	t.Parallel()
	for _, v := range []Version{V5, V6, V7} {
		e := New(v, "s", TurnID("r1"))
		for _, ev := range logOf(t, "run_start r1\nstep_start 1\ntext_delta One.\nstep_committed\nstep_discarded 2\nstep_start 2\ntext_delta Two.\nstep_committed\nrun_end completed") {
			if e.Taken(&ev) {
				t.Errorf("version %d is cut at %s", v, ev.Type)
			}
			e.Event(&ev)
		}
	}
}
