package torture

import "time"

// stop is the end of a process.
type stop struct {
	at  time.Time
	how ending
	// slept says that before that it slept for longer than its leases.
	slept bool
}

// outlived returns for how long each run that a process was driving when it was stopped went on after that, by how the
// process was stopped, and how many runs have no known end. A run is hit by the stop of the process that the journal
// heard of it last; it may be hit more than once.
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

// outlived is what harness.outlived says of one session.
func outlived(list []record, stops map[string]stop) (took map[ending][]time.Duration, lost int) {
	took = map[ending][]time.Duration{}
	var hits []stop // of the run under way
	run, last := "", ""
	hit := func(until time.Time) {
		if s, ok := stops[last]; ok && run != "" && s.at.Before(until) {
			hits = append(hits, s)
		}
		last = ""
	}
	for _, r := range list {
		if r.Kind == answered || r.Kind == committed && r.Queued != "" { // by others
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
