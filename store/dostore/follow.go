package dostore

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// Follow implements driver.Log.
func (l *Log) Follow(ctx context.Context, log string, after int64) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		l.join(ctx, log)
		defer l.leave(log)
		l.hub.Follow(ctx, log, after, l.Read)(yield)
	}
}

// join keeps the connection with a log's object, and receives its notices. If it cannot be made, the follower's first
// read says so.
func (l *Log) join(ctx context.Context, log string) {
	l.mu.Lock()
	l.pins[log]++
	l.mu.Unlock()
	o := l.link(log)
	o.pin(1)
	if c, err := o.connect(ctx); err == nil {
		_ = o.watch(ctx, c)
	}
}

func (l *Log) leave(log string) {
	l.mu.Lock()
	if l.pins[log]--; l.pins[log] == 0 {
		delete(l.pins, log)
	}
	l.mu.Unlock()
	l.link(log).pin(-1)
}

// woke handles the notice that an owner has grown.
func (l *Log) woke(owner string) {
	if log, ok := strings.CutPrefix(owner, "log/"); ok {
		l.forget(log)
		l.hub.Wake(log)
	}
}

// lost connects again with an object whose logs are followed, until it succeeds or nobody follows them.
func (l *Log) lost(o *link) {
	for pause := reconnectFirst; ; pause = min(2*pause, reconnectLast) {
		if l.db.closed.Load() {
			return
		}
		if _, err := o.connect(context.Background()); err == nil {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.db.done:
			timer.Stop()
			return
		}
		o.mu.Lock()
		pinned := o.pins > 0
		o.mu.Unlock()
		if !pinned {
			return
		}
	}
	for _, log := range l.followed() {
		if l.link(log) == o {
			l.hub.Wake(log)
		}
	}
}

const (
	reconnectFirst = 20 * time.Millisecond
	reconnectLast  = 5 * time.Second
)

func (l *Log) followed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.pins))
}

// close wakes all followers: their next read fails.
func (l *Log) close() { l.hub.WakeAll() }
