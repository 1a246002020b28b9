package redisstore

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/redis/go-redis/v9"
)

// publishBatch is how many events of other processes are published at once. Followers read older ones themselves.
const publishBatch = 512

// listener receives, on one connection, notices of what other processes write: events of the logs that are followed
// here, and stop requests. A message about a log has only its last sequence; the events are read from the stream.
type listener struct {
	db     *database
	log    *Log
	origin string // name of this Store in messages
	hub    tail.Hub

	mu       sync.Mutex
	closed   bool
	channels map[string]*channel
	watchers map[chan driver.StopNotice]struct{}

	// subscribing is held while subscriptions change. It guards the fields below.
	subscribing sync.Mutex
	pubsub      *redis.PubSub
	unlisten    context.CancelFunc // ends deliveries
	listening   sync.WaitGroup     // the listener, its deliveries and its polls
	lacking     bool               // the user lacks a right to the channels

	silenced chan struct{} // wakes poll after a message was not published

	warning sync.Mutex
	warned  time.Time // of the last warning
}

// channel is a channel that this process uses.
type channel struct {
	users      int
	log        string // empty for the channel of stop requests
	subscribed bool   // guarded by listener.subscribing

	published, last int64 // last sequences of the followers and of the log; published is -1 if unknown
	reading         bool
}

// join adds a listener to a log's channel.
func (n *listener) join(log string) { n.use(n.db.eventChannel(log), log, 1) }

// leave undoes one join.
func (n *listener) leave(log string) { n.use(n.db.eventChannel(log), log, -1) }

// use changes the number of users of a channel.
func (n *listener) use(name, log string, change int) {
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

// subscribe subscribes to a channel that has users and unsubscribes from one that has none. If the server cannot be
// reached, the client does so later.
func (n *listener) subscribe(name string, c *channel) {
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
		listening, cancel := context.WithCancel(context.Background())
		n.unlisten = cancel
		n.listening.Go(func() { n.listen(listening, messages) })
		n.listening.Go(func() { n.poll(listening) })
	}
	if c.subscribed = wanted; wanted {
		n.pubsub.Subscribe(ctx, name)
	} else {
		n.pubsub.Unsubscribe(ctx, name)
	}
}

func (n *listener) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.subscribing.Lock()
	if n.pubsub != nil {
		n.unlisten()
		n.pubsub.Close()
	}
	n.subscribing.Unlock() // poll may want it
	n.listening.Wait()
}

func (n *listener) listen(ctx context.Context, messages <-chan any) {
	for m := range messages {
		switch m := m.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" { // also on reconnecting: messages may have been missed
				n.receive(ctx, m.Channel, -1)
				if m.Channel == n.db.stopChannel() {
					n.notify(driver.StopNotice{})
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

// receive records the last sequence of a log; -1 means that it is unknown.
func (n *listener) receive(ctx context.Context, name string, last int64) {
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

// deliver publishes the events that a log's followers lack.
func (n *listener) deliver(ctx context.Context, c *channel) {
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
		after := max(published, last-publishBatch, 0)
		if published < 0 {
			after = last - 1
		}
		events, err := n.log.Read(ctx, c.log, after, publishBatch)
		if err == nil && len(events) > 0 {
			last = max(last, events[len(events)-1].Sequence)
			n.hub.Publish(c.log, events)
		} else {
			n.hub.Wake(c.log) // followers get the error from their own reads
		}
		n.mu.Lock()
		if c.last >= 0 { // no message was missed in between
			c.published = last
		}
		n.mu.Unlock()
	}
}

// announce passes a stop request to the watchers.
func (n *listener) announce(payload string) {
	id, text, _ := strings.Cut(payload, "\n")
	stop, err := readStop(text)
	if err != nil {
		return
	}
	n.notify(driver.StopNotice{SessionID: id, Stop: *stop})
}

func (n *listener) notify(notice driver.StopNotice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		select {
		case w <- notice:
		default: // a watcher that is this far behind finds the request at its heartbeat
		}
	}
}

// newOrigin returns a new name of a Store in messages.
func newOrigin() string { return rand.Text()[:12] }
