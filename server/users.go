package server

import (
	"net/http"
	"sync"

	"golang.org/x/time/rate"
)

// users tracks the open streams and the request rate of each user. Idle users are forgotten when there are many.
type users struct {
	streams int // limit per user; negative for none
	limit   rate.Limit
	burst   int

	mu     sync.Mutex
	list   map[string]*allowance
	forget int // number of users at which idle ones are forgotten
}

type allowance struct {
	requests *rate.Limiter
	streams  int
}

func newUsers(streams, perMinute int) *users {
	u := &users{streams: streams, limit: rate.Inf, list: map[string]*allowance{}, forget: idleUsers}
	if perMinute > 0 {
		u.limit, u.burst = rate.Limit(float64(perMinute)/60), max(perMinute/10, 1)
	}
	return u
}

// idleUsers is the smallest number of users at which idle ones are forgotten.
const idleUsers = 10_000

func (u *users) of(name string) *allowance {
	x := u.list[name]
	if x == nil {
		if len(u.list) >= u.forget {
			u.forgetIdle()
		}
		x = &allowance{requests: rate.NewLimiter(u.limit, u.burst)}
		u.list[name] = x
	}
	return x
}

// forgetIdle removes the users whose allowance is whole again, so that a new entry would be no different. It looks
// at all users, so it runs again only once there are twice as many as remain.
func (u *users) forgetIdle() {
	for name, x := range u.list {
		if x.streams == 0 && x.requests.Tokens() >= float64(u.burst) {
			delete(u.list, name)
		}
	}
	u.forget = max(idleUsers, 2*len(u.list))
}

// request takes a request from a user's allowance.
func (u *users) request(name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.of(name).requests.Allow() {
		return &httpError{http.StatusTooManyRequests, "too_many_requests", "request limit of the user exceeded"}
	}
	return nil
}

// exhausted reports whether nothing is left of a user's allowance of requests.
func (u *users) exhausted(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.of(name).requests.Tokens() < 1
}

// stream takes a stream from a user's allowance until leave is called.
func (u *users) stream(name string) (leave func(), err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := u.of(name)
	if u.streams >= 0 && x.streams >= u.streams {
		return nil, &httpError{http.StatusTooManyRequests, "too_many_streams", "stream limit of the user exceeded"}
	}
	x.streams++
	return func() {
		u.mu.Lock()
		x.streams--
		u.mu.Unlock()
	}, nil
}
