package retry

import "time"

// Pauses remembers when the work that failed is attempted again, by a key of each piece. The pauses grow. The zero value
// is ready; it is for one goroutine.
type Pauses struct {
	// First and Longest are the shortest and the longest pause.
	First, Longest time.Duration

	by   map[string]pause
	seen map[string]bool
}

type pause struct {
	until    time.Time
	attempts int
}

// Has reports whether work is left alone now. Work that is not asked about between two calls of [Pauses.Tidy] is
// forgotten.
func (p *Pauses) Has(key string, now time.Time) bool {
	at, has := p.by[key]
	if has {
		if p.seen == nil {
			p.seen = map[string]bool{}
		}
		p.seen[key] = true
	}
	return has && now.Before(at.until)
}

// Add leaves work alone for a while, because an attempt at it has failed.
func (p *Pauses) Add(key string, now time.Time) {
	if p.by == nil {
		p.by, p.seen = map[string]pause{}, map[string]bool{}
	}
	n := p.by[key].attempts
	p.by[key], p.seen[key] = pause{now.Add(Backoff(p.First, p.Longest, n)), n + 1}, true
}

// End forgets work, since an attempt at it has succeeded.
func (p *Pauses) End(key string) { delete(p.by, key) }

// Tidy forgets all work that was neither asked about nor added since the last call.
func (p *Pauses) Tidy() {
	for key := range p.by {
		if !p.seen[key] {
			delete(p.by, key)
		}
	}
	clear(p.seen)
}
