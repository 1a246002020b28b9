package redisstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/fastjson"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

var (
	scriptCheckpoints = about("checkpoints", "read checkpoints", reads)
	scriptPrune       = about("prune", "prune", frees)
)

// appendCheckpoint appends a checkpoint's record, without the time that precedes it. r is the row after its commit.
func appendCheckpoint(to []byte, cp *cairn.Checkpoint, r *storedRow) []byte {
	return append(strconv.AppendInt(openCheckpoint(to, cp, r), cp.LogSequence, 10), ']')
}

// openCheckpoint appends what precedes the log's sequence in a checkpoint's record; only a bracket follows that.
func openCheckpoint(to []byte, cp *cairn.Checkpoint, r *storedRow) []byte {
	to = append(to, '[')
	for _, n := range [...]int64{cp.Number, int64(cp.Turn), int64(cp.MessageCount), cp.StatePosition, r.frame,
		r.session.State.KeyframeBytes, r.session.State.ChangeBytes} {
		to = append(strconv.AppendInt(to, n, 10), ',')
	}
	to = append(fastjson.Text(to, cp.ParentID), ',')
	if named(cp.StepID, cp.RunID) {
		to = append(to, "null"...)
	} else {
		to = fastjson.Text(to, cp.RunID)
	}
	to = append(fastjson.Text(append(to, ','), cp.StepID), ',')
	return append(strconv.AppendInt(to, int64(cp.Step), 10), ',')
}

// named reports whether an id begins with that of its run and a slash, so that the run's id is not stored again.
func named(id, run string) bool {
	return len(id) > len(run) && run != "" && id[len(run)] == '/' && id[:len(run)] == run && strings.IndexByte(id, '/') == len(run)
}

// runOf returns the id of the run that an id is named after.
func runOf(id string) string {
	run, _, _ := strings.Cut(id, "/")
	return run
}

// readCheckpoint reads a checkpoint's record.
func readCheckpoint(session, id, record string) (*cairn.Checkpoint, error) {
	cp := &cairn.Checkpoint{ID: id, SessionID: session}
	at, text, err := dated("checkpoint", record)
	if err != nil {
		return nil, err
	}
	var frame, keyframe, changes int64
	var run *string
	err = backend.DecodeJSON("checkpoint", text, &[]any{&cp.Number, &cp.Turn, &cp.MessageCount, &cp.StatePosition, &frame, &keyframe,
		&changes, &cp.ParentID, &run, &cp.StepID, &cp.Step, &cp.LogSequence})
	if err != nil {
		return nil, err
	}
	if run != nil {
		cp.RunID = *run
	} else {
		cp.RunID = runOf(cp.StepID)
	}
	cp.CreatedAt = at
	return cp, nil
}

// Checkpoints implements driver.Store.
func (s *Store) Checkpoints(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Checkpoint], error) {
	return readPage(ctx, &s.database, scriptCheckpoints, id, q, 2, func(item reply) (cairn.Checkpoint, int64, error) {
		cp, err := readCheckpoint(id, item.text(0), item.text(1))
		if err != nil {
			return cairn.Checkpoint{}, 0, err
		}
		return *cp, cp.Number, nil
	})
}

// Prune implements driver.Store.
func (s *Store) Prune(ctx context.Context, id string, keep int) (int, error) {
	if keep < 1 {
		return 0, cairn.Invalid("keep", "must be at least 1, not %d", keep)
	}
	r, err := s.ask(ctx, scriptPrune, id, keep)
	if err != nil {
		return 0, err
	}
	n, _ := r[1].(int64)
	return int(n), nil
}
