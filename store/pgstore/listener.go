package pgstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/jackc/pgx/v5"
)

const (
	// batch is how many events of another process are published at once; followers fetch older ones themselves.
	batch = 512

	minReconnect = 10 * time.Millisecond
	maxReconnect = time.Second
)

// By logs_name.
const sqlLasts = `SELECT name, last FROM {schema}.logs WHERE name = ANY ($1::text[])`

// listener notices what other processes wrote and publishes it to this process's followers of logs and watchers of stop
// requests, with one connection for all of them. It runs while there are any.
type listener struct {
	db    *database
	log   *Log
	dial  func(context.Context) (*pgx.Conn, error) // nil if no connection can listen
	hub   tail.Hub
	stops backend.Signal

	mu      sync.Mutex
	users   int
	closed  bool
	current *subscription      // for the users
	cancel  context.CancelFunc // of the current run
	run     sync.WaitGroup     // the current run, and earlier ones that are about to end
}

// join adds a user, and starts the listener for the first one.
func (l *listener) join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	if l.users > 1 || l.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	sub := &subscription{l: l, published: map[string]int64{}, written: map[string]int64{},
		received: map[string]notice{}, wake: make(chan struct{}, 1)}
	l.current = sub
	l.run.Go(func() { sub.work(ctx) })
	if l.dial != nil {
		l.run.Go(func() { sub.listen(ctx) })
	}
}

// leave removes a user, and stops the listener with the last one.
func (l *listener) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.users == 0 && l.cancel != nil {
		l.cancel()
		l.current = nil
	}
}

// wrote records up to which sequence this process has written and published a log.
func (l *listener) wrote(log string, last int64) {
	l.mu.Lock()
	e := l.current
	l.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.written[log] = max(e.written[log], last)
}

// close stops the listener permanently and waits for it.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Unlock()
	l.run.Wait()
}

// subscription is one run of a listener: a goroutine that listens, and one that publishes what was received.
type subscription struct {
	l         *listener
	published map[string]int64 // last published sequence by followed log; used by work only

	mu       sync.Mutex
	written  map[string]int64  // last sequence that this process published, since work last read it
	received map[string]notice // latest message by log
	all      bool              // messages may have been missed
	wake     chan struct{}
}

// listen keeps a listening connection open and receives its messages.
func (e *subscription) listen(ctx context.Context) {
	for pause := minReconnect; ctx.Err() == nil; pause = min(2*pause, maxReconnect) {
		if connected := e.listenOnce(ctx); connected {
			pause = minReconnect
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// listenOnce listens until the connection is lost. It reports whether a connection was made.
func (e *subscription) listenOnce(ctx context.Context) (connected bool) {
	c, err := e.l.dial(ctx)
	if err != nil {
		return false
	}
	defer c.Close(context.WithoutCancel(ctx))
	if _, err := c.Exec(ctx, "LISTEN "+pgx.Identifier{e.l.db.channel()}.Sanitize()); err != nil {
		return false
	}
	e.receive("") // the channel does not announce earlier writes
	for {
		n, err := c.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		e.receive(n.Payload)
	}
}

// receive records a message for work; an empty one means that messages may have been missed.
func (e *subscription) receive(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, ok := parseNotice(text)
	switch {
	case text == stopNews:
		e.l.stops.Raise()
		return
	case !ok:
		e.all = true
	default:
		e.received[n.log] = e.received[n.log].merge(n)
	}
	select {
	case e.wake <- struct{}{}:
	default: // work has not handled the previous message yet; it will see this one too
	}
}

// work publishes to the followers what was received, and polls for what was missed.
func (e *subscription) work(ctx context.Context) {
	timer := time.NewTimer(e.pollAfter())
	defer timer.Stop()
	e.look(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			e.look(ctx)
			timer.Reset(e.pollAfter())
		case <-e.wake:
			e.mu.Lock()
			received, all := e.received, e.all
			e.received, e.all = map[string]notice{}, false
			e.mu.Unlock()
			if all {
				e.look(ctx)
			}
			for _, n := range received {
				e.deliver(ctx, n)
			}
		}
	}
}

// pollAfter returns the time until the next poll, PollInterval on average. It varies, so that processes that started
// together do not keep polling together.
func (e *subscription) pollAfter() time.Duration {
	interval := e.l.db.opts.PollInterval
	return interval - interval/4 + rand.N(interval/2+1)
}

// deliver publishes the events that a message announces. Messages of different processes may arrive in another order
// than their events have.
func (e *subscription) deliver(ctx context.Context, n notice) {
	if !e.l.hub.Follows(n.log) {
		delete(e.published, n.log)
		return
	}
	e.own()
	published, known := e.published[n.log]
	switch {
	case n.origin == e.l.db.origin && n.last <= published:
		return
	case known && n.last <= published:
		e.l.hub.Wake(n.log) // already published, unless the log was dropped and created again, which the next look sees
		return
	case n.origin == e.l.db.origin: // published when it was written
	case known:
		e.fetch(ctx, n.log, max(published, n.last-batch))
	default:
		e.fetch(ctx, n.log, n.last-min(n.count, batch))
	}
	e.published[n.log] = n.last
}

// own takes over the sequences that this process published. Followers that lack earlier events have seen the gap.
func (e *subscription) own() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for log, last := range e.written {
		if published, known := e.published[log]; known {
			e.published[log] = max(published, last)
		}
	}
	clear(e.written)
}

// fetch publishes the events of a log after a sequence.
func (e *subscription) fetch(ctx context.Context, log string, after int64) {
	events, err := e.l.log.Read(ctx, log, max(after, 0), batch)
	if err != nil || len(events) == 0 {
		e.l.hub.Wake(log) // followers get the error themselves when they read
		return
	}
	e.l.hub.Publish(log, events)
}

// look reads the last sequences of the followed logs and publishes to their followers the events that they may have
// missed.
func (e *subscription) look(ctx context.Context) {
	e.l.stops.Raise()
	logs := e.l.hub.Logs()
	lasts := make(map[string]int64, len(logs))
	for _, log := range logs {
		lasts[log] = 0 // it may not exist yet
	}
	if len(logs) > 0 {
		err := e.l.db.try(ctx, "look for events", reads, func(ctx context.Context, c *conn) error {
			return c.query(ctx, sqlLasts, func(rows pgx.Rows) error {
				var log string
				var last int64
				err := rows.Scan(&log, &last)
				lasts[log] = last
				return err
			}, logs)
		})
		if err != nil {
			return // storage failed or the listener ends; followers get the error themselves
		}
	}
	e.own()
	for _, log := range logs {
		published, known := e.published[log]
		switch last := lasts[log]; {
		case !known:
			e.l.hub.Wake(log) // its followers may have joined before the listener connected
		case last > published:
			e.fetch(ctx, log, max(published, last-batch))
		case last < published:
			e.l.hub.Wake(log) // it was dropped and created again
		}
	}
	e.published = lasts
}

// channel returns the name of the channel on which processes announce what they wrote.
func (d *database) channel() string { return "cairn:" + d.opts.Schema }
