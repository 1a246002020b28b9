package backend

import (
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Gathered is the data that a driver.Gatherer reads of a tree of one session.
type Gathered struct {
	Row *cairn.Session
	// Inside has a FirstState of -1 until a state is read.
	Inside      driver.Inside
	Log         driver.LogExtent
	Messages    []cairn.Message
	Runs        []cairn.Run
	Checkpoints []cairn.Checkpoint
	Calls       []cairn.PendingCall
	Queue       []driver.QueuedTurn
	Staged      []driver.Staged
	Cache       []driver.CacheEntry
	Events      []cairn.Event
	// Cut says that not all of it was read.
	Cut bool
}

// Gathers reports whether a tree may be gathered, as far as its root's row shows: no list of it fills more than one
// part.
func Gathers(row *cairn.Session) bool {
	return row.MessageCount <= driver.ExportPage && row.Turn <= driver.ExportPage
}

// Whole reports whether all of the tree was read, and none of it fills more than one part.
func (t *Gathered) Whole() bool {
	return !t.Cut && t.Inside.FirstState >= 0 && len(t.Inside.States) <= driver.ExportStates && len(t.Messages) == t.Row.MessageCount &&
		len(t.Checkpoints) <= driver.ExportPage && len(t.Calls) <= driver.ExportPage && len(t.Events) == int(t.Log.Last-t.Log.First)+1
}

// Parts returns the parts of the tree.
func (t *Gathered) Parts() []*driver.Part {
	head := &driver.SessionPart{Row: *t.Row, Secret: t.Row.Secret, Inside: t.Inside, Log: &t.Log}
	head.Inside.States = nil
	list := []*driver.Part{{Session: head}, {States: t.Inside.States}, {Messages: t.Messages}, {Runs: t.Runs}, {Checkpoints: t.Checkpoints},
		{Calls: t.Calls}, {Queue: t.Queue, Staged: t.Staged, Cache: t.Cache}, {Events: t.Events}}
	return slices.DeleteFunc(list, func(p *driver.Part) bool {
		return p.Session == nil && len(p.States)+len(p.Messages)+len(p.Runs)+len(p.Checkpoints)+len(p.Calls)+len(p.Queue)+len(p.Staged)+len(p.Cache)+len(p.Events) == 0
	})
}
