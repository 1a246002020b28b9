package redisstore

import (
	"context"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

var scriptBranch = aboutReading("branch", "branch")

// Branch implements store.Store. The new session has what the other one had at one moment, and is made a moment later.
func (s *Store) Branch(ctx context.Context, from string, at store.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(to.ID); err != nil {
		return nil, err
	}
	var count any = ""
	if at.Messages != nil {
		count = *at.Messages
	}
	r, err := s.ask(ctx, scriptBranch, from, at.CheckpointID, count)
	if err != nil {
		return nil, err
	}
	switch r.word() {
	case "checkpoint":
		return nil, store.UnknownCheckpoint(from, at.CheckpointID)
	case "messages":
		return nil, cairn.Invalid("messages", "%d: session %q has %s", count, from, r.text(2))
	case "pruned":
		oldest, err := strconv.Atoi(r.text(2))
		if err != nil {
			return nil, unknown(scriptBranch, r)
		}
		return nil, store.Pruned(from, *at.Messages, oldest)
	}
	state, err := foldChain(r.list(1))
	if err != nil {
		return nil, err
	}
	c := &store.Commit{Guard: store.Guard{New: true}, Create: to, InitialState: state}
	p, err := s.plan(to.ID, c)
	if err != nil {
		return nil, err
	}
	// The messages go as they are stored, so they have their times already.
	messages := r.list(2)
	p.args[2], p.texts = len(messages), append(p.texts, messages...)
	for range messages {
		p.rare.Dated = append(p.rare.Dated, true)
	}
	return s.commit(ctx, to.ID, c, p)
}
