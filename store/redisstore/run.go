package redisstore

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/fastjson"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

var (
	scriptRuns = about("runs", "read runs", reads)
	scriptSaid = about("said", "commit", reads)
)

// runOrigin is where a run began: its turn, log sequence, number of messages, state position and checkpoint.
type runOrigin struct {
	turn     int
	sequence int64
	messages int
	before   cairn.RunOrigin
}

func (o *runOrigin) UnmarshalJSON(raw []byte) error {
	fields := []any{&o.turn, &o.sequence, &o.messages, &o.before.StatePosition, &o.before.CheckpointID}
	return json.Unmarshal(raw, &fields)
}

// appendOrigin appends a run's origin, without the time that precedes it.
func appendOrigin(to []byte, run *cairn.Run) []byte {
	return closeOrigin(strconv.AppendInt(openOrigin(to, run), run.StartSequence, 10), run)
}

// openOrigin appends what precedes the log's sequence in a run's origin, and closeOrigin what follows it.
func openOrigin(to []byte, run *cairn.Run) []byte {
	return append(strconv.AppendInt(append(to, '['), int64(run.Turn), 10), ',')
}

func closeOrigin(to []byte, run *cairn.Run) []byte {
	to = append(strconv.AppendInt(append(to, ','), int64(run.FirstMessage), 10), ',')
	to = append(strconv.AppendInt(to, run.Before.StatePosition, 10), ',')
	return append(fastjson.Text(to, run.Before.CheckpointID), ']')
}

// runData is the stored form of a run. It omits what the key and the origin have, and the end time if the server sets
// it.
type runData struct {
	*cairn.Run
	ID            string          `json:"id,omitempty"`
	SessionID     string          `json:"session_id,omitempty"`
	Turn          int             `json:"turn,omitempty"`
	StartSequence int64           `json:"start_sequence,omitempty"`
	FirstMessage  int             `json:"first_message,omitempty"`
	Before        cairn.RunOrigin `json:"before,omitzero"`
	StartedAt     time.Time       `json:"started_at,omitzero"`
	EndedAt       time.Time       `json:"ended_at,omitzero"`
}

func runDataOf(run *cairn.Run, over bool) runData {
	data := runData{Run: run}
	if !over {
		data.EndedAt = run.EndedAt
	}
	return data
}

// appendRun appends the data of a run. textAt is [plan.Delta.TextAt].
func appendRun(to []byte, run *cairn.Run, over bool, textAt int) ([]byte, error) {
	if textAt > 0 {
		to = strconv.AppendInt(append(to, '@'), int64(textAt), 10)
	}
	raw, err := json.Marshal(runDataOf(plan.WithoutText(run, textAt), over))
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInvalid, "encode run: %w", err)
	}
	return append(to, raw...), nil
}

// appendEnded is appendRun with the time of the run's end, if it has ended.
func appendEnded(to []byte, run *cairn.Run, textAt int) ([]byte, error) {
	if !run.EndedAt.IsZero() {
		to = strconv.AppendInt(to, micros(run.EndedAt), 10)
	}
	return appendRun(to, run, !run.EndedAt.IsZero(), textAt)
}

// readRun decodes a run from its origin and its data. message is the one that it has its text from; without it, such a
// run has no text.
func readRun(session, id, origin, data, message string) (run cairn.Run, err error) {
	var o runOrigin
	started, place, err := dated("run", origin)
	if err != nil {
		return run, err
	}
	if err := backend.DecodeJSON("run", place, &o); err != nil {
		return run, err
	}
	ended, text, ok := stamped(data)
	if !ok {
		return run, cairn.Errorf(cairn.ErrCorrupt, "stored run %q has no time", id)
	}
	if strings.HasPrefix(text, "@") {
		text = text[max(strings.IndexByte(text, '{'), 0):]
	}
	if err := backend.DecodeJSON("run", text, &run); err != nil {
		return run, err
	}
	run.ID, run.SessionID, run.Turn = id, session, o.turn
	run.StartedAt, run.StartSequence, run.FirstMessage, run.Before = started, o.sequence, o.messages, o.before
	if !ended.IsZero() {
		run.EndedAt = ended
	}
	if message != "" {
		_, text, _ := stamped(message)
		err = backend.ReadText(&run, strings.TrimPrefix(text, "/"))
	}
	return run, err
}

// said returns the runs whose texts are in a session's messages from an index on, and the session's version.
func (d *database) said(ctx context.Context, id string, from int) (version string, runs []cairn.Run, err error) {
	r, err := d.ask(ctx, scriptSaid, id, from)
	if err != nil {
		return "", nil, err
	}
	for list := reply(r.list(2)); len(list) >= runTexts; list = list[runTexts:] {
		run, err := readRunOf(id, list)
		if err != nil {
			return "", nil, err
		}
		runs = append(runs, run)
	}
	return r.text(1), runs, nil
}

// runTexts is how many texts a script returns for each run.
const runTexts = 4

func readRunOf(session string, item reply) (cairn.Run, error) {
	return readRun(session, item.text(0), item.text(1), item.text(2), item.text(3))
}

// Runs implements driver.Store.
func (s *Store) Runs(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Run], error) {
	return readPage(ctx, &s.database, scriptRuns, id, q, runTexts, func(item reply) (cairn.Run, int64, error) {
		run, err := readRunOf(id, item)
		return run, int64(run.Turn), err
	})
}

// readPage reads one page of a session's runs or checkpoints. The script takes the number of the last item on the page
// before, how many items to read, and the direction. It returns a fixed number of texts for each item. The cursor is
// the number of the last item.
func readPage[T any](ctx context.Context, d *database, sc *script, id string, q driver.PageQuery, texts int,
	read func(reply) (item T, number int64, err error)) (page driver.Page[T], err error) {
	last := int64(0)
	if q.Newest {
		last = math.MaxInt32
	}
	if q.Cursor != "" {
		if last, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil {
			return page, cairn.Invalid("cursor", "%q does not belong to this list", q.Cursor)
		}
	}
	r, err := d.ask(ctx, sc, id, last, q.Size()+1, q.Newest)
	if err != nil {
		return page, err
	}
	list := reply(r.list(1))
	for i := 0; i+texts <= len(list); i += texts {
		if len(page.Items) == q.Size() {
			page.Next = strconv.FormatInt(last, 10)
			break
		}
		var item T
		if item, last, err = read(list[i : i+texts]); err != nil {
			return driver.Page[T]{}, err
		}
		page.Items = append(page.Items, item)
	}
	return page, nil
}
