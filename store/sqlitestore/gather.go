package sqlitestore

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

// Statements that read what several sessions or logs have. Each takes a JSON list of their keys or names, in order of the
// keys. Joins that are CROSS JOINs are made in the order in which they are written.
var sqlGatherSessions = `
	SELECT` + sessionColumns + `
	FROM json_each(?1) w CROSS JOIN sessions s ON s.id = w.value CROSS JOIN heads h ON h.session = s.key
	WHERE s.root_id = s.id AND (SELECT count(*) FROM (SELECT 1 FROM sessions o WHERE o.root_id = s.id LIMIT 2)) = 1
	ORDER BY s.key`

const (
	gatherOwner = `place >> 31`
	gatherFrom  = ` w CROSS JOIN `
	gatherPlace = ` ON place >= w.value << 31 AND place < (w.value + 1) << 31 ORDER BY place`

	sqlGatherStates   = `SELECT ` + gatherOwner + `, ` + placeNumber + `, keyframe, data FROM json_each(?1)` + gatherFrom + `state` + gatherPlace
	sqlGatherMessages = `SELECT ` + gatherOwner + `, created_at, run_length, data FROM json_each(?1)` + gatherFrom + `messages` + gatherPlace
	sqlGatherRuns     = `SELECT ` + gatherOwner + `, ` + placeNumber + `, runs.id, started_at, start_sequence, first_message, before_checkpoint,
		before_position, data,` + runText + ` FROM json_each(?1)` + gatherFrom + `runs` + gatherPlace
	sqlGatherQueue = `SELECT ` + gatherOwner + `, q.id, data FROM json_each(?1)` + gatherFrom + `queue q` + gatherPlace

	sqlGatherCheckpoints = `
		SELECT t.session, t.id, step_id, run_id, turn, step, number, parent_id, message_count, state_position, log_sequence, created_at
		FROM json_each(?1) w CROSS JOIN checkpoints t ON t.session = w.value
		ORDER BY t.session, t.number`

	sqlGatherCalls = `
		SELECT t.session, t.data FROM json_each(?1) w CROSS JOIN calls t ON t.session = w.value
		ORDER BY t.session, t.created_at, t.root_id, t.id`

	sqlGatherStaged = `
		SELECT t.session, t.step_id, t.key, t.data FROM json_each(?1) w CROSS JOIN staged t ON t.session = w.value
		ORDER BY t.session, t.number`

	sqlGatherCache = `
		SELECT t.session, t.data FROM json_each(?1) w CROSS JOIN cache t ON t.session = w.value
		ORDER BY t.session, t.key`

	sqlGatherLogs = `SELECT l.name, l.key, l.first, l.last, l.dropped_at FROM json_each(?1) w CROSS JOIN logs l ON l.name = w.value`

	sqlGatherEvents = `SELECT ` + gatherOwner + `, ` + placeNumber + `, data FROM json_each(?1)` + gatherFrom + `events` + gatherPlace
)

// Gather implements driver.Gatherer, with one statement for each table.
func (s *Store) Gather(ctx context.Context, roots []string, bytes int) (map[string][]*driver.Part, error) {
	var g *gathering
	err := s.readers.view(ctx, func(c *conn) error {
		g = &gathering{ctx: ctx, c: c, left: bytes, sessions: map[int64]*gathered{}, logs: map[int64]*gathered{}}
		return g.read(roots)
	})
	if err != nil {
		return nil, err
	}
	trees := map[string][]*driver.Part{}
	for _, t := range g.sessions {
		if t.Whole() {
			trees[t.Row.ID] = t.Parts()
		}
	}
	return trees, nil
}

// gathering is what is read of several trees.
type gathering struct {
	ctx      context.Context // of one call
	c        *conn
	left     int // bytes that may still be read
	sessions map[int64]*gathered
	logs     map[int64]*gathered
}

// gathered is what is read of a tree.
type gathered struct{ backend.Gathered }

func (g *gathering) read(roots []string) error {
	if err := g.rows(roots); err != nil || len(g.sessions) == 0 {
		return err
	}
	if err := g.extents(); err != nil {
		return err
	}
	for _, list := range []struct {
		text string
		of   map[int64]*gathered
		read func(*gathered, *columns)
	}{
		{sqlGatherStates, g.sessions, (*gathered).state},
		{sqlGatherMessages, g.sessions, func(t *gathered, cols *columns) { t.Messages = append(t.Messages, readMessage(cols)) }},
		{sqlGatherRuns, g.sessions, func(t *gathered, cols *columns) { t.Runs = append(t.Runs, readRun(cols, t.Row.ID)) }},
		{sqlGatherCheckpoints, g.sessions, func(t *gathered, cols *columns) {
			t.Checkpoints = append(t.Checkpoints, *readCheckpoint(cols, t.Row.ID))
		}},
		{sqlGatherCalls, g.sessions, func(t *gathered, cols *columns) { t.Calls = append(t.Calls, readCall(cols)) }},
		{sqlGatherQueue, g.sessions, func(t *gathered, cols *columns) { t.Queue = append(t.Queue, readTurn(cols)) }},
		{sqlGatherStaged, g.sessions, func(t *gathered, cols *columns) {
			t.Staged = append(t.Staged, driver.Staged{StepID: cols.text(), Key: cols.text(), Data: json.RawMessage(cols.text())})
		}},
		{sqlGatherCache, g.sessions, func(t *gathered, cols *columns) { t.Cache = append(t.Cache, readEntry(cols)) }},
		{sqlGatherEvents, g.logs, (*gathered).batch},
	} {
		if err := g.list(list.text, list.of, list.read); err != nil {
			return err
		}
	}
	return nil
}

// rows reads the rows of the trees that have one session. One that is to expire, or has more of something than one part
// holds, is left out.
func (g *gathering) rows(roots []string) error {
	names, _ := json.Marshal(roots)
	now := stored(g.c.clock())
	return g.c.query(g.ctx, sqlGatherSessions, func(cols *columns) bool {
		r := readSession(cols)
		r.session.AsOf = now
		if cols.err != nil || g.c.overdueAt(r.session, r.session.RootID, r.sweep) != nil || !backend.Gathers(r.session) {
			return true
		}
		t := &gathered{backend.Gathered{Row: r.session, Inside: driver.Inside{FirstState: -1, Checkpoints: r.checkpoints, DueSince: fromMicros(r.wait.Due)},
			Log: driver.LogExtent{First: 1}}}
		if t.Inside.Stop, cols.err = decodeStop(r.stop); cols.err == nil {
			g.sessions[r.key] = t
		}
		return true
	}, string(names))
}

// extents reads the extents of the trees' logs.
func (g *gathering) extents() error {
	byName := map[string]*gathered{}
	for _, t := range g.sessions {
		byName[t.Row.Log()] = t
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	list, _ := json.Marshal(names)
	return g.c.query(g.ctx, sqlGatherLogs, func(cols *columns) bool {
		name, key := cols.text(), cols.int64()
		if t := byName[name]; t != nil {
			t.Log.First, t.Log.Last = cols.int64(), cols.int64()
			if t.Cut = cols.int64() > 0 || t.Log.Last-t.Log.First >= driver.ExportPage; !t.Cut && t.Log.Last >= t.Log.First {
				g.logs[key] = t
			}
		}
		return true
	}, string(list))
}

// list runs a statement whose first column is the key of a session or log. Once there is no room left, the trees that
// are not read to the end are cut.
func (g *gathering) list(text string, of map[int64]*gathered, read func(*gathered, *columns)) error {
	keys := make([]int64, 0, len(of))
	for key, t := range of {
		if !t.Cut {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	names, _ := json.Marshal(keys)
	full, last := false, int64(0)
	err := g.c.query(g.ctx, text, func(cols *columns) bool {
		last = cols.int64()
		if full = g.left <= 0; full {
			return false
		}
		g.left -= cols.size()
		if t := of[last]; t != nil && cols.err == nil {
			read(t, cols)
		}
		return true
	}, string(names))
	if full {
		for _, key := range keys {
			of[key].Cut = of[key].Cut || key >= last
		}
	}
	return err
}

func (t *gathered) state(cols *columns) {
	if number := cols.int64(); t.Inside.FirstState < 0 {
		t.Inside.FirstState = number
	}
	t.Inside.States = append(t.Inside.States, readChange(cols))
}

func (t *gathered) batch(cols *columns) {
	readBatch(cols, &t.Events, t.Log.First-1, int(t.Log.Last-t.Log.First)+1)
}
