package redisstore

import (
	"context"
	"crypto/rand"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn/store"
	"github.com/redis/go-redis/v9"
)

const (
	// newsBatch is how many events another process wrote are published at once; followers fetch what is older
	// themselves.
	newsBatch = 512
	// stopsKept is how far a watcher of stop requests may fall behind before it misses some.
	stopsKept = 256
)

// The channels that the scripts publish to. A prefix has no brace, so no two of stores with different prefixes are the
// same.
func (s *Store) eventChannel(log string) string { return s.opts.Prefix + ":{events}:" + log }
func (s *Store) stopChannel() string            { return s.opts.Prefix + ":{stops}" }

// news listens, on one connection, for what other processes write: to the logs that are followed here, and stop
// requests. A message only says how far a log is; the events are read from the stream.
type news struct {
	s      *Store
	origin string // this Store in messages

	mu       sync.Mutex
	closed   bool
	channels map[string]*channel
	watchers map[chan store.StopNotice]struct{}

	// subscribing is held while subscriptions are changed, and guards these.
	subscribing sync.Mutex
	pubsub      *redis.PubSub
	unlisten    context.CancelFunc // ends deliveries
	listening   sync.WaitGroup     // the listener and its deliveries
}

// channel is one that this process needs.
type channel struct {
	users      int
	log        string // empty for that of stop requests
	subscribed bool   // guarded by news.subscribing

	published, last int64 // the last sequence that followers have, and that of the log; published is -1 if unknown
	reading         bool
}

// join adds a listener to a log's channel.
func (n *news) join(log string) { n.use(n.s.eventChannel(log), log, 1) }

// leave undoes one join.
func (n *news) leave(log string) { n.use(n.s.eventChannel(log), log, -1) }

// use changes the number of users of a channel.
func (n *news) use(name, log string, change int) {
	n.mu.Lock()
	c := n.channels[name]
	if c == nil {
		c = &channel{log: log, published: -1}
		if n.channels == nil {
			n.channels = map[string]*channel{}
		}
		n.channels[name] = c
	}
	c.users += change
	settled := n.closed || c.users-change > 0 && c.users > 0
	n.mu.Unlock()
	if !settled {
		n.subscribe(name, c)
	}
}

// subscribe subscribes to a channel while it has users, else unsubscribes. If the server cannot be reached the client
// does it later.
func (n *news) subscribe(name string, c *channel) {
	n.subscribing.Lock()
	defer n.subscribing.Unlock()
	n.mu.Lock()
	wanted, closed := c.users > 0, n.closed
	if !wanted && n.channels[name] == c {
		delete(n.channels, name)
	}
	n.mu.Unlock()
	if wanted == c.subscribed || closed {
		return
	}
	ctx := context.Background()
	if n.pubsub == nil {
		n.pubsub = n.s.client.Subscribe(ctx)
		messages := n.pubsub.ChannelWithSubscriptions()
		listener, cancel := context.WithCancel(context.Background())
		n.unlisten = cancel
		n.listening.Go(func() { n.listen(listener, messages) })
	}
	if c.subscribed = wanted; wanted {
		n.pubsub.Subscribe(ctx, name)
	} else {
		n.pubsub.Unsubscribe(ctx, name)
	}
}

func (n *news) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.subscribing.Lock()
	defer n.subscribing.Unlock()
	if n.pubsub != nil {
		n.unlisten()
		n.pubsub.Close()
	}
	n.listening.Wait()
}

func (n *news) listen(ctx context.Context, messages <-chan any) {
	for m := range messages {
		switch m := m.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" { // also after a connection was lost: something may have been missed
				n.receive(ctx, m.Channel, -1)
				if m.Channel == n.s.stopChannel() {
					n.notify(store.StopNotice{})
				}
			}
		case *redis.Message:
			if m.Channel == n.s.stopChannel() {
				n.announce(m.Payload)
				continue
			}
			last, origin, _ := strings.Cut(m.Payload, " ")
			if sequence, err := strconv.ParseInt(last, 10, 64); err == nil && origin != n.origin {
				n.receive(ctx, m.Channel, sequence)
			}
		}
	}
}

// receive notes the last sequence of a log; -1 means that it is unknown.
func (n *news) receive(ctx context.Context, name string, last int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.channels[name]
	if c == nil || c.log == "" {
		return
	}
	if last <= 0 { // unknown, or the log was dropped
		c.published, c.last = -1, -1
		n.s.hub.Wake(c.log)
		return
	}
	c.last = max(c.last, last)
	if !c.reading {
		c.reading = true
		n.listening.Go(func() { n.deliver(ctx, c) })
	}
}

// deliver publishes to a log's followers the events that they do not have.
func (n *news) deliver(ctx context.Context, c *channel) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		n.mu.Lock()
		published, last := c.published, c.last
		if published >= last {
			c.reading = false
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		after := max(published, last-newsBatch, 0)
		if published < 0 {
			after = last - 1
		}
		events, err := n.s.log.Read(ctx, c.log, after, newsBatch)
		if err == nil && len(events) > 0 {
			last = max(last, events[len(events)-1].Sequence)
			n.s.hub.Publish(c.log, events)
		} else {
			n.s.hub.Wake(c.log) // followers meet the error themselves
		}
		n.mu.Lock()
		if c.last >= 0 { // nothing was missed meanwhile
			c.published = last
		}
		n.mu.Unlock()
	}
}

// announce passes a stop request to the watchers.
func (n *news) announce(payload string) {
	id, text, _ := strings.Cut(payload, "\n")
	stop, err := readStop(text)
	if err != nil {
		return
	}
	n.notify(store.StopNotice{SessionID: id, Stop: *stop})
}

func (n *news) notify(notice store.StopNotice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		select {
		case w <- notice:
		default: // a watcher that is this far behind finds the request at its heartbeat
		}
	}
}

// WatchStops implements store.StopWatcher.
func (s *Store) WatchStops(ctx context.Context) iter.Seq2[store.StopNotice, error] {
	return func(yield func(store.StopNotice, error) bool) {
		notices := make(chan store.StopNotice, stopsKept)
		n := &s.news
		n.mu.Lock()
		if n.watchers == nil {
			n.watchers = map[chan store.StopNotice]struct{}{}
		}
		if len(n.watchers) > 0 { // else it gets this notice once the subscription is there
			notices <- store.StopNotice{}
		}
		n.watchers[notices] = struct{}{}
		n.mu.Unlock()
		n.use(s.stopChannel(), "", 1)
		defer func() {
			n.use(s.stopChannel(), "", -1)
			n.mu.Lock()
			delete(n.watchers, notices)
			n.mu.Unlock()
		}()
		for {
			select {
			case notice := <-notices:
				if !yield(notice, nil) {
					return
				}
			case <-ctx.Done():
				return
			case <-s.closed:
				yield(store.StopNotice{}, errClosed)
				return
			}
		}
	}
}

// newOrigin returns a name for a Store in messages.
func newOrigin() string { return rand.Text()[:12] }
