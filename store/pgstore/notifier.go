package pgstore

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// sqlNotify sends the messages $2 on the channel $1. A transaction that notifies holds a lock of the whole server until
// its commit is done, so this one never waits for the disk or a replica.
const sqlNotify = `
	SELECT pg_notify($1::text, m.message)
	FROM set_config('synchronous_commit', 'off', TRUE), unnest($2::text[]) m (message)`

const (
	// stopNews is the message on the channel for a stop request. No message about events equals it.
	stopNews = "stop"
	// lookNews is the message for events of more logs than a notifier remembers. Any message that is not about one log
	// has its meaning.
	lookNews = "look"

	// notifyEvery is the minimum time between two statements of a notifier, so that they cost writers little. The first
	// one after a break, and one for a stop request, are sent at once.
	notifyEvery = 5 * time.Millisecond
	// notifyWithin bounds one attempt, including the connection. A notifier that is closed gets notifyLast for its last
	// attempt.
	notifyWithin = 10 * time.Second
	notifyLast   = time.Second
	// mostNotices bounds the number of logs in one statement.
	mostNotices = 1 << 12
)

// notifier notifies other stores of what this one has committed. It sends the notifications outside of any transaction
// that writes, on a connection of its own, so that neither writers nor the pool wait for them. Notifications may be
// lost, with the process for example; the others look for what they have missed every PollInterval.
type notifier struct {
	db *database

	mu      sync.Mutex
	pending news
	hurry   chan struct{} // asks send not to pause
	sending bool          // send runs
	closed  bool
	cancel  context.CancelFunc // of send
	run     sync.WaitGroup     // send

	conn *pgx.Conn // nil if not connected; used by send only
}

// wrote sends that a log has count more events, the last of which has the sequence last. It never blocks.
func (n *notifier) wrote(log string, last, count int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending.add(notice{origin: n.db.origin, log: log, last: last, count: count})
	n.start()
}

// stopped sends that there is a new stop request. It never blocks.
func (n *notifier) stopped() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending.stop = true
	n.start()
	select {
	case n.hurry <- struct{}{}:
	default: // send has not handled the previous one yet
	}
}

// start makes sure that send runs. The caller holds the lock.
func (n *notifier) start() {
	if n.sending || n.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.sending, n.cancel = true, cancel
	n.run.Go(func() {
		defer cancel()
		n.send(ctx)
	})
}

// send sends what is pending until there is nothing left.
func (n *notifier) send(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := notifyEvery; ; {
		now := n.take()
		if now.empty() {
			return
		}
		if err := n.attempt(ctx, now.messages()); err == nil {
			pause = notifyEvery
		} else if !n.putBack(now) {
			return
		} else {
			pause = min(2*pause, maxReconnect)
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-n.hurry:
		}
	}
}

// take returns what is pending. If that is nothing, or the notifier has been closed for too long, send ends.
func (n *notifier) take() (now news) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, n.pending = n.pending, news{}
	n.sending = !now.empty()
	return now
}

// putBack adds notifications that could not be sent to those that are pending. It reports false if there will be no
// other attempt.
func (n *notifier) putBack(unsent news) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		n.sending = false
		return false
	}
	n.pending.merge(unsent)
	return true
}

// attempt sends messages. After an error it connects anew the next time.
func (n *notifier) attempt(ctx context.Context, messages []string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, notifyWithin)
	defer cancel()
	if n.conn == nil {
		if n.conn, err = n.db.dial(ctx); err != nil {
			return err
		}
	}
	_, err = (&conn{db: n.db, q: n.conn}).exec(ctx, sqlNotify, n.db.channel(), messages)
	if err != nil {
		n.disconnect(ctx)
	}
	return err
}

// disconnect closes the connection, if there is one.
func (n *notifier) disconnect(ctx context.Context) {
	if n.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyLast)
	defer cancel()
	n.conn.Close(ctx)
	n.conn = nil
}

// close sends what is pending, or drops it if that takes longer than notifyLast. Later notifications are dropped.
func (n *notifier) close() {
	n.mu.Lock()
	n.closed = true
	if n.sending {
		defer time.AfterFunc(notifyLast, n.cancel).Stop()
	}
	select {
	case n.hurry <- struct{}{}:
	default:
	}
	n.mu.Unlock()
	n.run.Wait()
	n.disconnect(context.Background())
}

// news is what other stores have not been notified of. The zero value is empty.
type news struct {
	logs map[string]notice // by log
	many bool              // there are too many logs to name them
	stop bool              // there is a stop request
}

func (n *news) empty() bool { return len(n.logs) == 0 && !n.many && !n.stop }

// add adds a notice about a log to what is known of it.
func (n *news) add(to notice) {
	if n.many {
		return
	}
	if n.logs == nil {
		n.logs = map[string]notice{}
	}
	n.logs[to.log] = n.logs[to.log].merge(to)
	if len(n.logs) > mostNotices {
		n.logs, n.many = nil, true
	}
}

// merge adds other news.
func (n *news) merge(other news) {
	n.stop = n.stop || other.stop
	if other.many {
		n.logs, n.many = nil, true
	}
	for _, notice := range other.logs {
		n.add(notice)
	}
}

// messages returns the messages that announce the news.
func (n *news) messages() []string {
	list := make([]string, 0, len(n.logs)+2)
	if n.stop {
		list = append(list, stopNews)
	}
	if n.many {
		list = append(list, lookNews)
	}
	for _, notice := range n.logs {
		list = append(list, notice.message())
	}
	return list
}

// notice announces that a log has count more events, the last of which has the sequence last.
type notice struct {
	origin      string // the store that wrote them; empty if there are several
	log         string
	last, count int64
}

// merge returns a notice about all that two notices announce, in any order. The zero notice announces nothing.
func (n notice) merge(other notice) notice {
	if n.log == "" {
		return other
	}
	before := min(n.last-n.count, other.last-other.count)
	if n.origin != other.origin {
		n.origin = ""
	}
	n.last = max(n.last, other.last)
	n.count = n.last - before
	return n
}

// message returns the text of a notice: the origin, the last sequence, the number of events and the log.
func (n notice) message() string {
	return n.origin + " " + strconv.FormatInt(n.last, 10) + " " + strconv.FormatInt(n.count, 10) + " " + n.log
}

// parseNotice reads the text of a notice.
func parseNotice(text string) (n notice, ok bool) {
	fields := strings.SplitN(text, " ", 4)
	if len(fields) != 4 {
		return n, false
	}
	var err1, err2 error
	n.origin, n.log = fields[0], fields[3]
	n.last, err1 = strconv.ParseInt(fields[1], 10, 64)
	n.count, err2 = strconv.ParseInt(fields[2], 10, 64)
	return n, err1 == nil && err2 == nil
}
