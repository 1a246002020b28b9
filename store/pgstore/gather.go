package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// gatherRoots restricts sessions s to those of $1 that are a tree by themselves, by sessions_id and sessions_root.
const gatherRoots = `
	s.id = ANY ($1::text[]) AND s.root_id = s.id AND NOT EXISTS (SELECT FROM {schema}.sessions o WHERE o.root_id = s.id AND o.id <> s.id)`

// logOfRoot is the name of the log of a tree: cairn.Session.Log of its root s.
const logOfRoot = `s.id || CASE s.incarnation WHEN '' THEN '' ELSE '@' || s.incarnation END`

// By the key of heads and logs_name.
const sqlGatherSessions = `
	SELECT` + sessionColumns + `, coalesce(s.sweep_at <= statement_timestamp(), FALSE), h.due_at, coalesce(l.first, 1), coalesce(l.last, 0),
		l.dropped_at IS NOT NULL
	FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key LEFT JOIN {schema}.logs l ON l.name = ` + logOfRoot + `
	WHERE` + gatherRoots

// gatherStatement returns a statement that reads a list of each tree: n columns of from in an order, up to $3 rows of a
// tree, and $2 bytes of data in all, at least one row. The columns begin with the key of the session and the size of the
// data. By the keys of the lists' tables.
func gatherStatement(n int, columns, from, order, data string) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	list := strings.Join(names, ", ")
	return `
	SELECT g.key, g.size, ` + list + `
	FROM (
		SELECT s.key, x.*, sum(x.size) OVER (ORDER BY s.key, x.number) - x.size AS before
		FROM {schema}.sessions s, LATERAL (
			SELECT ` + columns + `, row_number() OVER (ORDER BY ` + order + `), octet_length(` + data + `)::bigint
			FROM ` + from + `
			ORDER BY ` + order + `
			LIMIT $3) x (` + list + `, number, size)
		WHERE` + gatherRoots + `) g
	WHERE g.before <= $2::bigint
	ORDER BY g.key, g.number`
}

// gatherLists are the statements that read the lists of trees, with the functions that read their rows.
var gatherLists = []struct {
	text string
	read func(*tree, pgx.Rows) error
}{
	{gatherStatement(3, `t.position, t.keyframe, t.data`, `{schema}.state t WHERE t.session = s.key`, `t.position`, `t.data`), (*tree).state},
	{gatherStatement(3, `m.created_at, coalesce(m.run, r.id, ''), m.data`,
		`{schema}.messages m LEFT JOIN {schema}.runs r ON r.session = m.session AND r.turn = m.turn WHERE m.session = s.key`, `m.number`, `m.data`),
		func(t *tree, rows pgx.Rows) error { return into(&t.Messages, readMessage)(rows) }},
	{gatherStatement(10, runColumns, `{schema}.runs r WHERE r.session = s.key`, `r.turn`, `r.data`), (*tree).run},
	{gatherStatement(12, checkpointColumns, `{schema}.checkpoints cp LEFT JOIN {schema}.runs r ON r.session = cp.session AND r.turn = cp.turn
			WHERE cp.session = s.key`, `cp.number`, `cp.id`), (*tree).checkpoint},
	{gatherStatement(10, callList, `{schema}.calls c WHERE c.session = s.key`, `c.created_at, c.root_id, c.id`, `c.data`),
		func(t *tree, rows pgx.Rows) error { return into(&t.Calls, readCall)(rows) }},
	{gatherStatement(2, `q.id, q.data`, `{schema}.queue q WHERE q.session = s.key`, `q.number`, `q.data`),
		func(t *tree, rows pgx.Rows) error { return into(&t.Queue, readTurn)(rows) }},
	{gatherStatement(3, `t.step_id, t.key, t.data`, `{schema}.staged t WHERE t.session = s.key`, `t.number`, `t.data`),
		func(t *tree, rows pgx.Rows) error { return into(&t.Staged, readPiece)(rows) }},
	{gatherStatement(1, `e.data`, `{schema}.cache e WHERE e.session = s.key`, `e.key`, `e.data`),
		func(t *tree, rows pgx.Rows) error { return into(&t.Cache, readEntry)(rows) }},
	{gatherStatement(4, `l.first - 1, e.last, e.dated_at, e.data`,
		`{schema}.logs l JOIN {schema}.events e ON e.log = l.key WHERE l.name = `+logOfRoot, `e.last`, `e.data`), (*tree).batch},
}

// Gather implements driver.Gatherer, with one statement for each table, in one round trip.
func (s *Store) Gather(ctx context.Context, roots []string, bytes int) (map[string][]*driver.Part, error) {
	var g *gathering
	err := s.try(ctx, "read session trees", reads, func(ctx context.Context, c *conn) error {
		g = &gathering{left: int64(bytes), sessions: map[int64]*tree{}}
		list := []reading{{sqlGatherSessions, []any{roots}, g.row}}
		for _, l := range gatherLists {
			list = append(list, reading{l.text, []any{roots, bytes, driver.ExportPage + 1}, g.list(l.read)})
		}
		return c.view(ctx, list...)
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
	left     int64 // bytes that may still be read
	sessions map[int64]*tree
}

// tree is what is read of a tree.
type tree struct{ backend.Gathered }

// row reads a row of sqlGatherSessions. It leaves out a tree that is to expire, whose log was dropped, or that has more of
// something than one part holds.
func (g *gathering) row(rows pgx.Rows) error {
	r := &storedRow{}
	t := &tree{backend.Gathered{Inside: driver.Inside{FirstState: -1}}}
	var due *time.Time
	var dropped bool
	if err := r.read(rows, &r.over, &due, &t.Log.First, &t.Log.Last, &dropped); err != nil {
		return err
	}
	if r.over || dropped || !backend.Gathers(r.session) || t.Log.Last-t.Log.First >= driver.ExportPage {
		return nil
	}
	stop, err := r.stop.decode()
	t.Row, t.Inside.Checkpoints, t.Inside.DueSince, t.Inside.Stop = r.session, r.checkpoints, instant(due), stop
	g.sessions[r.key] = t
	return err
}

// list reads the rows of a list. Once there is no room left, the trees that follow are cut, and so is the last one that
// was read: more of its rows may have been left out.
func (g *gathering) list(read func(*tree, pgx.Rows) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var row listed
		row.Rows = rows
		if err := row.place(); err != nil {
			return err
		}
		if g.left > 0 {
			g.left -= row.size
		}
		if g.left <= 0 {
			for key, t := range g.sessions {
				t.Cut = t.Cut || key >= row.key
			}
			return nil
		}
		t := g.sessions[row.key]
		if t == nil {
			return nil
		}
		return read(t, &row)
	}
}

// listed is a row of a list of trees. Scan reads the columns of the list.
type listed struct {
	pgx.Rows
	key, size int64
}

// place reads the columns before those of the list.
func (r *listed) place() error {
	into := make([]any, len(r.FieldDescriptions()))
	into[0], into[1] = &r.key, &r.size
	return r.Rows.Scan(into...)
}

func (r *listed) Scan(into ...any) error { return r.Rows.Scan(append([]any{nil, nil}, into...)...) }

func (t *tree) state(rows pgx.Rows) error {
	var position int64
	change, err := readChange(rows, &position)
	if t.Inside.FirstState < 0 {
		t.Inside.FirstState = position
	}
	t.Inside.States = append(t.Inside.States, change)
	return err
}

func (t *tree) run(rows pgx.Rows) error {
	run, err := readRun(rows, t.Row.ID)
	t.Runs = append(t.Runs, run)
	return err
}

func (t *tree) checkpoint(rows pgx.Rows) error {
	cp, err := readCheckpoint(rows, t.Row.ID)
	t.Checkpoints = append(t.Checkpoints, cp)
	return err
}

func (t *tree) batch(rows pgx.Rows) (err error) {
	t.Events, err = readEvents(t.Events, rows, int(t.Log.Last-t.Log.First)+1)
	return err
}
