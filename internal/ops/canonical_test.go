package ops_test

import (
	"encoding/json"
	"testing"

	"github.com/cairn-agents/cairn/internal/ops"
)

func TestCanonicalTellsValuesApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"white space":                  {` { "a" : [ 1 , 2 ] } `, `{"a":[1,2]}`, true},
		"order of members":             {`{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`, true},
		"escapes in values":            {`{"a":"\u00e9\/\u003c"}`, `{"a":"é/<"}`, true},
		"escapes in names":             {`{"\u0061":1}`, `{"a":1}`, true},
		"order of items":               {`[1,2]`, `[2,1]`, false},
		"spelling of numbers":          {`1`, `1.0`, false},
		"large numbers":                {`12345678901234567890`, `12345678901234567891`, false},
		"numbers and strings":          {`1`, `"1"`, false},
		"null and absent":              {`{"a":null}`, `{}`, false},
		"empty array and object":       {`[]`, `{}`, false},
		"a member that is there twice": {`{"a":{"x":1},"a":{"y":2}}`, `{"a":{"y":2}}`, false},
		"the same among others":        {`{"a":1,"b":0,"a":2}`, `{"b":0,"a":1,"a":2}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, errA := ops.Canonical(json.RawMessage(c.a))
			b, errB := ops.Canonical(json.RawMessage(c.b))
			if errA != nil || errB != nil || (string(a) == string(b)) != c.same {
				t.Errorf("%s becomes %s (%v), %s becomes %s (%v)", c.a, a, errA, c.b, b, errB)
			}
		})
	}
}

// FuzzCanonical checks that a canonical text means the same as the original, and is its own canonical form.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":[1.0,{}],"a":"\u00e9"}`, `[[],[null,true]]`, `{"a":1,"a":2}`, `-0`, `"\ud800"`, `{"a":`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := ops.Canonical(raw)
		if (err == nil) != json.Valid(raw) {
			t.Fatalf("%q: error %v", raw, err)
		}
		if err != nil {
			return
		}
		twice, err := ops.Canonical(once)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%q becomes %q, then %q, %v", raw, once, twice, err)
		}
		var a, b any
		if err := json.Unmarshal(raw, &a); err != nil {
			return // a number beyond float64
		}
		if err := json.Unmarshal(once, &b); err != nil {
			t.Fatal(err)
		}
		was, _ := json.Marshal(a)
		is, _ := json.Marshal(b)
		if string(was) != string(is) {
			t.Fatalf("%q means %s, its canonical form %s", raw, was, is)
		}
	})
}
