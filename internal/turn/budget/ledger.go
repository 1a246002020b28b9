package budget

import "time"

// Shard is a part of what is counted for one period of a rule. A run always uses the same shard. A run's share has what the
// run has used in all, not what it has added, so that writing it again counts nothing twice.
type Shard struct {
	// Sum is what ended runs have used.
	Sum Amount `json:"sum,omitzero"`
	// Runs are the runs in progress, and for a while those that have ended, by id.
	Runs map[string]Share `json:"runs,omitempty"`
	// Raised is what people have added to the limits, by the id of the call that they answered.
	Raised map[string]Amount `json:"raised,omitempty"`
	// Warned reports whether the warning of this period was published.
	Warned bool `json:"warned,omitempty"`
}

// Share is what one run counts for.
type Share struct {
	Session string `json:"session"`
	// Base is what the run had used before the share was made: for a period that began during the run.
	Base Amount `json:"base,omitzero"`
	// Used is what the run has used since, as far as it is known. Held is reserved for a model call in progress.
	Used Amount `json:"used,omitzero"`
	Held Amount `json:"held,omitzero"`
	// Until is when the reservation lapses, unless the run's lease is still held, and when the share of a run that has ended
	// is forgotten.
	Until time.Time `json:"until"`
	// Ended reports whether Used is part of Sum.
	Ended bool `json:"ended,omitempty"`
}

// Total returns what a shard counts without the share of a run.
func (s *Shard) Total(without string) (sum Amount) {
	sum = s.Sum
	for id, share := range s.Runs {
		if !share.Ended && id != without {
			sum = sum.Plus(share.Used).Plus(share.Held)
		}
	}
	return sum
}

// Reserve sets what a run has used in all, and what its next model call may use.
func (s *Shard) Reserve(run, session string, used, next Amount, until time.Time) {
	share, known := s.Runs[run]
	if !known {
		share = Share{Session: session, Base: used}
	}
	share.Used, share.Held, share.Until = used.Minus(share.Base), next, until
	s.set(run, share)
}

// End counts what a run has used in all, and keeps until a time that it did.
func (s *Shard) End(run string, used Amount, until time.Time) {
	share, known := s.Runs[run]
	if !known || share.Ended {
		return
	}
	s.Sum = s.Sum.Plus(used.Minus(share.Base))
	s.set(run, Share{Session: share.Session, Until: until, Ended: true})
}

// Lapsed returns the runs other than own whose reservations have lapsed at now, and forgets runs that ended long ago.
func (s *Shard) Lapsed(own string, now time.Time) (list []string) {
	for id, share := range s.Runs {
		switch {
		case now.Before(share.Until):
		case share.Ended:
			delete(s.Runs, id)
		case id != own:
			list = append(list, id)
		}
	}
	return list
}

func (s *Shard) set(run string, share Share) {
	if s.Runs == nil {
		s.Runs = map[string]Share{}
	}
	s.Runs[run] = share
}
