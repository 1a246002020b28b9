package torture

import (
	"testing"
	"time"
)

// The time to a run's end counts from each stop of a process that was driving it.
func TestRunsThatOutliveTheirProcess(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-time.Hour)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	say := func(seconds int, process string, r record) record {
		r.Kind, r.Process, r.At = committed, process, at(seconds)
		return r
	}
	stops := map[string]stop{"a": {at: at(2), how: byKill}, "b": {at: at(5), how: byTerm}, "c": {at: at(100), how: byKill}}
	for name, c := range map[string]struct {
		list         []record
		killed, told time.Duration
		lost         int
	}{
		"not hit":        {list: []record{say(0, "a", record{Began: "1"}), say(1, "a", record{Ended: "1"})}},
		"in one commit":  {list: []record{say(0, "a", record{Began: "1", Ended: "1"}), say(1, "c", record{Began: "2"}), say(2, "c", record{Ended: "2"})}},
		"killed":         {list: []record{say(0, "a", record{Began: "1"}), say(6, "c", record{Took: true}), say(9, "c", record{Ended: "1"})}, killed: 7 * time.Second},
		"by the next":    {list: []record{say(0, "a", record{Began: "1"}), say(6, "c", record{Ended: "1", Began: "2"}), say(9, "c", record{Ended: "2"})}, killed: 4 * time.Second},
		"told":           {list: []record{say(3, "b", record{Began: "1"}), say(9, "c", record{Ended: "1"})}, told: 4 * time.Second},
		"twice":          {list: []record{say(0, "a", record{Began: "1"}), say(3, "b", record{Took: true}), say(9, "c", record{Ended: "1"})}, killed: 7 * time.Second, told: 4 * time.Second},
		"after its turn": {list: []record{say(0, "a", record{Began: "1"}), say(1, "c", record{}), say(9, "c", record{Ended: "1"})}},
		"never ended":    {list: []record{say(0, "a", record{Began: "1"})}, lost: 1},
	} {
		took, lost := outlived(c.list, stops)
		if len(took[byKill]) > 1 || len(took[byTerm]) > 1 || median(took[byKill]) != c.killed || median(took[byTerm]) != c.told || lost != c.lost {
			t.Errorf("%s: %v, %d without an end", name, took, lost)
		}
	}
}
