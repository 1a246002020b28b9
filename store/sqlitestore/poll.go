package sqlitestore

import (
	"context"
	"sync"
	"time"
)

// On the write connection this value changes only with the commits of other connections: those of other processes or
// other Stores. This process's own writers publish to its followers directly.
const sqlDataVersion = `PRAGMA data_version`

// pollBatch is how many events of other processes are published at once. Followers read older ones themselves.
const pollBatch = 512

const (
	// haste is how many times more often the file is polled while another process writes a log that may be followed
	// here.
	haste = 10
	// hastyLooks is how many such polls find nothing before the poller returns to the usual interval.
	hastyLooks = 50
)

// poller detects what other processes wrote and publishes it to this process's followers. It runs while it has users.
type poller struct {
	s *Store

	mu     sync.Mutex
	users  int
	closed bool
	cancel context.CancelFunc // of the current poll goroutine
	run    sync.WaitGroup     // that goroutine, and earlier ones that are about to end
}

// join adds a user. It starts the poller unless it runs.
func (p *poller) join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
	if p.users > 1 || p.closed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.run.Go(func() { p.poll(ctx) })
}

// leave removes a user. It stops the poller after the last one.
func (p *poller) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	if p.users == 0 && p.cancel != nil {
		p.cancel()
	}
}

// close stops the poller for good and waits for it.
func (p *poller) close() {
	p.mu.Lock()
	p.closed = true
	if p.cancel != nil {
		p.cancel()
	}
	p.mu.Unlock()
	p.run.Wait()
}

func (p *poller) poll(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	seen := map[string]int64{} // the last sequence of each followed log that followers were given
	version := int64(-1)
	for hasty := 0; ; hasty-- {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		// An error is a storage failure or the end of the poller. Followers get it from their own reads, to which they
		// are woken if no write will ever wake them.
		if p.s.writer.watch.check() != nil {
			p.s.hub.WakeAll()
			p.s.stops.Raise()
		}
		now, err := p.dataVersion(ctx)
		if err == nil {
			err = p.publish(ctx, seen, now != version)
		}
		if err == nil {
			if now != version && version >= 0 && p.s.hub.Following() {
				hasty = hastyLooks
			}
			version = now
		}
		interval := p.s.opts.PollInterval
		if hasty > 0 {
			interval /= haste
		}
		timer.Reset(interval)
	}
}

func (p *poller) dataVersion(ctx context.Context) (version int64, err error) {
	if p.s.opts.ReadOnly {
		now, err := stampOf(p.s.path)
		if err != nil {
			return 0, err
		}
		return now.version(), nil
	}
	err = p.s.writer.do(&job{ctx: ctx, alone: true, run: func(c *conn) error {
		_, err := c.row(sqlDataVersion, func(cols *columns) { version = cols.int64() })
		return err
	}})
	return version, err
}

// publish checks the followed logs: all of them if another process wrote, else those that are new to the poller, whose
// followers may have missed what was written while they joined.
func (p *poller) publish(ctx context.Context, seen map[string]int64, written bool) error {
	if written {
		p.s.stops.Raise()
	}
	followed := map[string]bool{}
	for _, log := range p.s.hub.Logs() {
		followed[log] = true
		published, old := seen[log]
		if old && !written {
			continue
		}
		_, last, err := p.s.log.Bounds(ctx, log)
		if err != nil {
			return err
		}
		if last == published && old {
			continue
		}
		seen[log] = last
		events, err := p.s.log.Read(ctx, log, max(published, last-pollBatch), pollBatch)
		if err == nil && old && len(events) > 0 {
			p.s.hub.Publish(log, events)
		} else {
			p.s.hub.Wake(log)
		}
	}
	for log := range seen {
		if !followed[log] {
			delete(seen, log)
		}
	}
	return nil
}
