package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

var scriptBranch = about("branch", "branch", reads)

// Branch implements driver.Store. The new session gets the other one's data of one moment, and is created a moment
// later.
func (s *Store) Branch(ctx context.Context, from string, at driver.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(to.ID); err != nil {
		return nil, err
	}
	if err := at.Commit(to).ValidateFor(driver.Abilities{MaxEvent: s.opts.MaxEvent}); err != nil {
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
		return nil, driver.UnknownCheckpoint(from, at.CheckpointID)
	case "messages":
		return nil, cairn.Invalid("messages", "%d: session %q has only %s", count, from, r.text(2))
	case "pruned":
		oldest, err := strconv.Atoi(r.text(2))
		if err != nil {
			return nil, unknown(scriptBranch, r)
		}
		return nil, driver.Pruned(from, *at.Messages, oldest)
	}
	state, err := foldChain(r.list(1))
	if err != nil {
		return nil, err
	}
	state = at.StateOr(state)
	w := &write{db: &s.database, log: s.log, id: to.ID, c: &driver.Commit{Create: to, Messages: at.Tail, Calls: at.Calls}, copied: r.list(2)}
	w.attempt = rand.Text()
	source := &cairn.Session{}
	var bad, worse error
	source.Summary.At, err = strconv.Atoi(r.text(3))
	source.Summary.From, bad = strconv.Atoi(r.text(4))
	worse = json.Unmarshal([]byte(r.text(5)), &source.TrustAt)
	if cmp.Or(err, bad, worse) != nil {
		return nil, unknown(scriptBranch, r)
	}
	w.d = plan.Branch(to, &at, state, len(w.copied), source)
	w.copied = w.copied[:w.d.FirstMessage]
	row, err := w.apply(ctx)
	if row == nil && err == nil {
		seen := &cairn.Session{ID: to.ID}
		if w.at != nil {
			seen = w.at.session
		}
		err = driver.Conflict(cairn.ErrExists, seen, "session %q already exists", to.ID)
	}
	return row, err
}
