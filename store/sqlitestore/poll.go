package sqlitestore

import (
	"context"
	"sync"
	"time"
)

// On the write connection this changes with the commits of other connections only, which are other processes' (or other
// Stores'): this process's own writers publish to its followers themselves.
const sqlDataVersion = `PRAGMA data_version`

// pollBatch is how many events another process wrote are published at once; followers fetch what is older themselves.
const pollBatch = 512

const (
	// haste is how many times more often the file is polled while another process writes a log that may be followed
	// here.
	haste = 10
	// hastyLooks is how many such polls without news there are before the poller returns to the usual interval.
	hastyLooks = 50
)

// poller notices what other processes wrote and publishes it to the followers of this one. It runs while there are any.
type poller struct {
	s *Store

	mu     sync.Mutex
	users  int
	closed bool
	cancel context.CancelFunc // of the one that runs for the users
	run    sync.WaitGroup     // that one, and those before it that are about to end
}

// join starts the poller if it does not run.
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

// leave stops the poller with its last user.
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
	seen := map[string]int64{} // the last sequence of each followed log that was published to its followers
	version := int64(-1)
	for hasty := 0; ; hasty-- {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		// An error here is one of storage or the end; followers meet it themselves when they read.
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
	err = p.s.writer.do(&job{ctx: ctx, alone: true, run: func(c *conn) error {
		_, err := c.row(sqlDataVersion, func(cols *columns) { version = cols.int64() })
		return err
	}})
	return version, err
}

// publish looks at the logs that are followed: at all of them if another process wrote, else at those that are new
// here, whose followers may have missed what was written while they joined.
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
