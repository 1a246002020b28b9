package driver_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// recorder is the loop's side of a call. It keeps the last statement.
type recorder struct {
	define.Env
	last driver.Statement
}

func (r *recorder) Exec(dialect, tool, sql string, args []any) error {
	r.last = driver.Statement{Dialect: dialect, Tool: tool, SQL: sql, Args: args}
	return nil
}

// Arguments are converted as database/sql does, and their stored form keeps their types.
func TestArguments(t *testing.T) {
	t.Parallel()
	type name string
	zone := time.FixedZone("", 3600)
	at := time.Date(2031, 2, 3, 4, 5, 6, 7, zone)
	n := 7
	given := []any{nil, true, false, 9900, int8(-1), uint16(3), int64(math.MaxInt64), math.MinInt64, 1.0, math.MaxFloat64, "", "42", name("x"),
		[]byte{0, 255}, []byte{}, []byte(nil), json.RawMessage(`{}`), at, &n, (*int)(nil)}
	want := driver.Args{nil, true, false, int64(9900), int64(-1), int64(3), int64(math.MaxInt64), int64(math.MinInt64), 1.0, math.MaxFloat64, "", "42", "x",
		[]byte{0, 255}, []byte{}, nil, []byte(`{}`), at.UTC(), int64(7), nil}
	r := &recorder{}
	call := &cairn.Call{Step: define.NewStep(cairn.Step{}, r), Tool: "pay"}
	if err := driver.Exec(call, "SQL", "INSERT", given...); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(&r.last)
	if err != nil {
		t.Fatal(err)
	}
	var back driver.Statement
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	for _, s := range []driver.Statement{r.last, back} {
		if s.Dialect != "SQL" || s.Tool != "pay" || s.SQL != "INSERT" || !reflect.DeepEqual(s.Args, want) {
			t.Errorf("the statement is %+v", s)
		}
	}
}

// A statement that cannot be kept is refused when it is recorded.
func TestStatementsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	call := &cairn.Call{Step: define.NewStep(cairn.Step{}, &recorder{}), Tool: "pay"}
	for what, arg := range map[string]any{"a struct": struct{}{}, "a list": []int{1}, "a map": map[string]string{}, "a large number": uint64(math.MaxUint64),
		"no number": math.NaN(), "infinity": math.Inf(1), "a NUL": "a\x00", "broken text": "\xff", "a far time": time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if err := driver.Exec(call, "SQL", "SELECT", 1, arg); !errors.Is(err, cairn.ErrInvalid) || !strings.Contains(err.Error(), "args[1]") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	if err := driver.Exec(call, "SQL", "SELECT", strings.Repeat("x", driver.MaxStatement)); !errors.Is(err, cairn.ErrTooLarge) {
		t.Errorf("a large argument: error %v", err)
	}
	for _, call := range []*cairn.Call{nil, {}, {Step: &cairn.Step{}}} {
		if err := driver.Exec(call, "SQL", "SELECT"); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("a call that is none: error %v", err)
		}
	}
	if err := driver.Executes(memstore.New(nil), "SQL"); !errors.Is(err, cairn.ErrInvalid) || !strings.Contains(err.Error(), "*memstore.Store") {
		t.Errorf("in memory: error %v", err)
	}
	for _, raw := range []string{`[1.5]`, `[{}]`, `[[]]`, `[12345678901234567890]`, `{}`} {
		if err := json.Unmarshal([]byte(raw), new(driver.Args)); err == nil {
			t.Errorf("%s decodes", raw)
		}
	}
}
