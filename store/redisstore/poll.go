package redisstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
)

const (
	// lookEvery is about how often a listener checks that messages can arrive.
	lookEvery = 2 * time.Second
	// pollEvery is how often it polls while they cannot.
	pollEvery = time.Second
	// warnEvery is how often at most a warning is logged.
	warnEvery = time.Minute
)

// poll has the followers and the watchers look for themselves while the user lacks a right to the channels: then what
// processes write is not announced, or the announcements do not arrive.
func (n *listener) poll(ctx context.Context) {
	for {
		every := lookEvery/2 + rand.N(lookEvery)
		if n.mute(ctx) {
			every = pollEvery
			n.hub.WakeAll()
			n.notify(driver.StopNotice{})
		}
		timer := time.NewTimer(every)
		select {
		case <-timer.C:
		case <-n.silenced:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// mute reports whether the user lacks a right to the channels, or another process could not publish lately.
func (n *listener) mute(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	lacks, err := n.db.lacks(ctx, []string{"PUBLISH", "SUBSCRIBE"})
	noted, _ := n.db.client.Exists(ctx, n.db.muteKey()).Result()
	if len(lacks) > 0 {
		n.warn(ctx, n.db.forbidden("announce writes", lacks))
	}
	n.subscribing.Lock()
	defer n.subscribing.Unlock()
	if err == nil || len(lacks) > 0 {
		if n.lacking && len(lacks) == 0 {
			n.resubscribe(ctx)
		}
		n.lacking = len(lacks) > 0
	}
	return n.lacking || noted > 0
}

// resubscribe repeats the subscriptions, which the server has refused or ended while the user lacked the right to them.
// The caller holds subscribing.
func (n *listener) resubscribe(ctx context.Context) {
	n.mu.Lock()
	var names []string
	for name, c := range n.channels {
		if c.subscribed {
			names = append(names, name)
		}
	}
	n.mu.Unlock()
	for part := range slices.Chunk(names, 1000) {
		n.pubsub.Subscribe(ctx, part...)
	}
}

// published handles the error with which a script could not announce what it has written; it is empty if it could. The
// write stands, and followers in every process poll.
func (n *listener) published(ctx context.Context, failure string) {
	if failure == "" {
		return
	}
	allow := right{"publish on the channels " + n.db.opts.Prefix + ":*", "+publish " + channelRule(n.db.opts.Prefix)}
	if n.warn(ctx, n.db.forbidden("announce writes", []right{allow})) {
		n.db.client.Set(ctx, n.db.muteKey(), "", 2*warnEvery)
	}
	select {
	case n.silenced <- struct{}{}:
	default:
	}
}

// muteKey is the key that says that a process could not publish lately.
func (d *database) muteKey() string { return d.opts.Prefix + ":mute" }

// warn logs that messages do not arrive, unless it has done so within the last minute.
func (n *listener) warn(ctx context.Context, err error) (logged bool) {
	n.warning.Lock()
	defer n.warning.Unlock()
	if !n.warned.IsZero() && time.Since(n.warned) < warnEvery {
		return false
	}
	n.warned = time.Now()
	n.db.logger().WarnContext(ctx, "redis user may not publish or subscribe; polling instead", "error", err)
	return true
}
