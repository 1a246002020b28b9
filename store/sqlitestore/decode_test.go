package sqlitestore

import (
	sqldriver "database/sql/driver"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// decoders are the readers of rows, each with the number of its columns.
var decoders = []struct {
	columns int
	read    func(*columns)
}{
	{38, func(c *columns) { readSession(c) }},
	{9, func(c *columns) { readRun(c, "session") }},
	{11, func(c *columns) { readCheckpoint(c, "session") }},
	{2, func(c *columns) { readBatch(c, &[]cairn.Event{}, 0, 10) }},
	{3, func(c *columns) { readMessage(c) }},
	{1, func(c *columns) { c.json("state change", &[]cairn.Op{}) }},
	{1, func(c *columns) { readCall(c) }},
	{2, func(c *columns) { readTurn(c) }},
	{1, func(c *columns) { readEntry(c) }},
	{6, func(c *columns) { readDue(c) }},
}

// FuzzDecode gives every reader rows with arbitrary values: the reader returns them or reports them as corrupt.
func FuzzDecode(f *testing.F) {
	f.Add(byte(0), []byte{0, 1, 1, 1}, int64(7), "{}")
	f.Add(byte(0), []byte{0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1},
		int64(1), "{}")
	f.Add(byte(1), []byte{0, 1, 0, 0, 0, 1, 0, 1, 1}, int64(-1), `{"usage":[]}`)
	f.Add(byte(2), []byte{1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0}, int64(1<<62), "id")
	f.Add(byte(3), []byte{0, 4}, int64(3), string(must(backend.EncodeEvents([]cairn.Event{{Type: cairn.EventCustom}, {}}))))
	f.Add(byte(4), []byte{0, 0, 1}, int64(7), `{"role":"user","parts":[{"type":"text"}]}`)
	f.Add(byte(5), []byte{2}, int64(0), `[{"op":"append","path":"/a","items":[1]}]`)
	f.Add(byte(6), []byte{1}, int64(0), `{"id":"call","input":{},"reviewers":["ann"],"trail":[{}]}`)
	f.Add(byte(7), []byte{1, 1}, int64(0), `[{"role":"user"}]`)
	f.Add(byte(8), []byte{1}, int64(0), `{"key":"k","output":1,"used_at":"2026-01-02T03:04:05Z"}`)
	f.Fuzz(func(t *testing.T, which byte, kinds []byte, number int64, text string) {
		d := decoders[int(which)%len(decoders)]
		c := &columns{}
		for _, kind := range kinds {
			c.values = append(c.values, []sqldriver.Value{number, text, nil, 1.5, []byte(text), time.Time{}}[int(kind)%6])
		}
		d.read(c)
		var e *cairn.Error
		if c.err != nil && (!errors.As(c.err, &e) || e.Code != cairn.ErrCorrupt) {
			t.Fatalf("error %v, want code %s", c.err, cairn.ErrCorrupt)
		}
		if c.err == nil && len(kinds) < d.columns {
			t.Fatalf("%d of %d columns were read without an error", len(kinds), d.columns)
		}
		if stop, err := decodeStop(text); err != nil && (stop != nil || !errors.As(err, &e) || e.Code != cairn.ErrCorrupt) {
			t.Fatalf("stop: %v, %v", stop, err)
		}
	})
}

// A row with every field set is the same after it was written and read.
func TestSessionRowRoundTrip(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	want := &storedRow{session: &cairn.Session{}, checkpoints: 5, stop: `{"run_id":"run"}`}
	set(t, reflect.ValueOf(want.session).Elem(), 1)
	want.session.ID, want.session.Tenant = "acme::order", "acme"
	want.session.Status = cairn.SessionPaused // so that it is due at its deadline
	want.session.TTL = cairn.Duration(8 * time.Microsecond)
	want.session.Removal, want.session.RemovedAt = "", time.Time{} // of removed rows, which are read in another way
	want.waits(micros(want.session.NextDeadline))
	want.sweep = micros(driver.SweepAt(want.session.UpdatedAt, want.session))
	err := s.writer.write(t.Context(), false, func(c *conn) error { return want.insert(c) })
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		var got *storedRow
		err := s.readers.read(t.Context(), func(c *conn) (err error) {
			got, err = find(c, want.session.ID)
			return err
		})
		if err == nil {
			want.session.AsOf = got.session.AsOf // which is not stored
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			a, _ := json.Marshal(got.session)
			b, _ := json.Marshal(want.session)
			t.Errorf("%v\n got %s\nwant %s", err, a, b)
		}
	}
	check()

	before := *want
	changed := *want.session
	set(t, reflect.ValueOf(&changed).Elem(), 2)
	// These fields never change.
	changed.ID, changed.Tenant, changed.Agent, changed.TraceParent = want.session.ID, want.session.Tenant, want.session.Agent, want.session.TraceParent
	changed.ThreadID, changed.ParentID, changed.RootID, changed.CreatedAt = want.session.ThreadID, want.session.ParentID, want.session.RootID, want.session.CreatedAt
	changed.Name, changed.Secret, changed.TTL = want.session.Name, want.session.Secret, want.session.TTL
	changed.Incarnation, changed.Kind, changed.Depth = want.session.Incarnation, want.session.Kind, want.session.Depth
	changed.Removal, changed.RemovedAt = "", time.Time{}
	want = &storedRow{key: before.key, session: &changed, checkpoints: 6, stop: ""}
	want.waits(micros(want.session.NextDeadline))
	want.sweep = before.sweep
	d := &plan.Delta{Version: before.session.Version, Token: before.session.Lease.Token, Context: true, DropStop: "run",
		SweepAt: plan.Time{At: fromMicros(before.sweep)}}
	err = s.writer.write(t.Context(), false, func(c *conn) error {
		done, err := want.update(c, d, &before, time.UnixMicro(0))
		if !done {
			t.Error("the row is not as it was")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	check()
}

// A statement that runs while another one's row is read leaves that row unchanged.
func TestQueryWithinARow(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	var got []string
	err := s.readers.read(t.Context(), func(c *conn) error {
		if _, err := identify(c); err != nil { // the connection is not new
			return err
		}
		return c.query(t.Context(), `SELECT value, value || '!' FROM json_each('["a","b"]')`, func(cols *columns) bool {
			first := cols.text()
			if _, err := c.row(`SELECT 'x', 'y'`, func(inner *columns) { got = append(got, inner.text()+inner.text()) }); err != nil {
				t.Error(err)
			}
			got = append(got, first+cols.text())
			return true
		})
	})
	if want := []string{"xy", "aa!", "xy", "bb!"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v: want %q", got, err, want)
	}
}

// set fills every field of a value with something that depends on n.
func set(t *testing.T, v reflect.Value, n int64) {
	switch x := v.Addr().Interface().(type) {
	case *cairn.Duration:
		*x = cairn.Duration(n) * cairn.Duration(time.Microsecond)
		return
	case *time.Time:
		*x = time.UnixMicro(1_700_000_000_000_000 + n).UTC()
		return
	case **cairn.Stop:
		*x = &cairn.Stop{RunID: "run", Kind: cairn.StopAbort, At: time.UnixMicro(n).UTC()}
		return
	case **cairn.BranchOrigin:
		*x = &cairn.BranchOrigin{From: "other", Messages: int(n), Model: "large"}
		return
	case **cairn.Outbox:
		*x = &cairn.Outbox{Version: n, Events: []cairn.Event{{Type: cairn.EventRunEnd, Name: "kept", Version: n}}}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			set(t, v.Field(i), n+int64(i))
		}
	case reflect.String:
		v.SetString("text " + string(rune('a'+n%26)))
	case reflect.Int, reflect.Int64:
		v.SetInt(n)
	case reflect.Float64:
		v.SetFloat(float64(n) / 2)
	case reflect.Bool: // Tainted, which is false: TrustAt gets two places
	case reflect.Interface:
		v.Set(reflect.ValueOf("value " + string(rune('a'+n%26))))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			set(t, v.Index(i), n+int64(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		set(t, key, n)
		set(t, value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	default:
		t.Fatalf("a session has a field of kind %s: teach this test to fill it", v.Kind())
	}
}
