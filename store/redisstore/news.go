package redisstore

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/store"
	"github.com/redis/go-redis/v9"
)

// newsBatch is how many events another process wrote are published at once; followers fetch what is older
// themselves.
const newsBatch = 512

// news listens, on one connection, for what other processes write: to the logs that are followed here, and stop
// requests. A message only says how far a log is; the events are read from the stream.
type news struct {
	db     *database
	log    *Log
	origin string // this Store in messages
	hub    tail.Hub

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
func (n *news) join(log string) { n.use(n.db.eventChannel(log), log, 1) }

// leave undoes one join.
func (n *news) leave(log string) { n.use(n.db.eventChannel(log), log, -1) }

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
		n.pubsub = n.db.client.Subscribe(ctx)
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
				if m.Channel == n.db.stopChannel() {
					n.notify(store.StopNotice{})
				}
			}
		case *redis.Message:
			if m.Channel == n.db.stopChannel() {
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
		n.hub.Wake(c.log)
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
		events, err := n.log.Read(ctx, c.log, after, newsBatch)
		if err == nil && len(events) > 0 {
			last = max(last, events[len(events)-1].Sequence)
			n.hub.Publish(c.log, events)
		} else {
			n.hub.Wake(c.log) // followers meet the error themselves
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

// newOrigin returns a name for a Store in messages.
func newOrigin() string { return rand.Text()[:12] }
