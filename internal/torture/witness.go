package torture

import (
	"context"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	facts "github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

// witness is a store that records what it acknowledged, and reports to the killer before and after each write.
type witness struct {
	driver.Store
	journal *journal
	reach   func(point)
	leases  sync.Map // leases that the process renewed, by session and token
}

// recorded is a witness that also keeps records, as its store does.
type recorded struct {
	*witness
	driver.RecordProvider
}

// lease identifies a lease of a session.
type lease struct {
	session string
	token   int64
}

// point is a place in a process's life at which it may be killed.
type point string

const (
	beforeCommit point = "before_commit"
	afterCommit  point = "after_commit"
	beforeStage  point = "before_stage"
	afterStage   point = "after_stage"
	beforeAppend point = "before_append"
	afterAppend  point = "after_append"
)

// points are all points. Those around a commit come first and repeatedly, so that they are hit more often.
var points = []point{beforeCommit, beforeCommit, beforeCommit, afterCommit, afterCommit, beforeStage, afterStage, beforeAppend, afterAppend}

// Dialect implements driver.Execer. It is empty if the store does not.
func (w *witness) Dialect() string {
	if x, ok := w.Store.(driver.Execer); ok {
		return x.Dialect()
	}
	return ""
}

// Commit implements driver.Store.
func (w *witness) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	if c.RewindRun != "" {
		w.journal.write(record{Kind: undoing, Session: id, Undone: c.RewindRun})
	}
	w.reach(beforeCommit)
	row, err := w.Store.Commit(ctx, id, c)
	w.reach(afterCommit)
	if err != nil {
		return row, err
	}
	r := record{Kind: committed, Session: id, Root: row.RootID, Saw: c.Guard.Version, Version: row.Version, Token: row.Lease.Token, Messages: row.MessageCount,
		Took: c.Lease.Action == driver.LeaseTake, Dropped: c.DropStaged, Undone: c.RewindRun}
	if c.StartRun != nil && (row.RunID != c.StartRun.ID || row.Lease.Owner != c.Lease.Owner) {
		return row, nil // the run had begun before: nothing was written
	}
	if c.Checkpoint != nil && row.CheckpointID != c.Checkpoint.ID {
		return row, nil // another attempt had committed the step: nothing was written
	}
	for i := range c.Messages {
		if d := digestOf(&c.Messages[i]); d != "" {
			r.Digests = append(r.Digests, d)
		}
		for _, result := range c.Messages[i].ToolResults() {
			r.Results = append(r.Results, result.CallID)
		}
	}
	if c.Checkpoint != nil {
		r.Step = c.Checkpoint.StepID
	}
	if c.StartRun != nil {
		r.Began = c.StartRun.ID
	}
	if c.EndRun != nil {
		r.Ended, r.Status = c.EndRun.ID, string(c.EndRun.Status)
	}
	if c.Enqueue != nil && !c.Enqueue.Context {
		r.Queued, r.Text, r.Steer = c.Enqueue.ID, c.Enqueue.Messages[0].Text(), c.Enqueue.Steer
	}
	w.journal.write(r)
	return row, nil
}

// Stage implements driver.Store.
func (w *witness) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	w.reach(beforeStage)
	err := w.Store.Stage(ctx, id, token, pieces...)
	w.reach(afterStage)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		kept, err := facts.Decode([]driver.Staged{p}, p.StepID, 0) // omits pieces that do not outlast the lease
		if err != nil {
			return err
		}
		if len(kept) == 0 {
			continue
		}
		r := record{Kind: staged, Session: id, Token: token, Key: p.Key}
		switch f := kept[0].Fact.(type) {
		case *facts.Result:
			r.Call = f.Result.CallID
		case *facts.Reply:
			if f.Message != nil {
				r.Digests = []string{digestOf(f.Message)}
			}
		}
		w.journal.write(r)
	}
	return nil
}

// Read implements driver.Store.
func (w *witness) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	since := time.Now()
	found, err := w.Store.Read(ctx, id, want)
	if err == nil && want.Staged {
		w.journal.write(record{Kind: looked, Session: id, Since: since})
	}
	return found, err
}

// Renew implements driver.Store. Every holder of a lease renews it, except right after taking it.
func (w *witness) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	stop, err := w.Store.Renew(ctx, id, token, ttl)
	if err != nil {
		return stop, err
	}
	if _, known := w.leases.LoadOrStore(lease{id, token}, true); !known {
		w.journal.write(record{Kind: working, Session: id, Token: token})
	}
	return stop, nil
}

// Self implements driver.Store. A witness hides what it does not record.
func (w *witness) Self() driver.Store { return w }

// EventLog implements driver.LogProvider.
func (w *witness) EventLog() driver.Log { return witnessed(logOf(w.Store), w.reach) }

// witnessed returns a log that reports to the killer before and after each append.
func witnessed(log driver.Log, reach func(point)) driver.Log {
	plain := witnessLog{log, reach}
	if f, ok := log.(driver.Fencer); ok {
		return &fencedLog{plain, f}
	}
	return &plain
}

type witnessLog struct {
	driver.Log
	reach func(point)
}

// Self implements driver.Log.
func (w *witnessLog) Self() driver.Log { return w }

// Append implements driver.Log.
func (w *witnessLog) Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (int64, error) {
	w.reach(beforeAppend)
	last, err := w.Log.Append(ctx, log, expect, events...)
	w.reach(afterAppend)
	return last, err
}

type fencedLog struct {
	witnessLog
	fencer driver.Fencer
}

// AppendFenced implements driver.Fencer.
func (w *fencedLog) AppendFenced(ctx context.Context, log string, expect int64, writer driver.Writer, events ...cairn.Event) (int64, error) {
	w.reach(beforeAppend)
	last, err := w.fencer.AppendFenced(ctx, log, expect, writer, events...)
	w.reach(afterAppend)
	return last, err
}
