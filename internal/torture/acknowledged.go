package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// nothingLost finds what the store acknowledged but no longer has.
func nothingLost(h *History) error {
	counts := map[string]int{} // messages at a step's checkpoint
	for i := range h.Checkpoints {
		counts[h.Checkpoints[i].StepID] = h.Checkpoints[i].MessageCount
	}
	runs := map[string]cairn.RunStatus{}
	for i := range h.Runs {
		runs[h.Runs[i].ID] = h.Runs[i].Status
	}
	replies := map[string]bool{}
	for i := range h.Messages {
		replies[digestOf(&h.Messages[i])] = true
	}
	undone := h.undone()
	latest := map[string]record{} // by run: a suspended run may end once more
	for _, r := range h.Journal {
		if r.Kind == committed && r.Ended != "" && r.Version > latest[r.Ended].Version {
			latest[r.Ended] = r
		}
	}
	for _, r := range h.Journal {
		if r.Kind != committed {
			continue
		}
		if r.Version > h.Session.Version {
			return fmt.Errorf("version %d was committed, the session is at %d", r.Version, h.Session.Version)
		}
		if undone[r.run()] {
			continue
		}
		// A rewind also removes a checkpoint that was made by hand after the end of the run that it undoes.
		if _, ok := counts[r.Step]; !ok && r.run() == "" && len(undone) > 0 {
			continue
		}
		if n, ok := counts[r.Step]; r.Step != "" && (!ok || n != r.Messages) {
			return fmt.Errorf("step %s was committed with %d messages; its checkpoint: %t, %d messages", r.Step, r.Messages, ok, n)
		}
		if r.Messages > h.Session.MessageCount && h.Session.Epoch == 0 {
			return fmt.Errorf("version %d with %d messages was committed, the session is at %d with %d",
				r.Version, r.Messages, h.Session.Version, h.Session.MessageCount)
		}
		if _, ok := runs[r.Began]; r.Began != "" && !ok {
			return fmt.Errorf("run %s was begun and does not exist", r.Began)
		}
		if status, end := runs[r.Ended], latest[r.Ended]; r.Ended != "" && string(status) != end.Status && !endedAgain(end.Status, status) {
			return fmt.Errorf("run %s ended %s and is %q", r.Ended, end.Status, status)
		}
		for _, d := range r.Digests {
			if !replies[d] {
				return fmt.Errorf("reply %s was committed and is not in the transcript", d)
			}
		}
	}
	return nil
}

// endedAgain reports whether a run that the journal has as suspended may have been stopped by a process that died
// before it could record the stop.
func endedAgain(seen string, is cairn.RunStatus) bool {
	return cairn.RunStatus(seen) == cairn.RunSuspended && (is == cairn.RunInterrupted || is == cairn.RunFailed)
}

// oneWriter finds commits that must not both have succeeded: two that wrote the same version, or one under an old
// lease after the next lease was taken. If a host makes two attempts at one step, both succeed, since a commit is
// idempotent: the store answered one of them with what the other had written.
func oneWriter(t *Tree) error {
	return each(func(h *History) error { return h.oneWriter(t.Hosted) })(t)
}

func (h *History) oneWriter(hosted bool) error {
	var commits []record
	for _, r := range h.Journal {
		if r.Kind != committed {
			continue
		}
		again := slices.IndexFunc(commits, func(c record) bool {
			return r.Step != "" && c.Step == r.Step && c.Token == r.Token && (hosted || c.Process != r.Process)
		})
		if again >= 0 {
			commits[again].Version = min(commits[again].Version, r.Version)
			continue
		}
		commits = append(commits, r)
	}
	slices.SortStableFunc(commits, func(a, b record) int { return cmp.Compare(a.Version, b.Version) })
	for i := 1; i < len(commits); i++ {
		a, b := commits[i-1], commits[i]
		switch {
		case a.Version == b.Version:
			return fmt.Errorf("processes %s and %s both wrote version %d: %+v; %+v", a.Process, b.Process, a.Version, a, b)
		case b.Token < a.Token || b.Took && b.Token == a.Token || !b.Took && b.Token != a.Token && b.Saw == a.Version:
			return fmt.Errorf("version %d was written under lease %d, version %d under lease %d", a.Version, a.Token, b.Version, b.Token)
		}
	}
	return nil
}

// nothingCommittedAgain finds model calls for replies, and tools started for calls, that were already committed.
func nothingCommittedAgain(h *History) error {
	done := map[string]record{} // by digest or call
	leases, undone := leases{}, h.undone()
	gone := map[string]bool{} // the runs undone so far
	for _, r := range h.Journal {
		leases.note(r)
		switch r.Kind {
		case committed:
			if gone[r.run()] { // its process slept before it recorded the commit
				continue
			}
			for _, name := range slices.Concat(r.Digests, r.Results) {
				done[name] = r
			}
		case undoing:
			gone[r.Undone] = undone[r.Undone]
			maps.DeleteFunc(done, func(_ string, before record) bool { return undone[r.Undone] && before.run() == r.Undone })
		case modelCalled, toolStarted:
			name := r.Call
			if r.Kind == modelCalled {
				name = r.Digests[0]
			}
			if before, ok := done[name]; ok && !leases.late(r, before) {
				return fmt.Errorf("process %s: %s for %s, which process %s had committed", r.Process, r.Kind, name, before.Process)
			}
		}
	}
	return nil
}

// stagedFirst finds replies and results, in PerTool sessions, that the process that produced them committed without
// staging them. Nothing of a stopped run is staged.
func stagedFirst(h *History) error {
	if !strings.HasPrefix(h.Session.Agent, "per-tool") {
		return nil
	}
	got := map[string]map[string]bool{} // by process: what it produced under its lease
	kept := map[string]bool{}
	for _, r := range h.Journal {
		if r.Took || got[r.Process] == nil {
			got[r.Process] = map[string]bool{}
		}
		switch r.Kind {
		case modelCalled:
			got[r.Process][r.Digests[0]] = true
		case toolEnded:
			got[r.Process][r.Call] = true
		case staged:
			for _, name := range append(r.Digests, r.Call) {
				kept[name] = true
			}
		case committed:
			if r.Status == string(cairn.RunInterrupted) || r.Status == string(cairn.RunFailed) {
				continue
			}
			for _, name := range slices.Concat(r.Digests, r.Results) {
				if got[r.Process][name] && !kept[name] {
					return fmt.Errorf("process %s committed %s without having staged it", r.Process, name)
				}
			}
		}
	}
	return nil
}

// nothingStagedAgain finds model calls for replies that were already staged, and tools started for calls whose
// result was, unless the staged pieces have been dropped. An effect that a host began twice may have read the stage
// before that.
func nothingStagedAgain(h *History) error {
	replies, results := map[string]record{}, map[string]record{}
	keys := map[string]string{} // by call
	leases, readings := leases{}, readings{}
	undone := h.undone()
	floor := int64(0) // pieces with lower tokens have been dropped
	dropped := func(_ string, r record) bool { return r.Token < floor }
	for _, r := range h.Journal {
		leases.note(r)
		readings.note(r)
		switch r.Kind {
		case committed:
			if r.Took && r.Dropped {
				floor = max(floor, r.Token)
				maps.DeleteFunc(replies, dropped)
				maps.DeleteFunc(results, dropped)
			}
		case undoing:
			if undone[r.Undone] { // with it, all that was staged
				clear(replies)
				clear(results)
				clear(keys)
			}
		case staged:
			if r.Token < floor {
				continue
			}
			for _, d := range r.Digests {
				if h.everyStep() { // otherwise earlier steps may have to be repeated
					replies[d] = r
				}
			}
			if r.Call != "" {
				results[r.Call] = r
			}
		case modelCalled:
			if before, ok := replies[r.Digests[0]]; ok && !leases.late(r, before) && !readings.before(r, before) {
				return fmt.Errorf("process %s called the model for reply %s, which process %s had staged", r.Process, r.Digests[0], before.Process)
			}
		case toolStarted:
			if key, ok := keys[r.Call]; ok && key != r.Key {
				return fmt.Errorf("call %s was started with the keys %s and %s", r.Call, key, r.Key)
			}
			keys[r.Call] = r.Key
			if before, ok := results[r.Call]; ok && !leases.late(r, before) && !readings.before(r, before) {
				return fmt.Errorf("process %s started call %s, whose result process %s had staged", r.Process, r.Call, before.Process)
			}
		}
	}
	return nil
}

// leases holds, by process, the token of the lease under which it began the last run that it may still drive. A
// process that takes over or stops a dead run may have driven that run itself without noticing yet that it lost the
// lease. A process that resumes a run on behalf of a host takes no lease.
type leases map[string]int64

func (l leases) note(r record) {
	took := r.Kind == committed && r.Took
	if (took || r.Kind == working) && l[r.Process] == 0 || took && r.Began != "" && r.Ended == "" {
		l[r.Process] = r.Token
	}
}

// late reports whether an act of a process is no fault although another was acknowledged before it: the process
// drives the session under an older lease and has not noticed yet that it lost that lease. Its act has no effect.
func (l leases) late(r, before record) bool { return l[r.Process] < before.Token }

// readings holds the times at which each process began to read what was staged.
type readings map[string][]time.Time

func (l readings) note(r record) {
	if r.Kind == looked {
		l[r.Process] = append(l[r.Process], r.Since)
	}
}

// beginning bounds the time from an effect's reading to its call of a model or tool, on a busy machine.
const beginning = 2 * time.Second

// before reports whether an act may be that of an effect that read the stage before something was acknowledged.
func (l readings) before(r, acknowledged record) bool {
	return slices.ContainsFunc(l[r.Process], func(at time.Time) bool { return at.Before(acknowledged.At) && r.At.Sub(at) < beginning })
}
