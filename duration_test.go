package cairn_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

func TestDurationIsSecondsInJSON(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0", time.Nanosecond: "0.000000001", -time.Nanosecond: "-0.000000001", 250 * time.Millisecond: "0.25", 90 * time.Second: "90",
		-1500 * time.Millisecond: "-1.5", 7 * 24 * time.Hour: "604800", time.Hour + 10*time.Microsecond: "3600.00001",
		math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808",
	} {
		raw, err := json.Marshal(cairn.Duration(d))
		if err != nil || string(raw) != want {
			t.Errorf("%d: %s, %v, want %s", d, raw, err, want)
		}
		var back cairn.Duration
		if err := json.Unmarshal(raw, &back); err != nil || time.Duration(back) != d {
			t.Errorf("%s is read as %d, %v, want %d", raw, back, err, d)
		}
	}
	if raw, _ := json.Marshal(cairn.Session{TTL: cairn.Duration(time.Minute)}); !strings.Contains(string(raw), `"ttl":60,`) {
		t.Errorf("a session is %s", raw)
	}
	if raw, _ := json.Marshal(cairn.Error{}); strings.Contains(string(raw), "retry_after") {
		t.Errorf("no duration is %s", raw)
	}
}

func TestDurationIsReadFromAnyNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"null": 0, "-0": 0, "1e3": 1000 * time.Second, "2.5E-1": 250 * time.Millisecond, "1e-999999999": 0, "0e999999999": 0,
		"0.30000000000000004": 300 * time.Millisecond, "0.0000000005": 1, "-0.0000000005": -1, "0.00000000049": 0, "59.9999999999": time.Minute,
		"9223372036.85477580749": math.MaxInt64,
	} {
		var d cairn.Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s is read as %s, %v, want %s", text, d, err, want)
		}
	}
}

func TestDurationRefusesWhatIsNoTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"1m"`: "string", `{}`: "object", `[1]`: "array", `true`: "bool", `1e10`: "number beyond 292 years", `-9223372037`: "number beyond 292 years",
		`9223372036.8547758075`: "number beyond 292 years", `1e999999999`: "number beyond 292 years", `604800000000000`: "number beyond 292 years",
		strings.Repeat("9", 5000): "number beyond 292 years",
	} {
		s := cairn.Session{TTL: 5}
		err := json.Unmarshal([]byte(`{"ttl":`+text+`}`), &s)
		var mismatch *json.UnmarshalTypeError
		if !errors.As(err, &mismatch) || mismatch.Field != "ttl" || mismatch.Value != want || s.TTL != 5 {
			t.Errorf("%.30s: %v, %v, want an error about a %s", text, err, s.TTL, want)
		}
	}
}

// Whatever is read, is written and read again as the same.
func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"", "0", "-1.5", "1e3", "1E-400", "0x1p3", "+1", ".5", "1.", "01", "1_0", "Inf", "NaN", " 1", `"1"`, "9223372036.854775807", "-", "-e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d, back cairn.Duration
		err := d.UnmarshalJSON([]byte(text))
		if err != nil {
			if d != 0 {
				t.Fatalf("%q changes the duration", text)
			}
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("%q is read, which is not JSON", text)
		}
		raw, err := d.MarshalJSON()
		if err != nil || back.UnmarshalJSON(raw) != nil || back != d {
			t.Fatalf("%q is read as %d, and its JSON %s as %d, %v", text, d, raw, back, err)
		}
	})
}
