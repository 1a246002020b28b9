package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/fastjson"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

var scriptRead = about("read", "read", reads)

// Read implements driver.Store. It is one script.
func (s *Store) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	recent := ""
	if want.Recent {
		recent = "recent"
	}
	r, err := s.ask(ctx, scriptRead, id, letters(&want), want.Checkpoint, want.Run, max(want.From, 0), want.Size(), recent)
	switch {
	case err != nil:
		return nil, err
	case r.word() == "checkpoint":
		return nil, driver.UnknownCheckpoint(id, want.Checkpoint)
	case r.word() == "run":
		return nil, driver.UnknownRun(id, want.Run)
	}
	snap := &driver.Contents{}
	row, err := readStored(id, r.list(1))
	if err != nil {
		return nil, err
	}
	snap.Session, snap.Stop = row.session, row.stop
	if err := readPast(snap, &want, r); err != nil {
		return nil, err
	}
	if snap.Staged, err = readStaged(r.list(6), want.StagedStep); err != nil {
		return nil, err
	}
	if snap.Calls, err = readCalls(r.list(7), snap.Session.RootID); err != nil {
		return nil, err
	}
	slices.SortFunc(snap.Calls, func(a, b cairn.PendingCall) int { return driver.CompareCalls(&a, &b) })
	if snap.Cache, err = readCache(r.list(8)); err != nil {
		return nil, err
	}
	snap.Queue, err = readQueue(r.list(9))
	return snap, err
}

// letters encodes want for the script, a letter for each part.
func letters(want *driver.Want) string {
	var text strings.Builder
	for _, part := range []struct {
		is     bool
		letter byte
	}{{want.Checkpoint != "", 'p'}, {want.Run != "", 'r'}, {want.State, 's'}, {want.Messages, 'm'}, {want.Staged, 'g'},
		{want.Calls, 'w'}, {want.Cache, 'h'}, {want.Queue, 'q'}} {
		if part.is {
			text.WriteByte(part.letter)
		}
	}
	return text.String()
}

// readPast reads what was wanted of a session's history.
func readPast(snap *driver.Contents, want *driver.Want, r reply) (err error) {
	id := snap.Session.ID
	if want.Checkpoint != "" {
		if snap.Checkpoint, err = readCheckpoint(id, want.Checkpoint, r.text(2)); err != nil {
			return err
		}
	}
	if want.Run != "" {
		fields := reply(r.list(3))
		run, err := readRun(id, want.Run, fields.text(0), fields.text(1), fields.text(2))
		if err != nil {
			return err
		}
		snap.Run = &run
	}
	if want.State {
		if snap.State, err = foldChain(r.list(4)); err != nil {
			return err
		}
	}
	snap.Messages, err = readMessages(r.list(5))
	return err
}

// appendMessage appends a message in its stored form, without the time that precedes it.
func appendMessage(to []byte, m *cairn.Message) ([]byte, error) {
	if !named(m.ID, m.RunID) {
		return fastjson.Message(to, m)
	}
	own := *m
	own.RunID = ""
	return fastjson.Message(append(to, '/'), &own)
}

func readMessages(list []any) ([]cairn.Message, error) {
	var messages []cairn.Message
	for _, item := range list {
		at, data, ok := stamped(plain(item))
		var m cairn.Message
		data, short := strings.CutPrefix(data, "/")
		if err := backend.DecodeJSON("message", data, &m); err != nil {
			return nil, err
		}
		if short {
			m.RunID = runOf(m.ID)
		}
		if !ok {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "stored message has no time")
		}
		if !at.IsZero() {
			m.CreatedAt = at
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// readCache reads the tool-result cache of a session, by key.
func readCache(list []any) ([]driver.CacheEntry, error) {
	var entries []driver.CacheEntry
	for i := 0; i+1 < len(list); i += 2 {
		var e driver.CacheEntry
		if err := backend.DecodeJSON("cached result", plain(list[i+1]), &e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b driver.CacheEntry) int { return strings.Compare(a.Key, b.Key) })
	return entries, nil
}

// readNumbered reads a hash whose values begin with a number and a colon, in the order of the numbers.
func readNumbered(what string, list []any, read func(field, data string) error) error {
	type item struct {
		number      int
		field, data string
	}
	var items []item
	for i := 0; i+1 < len(list); i += 2 {
		number, data, ok := strings.Cut(plain(list[i+1]), ":")
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			return cairn.Errorf(cairn.ErrCorrupt, "stored %s has no number", what)
		}
		items = append(items, item{n, plain(list[i]), data})
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.number, b.number) })
	for _, it := range items {
		if err := read(it.field, it.data); err != nil {
			return err
		}
	}
	return nil
}

// readQueue decodes the queued turns.
func readQueue(list []any) (turns []driver.QueuedTurn, err error) {
	err = readNumbered("queued turn", list, func(field, data string) error {
		turn := driver.QueuedTurn{ID: field}
		err := backend.DecodeJSON("queued turn", data, &turn)
		turns = append(turns, turn)
		return err
	})
	return turns, err
}

// foldChain returns the state at the end of a chain: a keyframe and the changes since.
func foldChain(list []any) (json.RawMessage, error) {
	if len(list) == 0 {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "stored state has no keyframe")
	}
	keyframe := json.RawMessage(plain(list[0]))
	if len(list) == 1 {
		if !json.Valid(keyframe) {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "stored state is not valid JSON")
		}
		return keyframe, nil
	}
	changes := make([][]cairn.Op, len(list)-1)
	for i := range changes {
		if err := backend.DecodeJSON("state change", plain(list[i+1]), &changes[i]); err != nil {
			return nil, err
		}
	}
	return driver.FoldState(keyframe, changes)
}

// readStaged reads what is staged for one step, or for all if stepID is empty.
func readStaged(list []any, stepID string) ([]driver.Staged, error) {
	var pieces []driver.Staged
	err := readNumbered("piece", list, func(field, data string) error {
		var name [2]string
		if err := backend.DecodeJSON("piece", field, &name); err != nil {
			return err
		}
		if stepID == "" || stepID == name[0] {
			pieces = append(pieces, driver.Staged{StepID: name[0], Key: name[1], Data: json.RawMessage(data)})
		}
		return nil
	})
	return pieces, err
}
