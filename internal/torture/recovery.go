package torture

import (
	"slices"
	"time"
)

// aside are the kinds of records that do not show which process drives a session.
var aside = []recordKind{answered, sending, sent, undoing}

// stop is the end of a process.
type stop struct {
	at  time.Time
	how ending
	// slept reports whether it slept past its leases before that.
	slept bool
}

// outlived returns how long the runs that stopped processes were driving took to end after the stop, by the way in
// which the process was stopped, and the number of runs whose end is unknown. A stop hits the run that the process,
// according to the journal, was the last to drive. A run may be hit more than once.
func (h *harness) outlived() (took map[ending][]time.Duration, lost int) {
	took = map[ending][]time.Duration{}
	for _, list := range h.journal {
		t, n := outlived(list, h.stops)
		for how, d := range t {
			took[how] = append(took[how], d...)
		}
		lost += n
	}
	return took, lost
}

// outlived is harness.outlived for one session.
func outlived(list []record, stops map[string]stop) (took map[ending][]time.Duration, lost int) {
	took = map[ending][]time.Duration{}
	var hits []stop // of the current run
	run, last := "", ""
	hit := func(until time.Time) {
		if s, ok := stops[last]; ok && run != "" && s.at.Before(until) {
			hits = append(hits, s)
		}
		last = ""
	}
	for _, r := range list {
		if slices.Contains(aside, r.Kind) || r.Kind == committed && (r.Queued != "" || r.Undone != "") { // by other processes
			continue
		}
		if run != "" && r.Process != last {
			hit(r.At)
		}
		last = r.Process
		if r.Ended == run && run != "" {
			for _, s := range hits {
				took[s.how] = append(took[s.how], r.At.Sub(s.at))
			}
		}
		switch {
		case r.Began != "" && r.Began != r.Ended:
			run, hits = r.Began, nil
		case r.Ended != "":
			run, hits = "", nil
		}
	}
	hit(time.Now())
	return took, len(hits)
}
