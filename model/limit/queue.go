package limit

import (
	"context"
	"slices"
	"sync"
)

// queue admits one call at a time. Sessions take turns, and the calls of one session come in their order.
type queue struct {
	mu       sync.Mutex
	held     bool
	sessions []string // those with waiting calls, the next one first
	waiting  map[string][]chan struct{}
}

// enter blocks until the call is admitted. It holds the queue until leave is called.
func (q *queue) enter(ctx context.Context, session string) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	q.mu.Lock()
	if !q.held {
		q.held = true
		q.mu.Unlock()
		return q.next, nil
	}
	turn := make(chan struct{})
	if q.waiting == nil {
		q.waiting = map[string][]chan struct{}{}
	}
	if len(q.waiting[session]) == 0 {
		q.sessions = append(q.sessions, session)
	}
	q.waiting[session] = append(q.waiting[session], turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return q.next, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	list := q.waiting[session]
	i := slices.Index(list, turn)
	if i >= 0 {
		q.keep(session, slices.Delete(list, i, i+1))
	}
	q.mu.Unlock()
	if i < 0 { // the queue was handed to this call just then
		q.next()
	}
	return nil, ctx.Err()
}

// keep sets the waiting calls of a session.
func (q *queue) keep(session string, list []chan struct{}) {
	if len(list) > 0 {
		q.waiting[session] = list
		return
	}
	delete(q.waiting, session)
	q.sessions = slices.DeleteFunc(q.sessions, func(s string) bool { return s == session })
}

// next hands the queue to the first call of the session whose turn it is.
func (q *queue) next() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.sessions) == 0 {
		q.held = false
		return
	}
	session := q.sessions[0]
	list := q.waiting[session]
	close(list[0])
	q.sessions = append(q.sessions[1:], session)
	q.keep(session, list[1:])
}
