package redisstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/backend"
)

var (
	scriptRenew = about("renew", "renew the lease")
	scriptStop  = about("stop", "request a stop")
	scriptStage = about("stage", "stage")
)

// fenced returns the conflict of a token with the row that a script saw.
func fenced(id string, token int64, list []any) error {
	row, err := readRow(id, list)
	if err != nil {
		return err
	}
	return store.Conflict(cairn.CodeFenced, row, "session %q: the lease was lost: fencing token %d, now %d", id, token, row.Lease.Token)
}

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	r, err := s.ask(ctx, scriptRenew, id, token, ttl.Microseconds())
	if err != nil {
		return nil, err
	}
	if r.word() == "fenced" {
		return nil, fenced(id, token, r.list(1))
	}
	if r.text(2) == "" {
		return nil, nil
	}
	stop, err := readStop(r.text(2))
	return backend.StopOf(r.text(1), stop), err
}

// readStop reads a stop request as it is stored.
func readStop(text string) (*cairn.Stop, error) {
	at, data, ok := stamped(text)
	if !ok {
		return nil, cairn.Errorf(cairn.CodeCorrupt, "stored stop request has no time")
	}
	stop := &cairn.Stop{}
	if err := decode("stop request", data, stop); err != nil {
		return nil, err
	}
	stop.At = at
	return stop, nil
}

// RequestStop implements store.Store.
func (s *Store) RequestStop(ctx context.Context, id string, stop cairn.Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	text, err := encode("stop request", stop)
	if err != nil {
		return err
	}
	r, err := s.ask(ctx, scriptStop, id, stop.RunID, text, s.stopChannel())
	if err != nil || r.word() == "ok" {
		return err
	}
	row, err := readRow(id, r.list(1))
	if err != nil {
		return err
	}
	return store.Conflict(cairn.CodeNotRunning, row, "session %q: run %q is not running", id, stop.RunID)
}

// Stage implements store.Store.
func (s *Store) Stage(ctx context.Context, id string, token int64, pieces ...store.Staged) error {
	if err := store.ValidateStaged(pieces); err != nil {
		return err
	}
	args := []any{token}
	for _, p := range pieces {
		name, err := encode("piece", [2]string{p.StepID, p.Key})
		if err != nil {
			return err
		}
		args = append(args, name, string(p.Data))
	}
	r, err := s.ask(ctx, scriptStage, id, args...)
	if err == nil && r.word() == "fenced" {
		err = fenced(id, token, r.list(1))
	}
	return err
}

// readStaged reads what is staged for one step, or for all if stepID is empty.
func readStaged(list []any, stepID string) ([]store.Staged, error) {
	var pieces []store.Staged
	err := readNumbered("piece", list, func(field, data string) error {
		var name [2]string
		if err := decode("piece", field, &name); err != nil {
			return err
		}
		if stepID == "" || stepID == name[0] {
			pieces = append(pieces, store.Staged{StepID: name[0], Key: name[1], Data: json.RawMessage(data)})
		}
		return nil
	})
	return pieces, err
}
