package server

import (
	"net/http"
	"sync"

	"golang.org/x/time/rate"
)

// users holds what each user has in use of the server. A user without anything in use takes no memory.
type users struct {
	streams int // at most; negative for any number
	limit   rate.Limit
	burst   int

	mu     sync.Mutex
	list   map[string]*usage
	forget int // how many users there may be before those who have nothing in use are forgotten
}

type usage struct {
	requests *rate.Limiter
	streams  int
}

func newUsers(streams, perMinute int) *users {
	u := &users{streams: streams, limit: rate.Inf, list: map[string]*usage{}, forget: idleUsers}
	if perMinute > 0 {
		u.limit, u.burst = rate.Limit(float64(perMinute)/60), max(perMinute/10, 1)
	}
	return u
}

// idleUsers is how many users may be known at least before those who have nothing in use are forgotten.
const idleUsers = 10_000

func (u *users) of(name string) *usage {
	x := u.list[name]
	if x == nil {
		if len(u.list) >= u.forget {
			u.forgetIdle()
		}
		x = &usage{requests: rate.NewLimiter(u.limit, u.burst)}
		u.list[name] = x
	}
	return x
}

// forgetIdle removes the users whose share is whole again, so that a new one of theirs is no different. It looks at all of them,
// so the next time is when there are twice as many as are left.
func (u *users) forgetIdle() {
	for name, x := range u.list {
		if x.streams == 0 && x.requests.Tokens() >= float64(u.burst) {
			delete(u.list, name)
		}
	}
	u.forget = max(idleUsers, 2*len(u.list))
}

// request takes a request from a user's share.
func (u *users) request(name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.of(name).requests.Allow() {
		return &httpError{http.StatusTooManyRequests, "too_many_requests", "more requests than one user may make"}
	}
	return nil
}

// stream takes a stream from a user's share until leave is called.
func (u *users) stream(name string) (leave func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := u.of(name)
	if u.streams >= 0 && x.streams >= u.streams {
		return nil, &httpError{http.StatusTooManyRequests, "too_many_streams", "more streams than one user may have open"}
	}
	x.streams++
	return func() {
		u.mu.Lock()
		x.streams--
		u.mu.Unlock()
	}, nil
}
