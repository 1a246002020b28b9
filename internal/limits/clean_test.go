package limits_test

import (
	"testing"

	"github.com/cairn-agents/cairn/internal/limits"
)

func TestCleanJSON(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"a":[1,"x\n"]}`:                `{"a":[1,"x\n"]}`,
		`"\u0000"`:                       `"\ufffd"`,
		`{"a\u0000":"b\u0000c"}`:         `{"a\ufffd":"b\ufffdc"}`,
		`"\\u0000"`:                      `"\\u0000"`,
		`"\\\u0000"`:                     `"\\\ufffd"`,
		`"\ud800"`:                       `"\ufffd"`,
		`"\ud83d\ude00\ud83d"`:           `"\ud83d\ude00\ufffd"`,
		`"\ud800\ud83d\ude00"`:           `"\ufffd\ud83d\ude00"`,
		`"\udc00x\ud800\n"`:              `"\ufffdx\ufffd\n"`,
		"\"caf\xe9\xff!\"":               `"caf\ufffd!"`,
		"\"\xf0\x9f\x98\x80\xf0\x9f\x98": "\"\xf0\x9f\x98\x80" + `\ufffd`,
		"\"a\x00b\nc\"":                  `"a\ufffdb\u000ac"`,
		"\n\"\\\"\x00\" ":                "\n" + `"\"\ufffd" `,
		`"\u12`:                          `"\u12`,
		`"\`:                             `"\`,
		``:                               ``,
		`["\ud800",1e999]`:               `["\ufffd",1e999]`,
	} {
		got, problem := limits.CleanJSON([]byte(raw))
		if string(got) != want {
			t.Errorf("%q becomes %q, want %q", raw, got, want)
		}
		if problem != limits.JSON(got) {
			t.Errorf("%q: problem %q, want %q", raw, problem, limits.JSON(got))
		}
		if again, _ := limits.CleanJSON(got); string(again) != string(got) {
			t.Errorf("%q is not stable: %q", got, again)
		}
	}
}

func FuzzCleanJSON(f *testing.F) {
	f.Add([]byte(`{"a\u0000":"\ud800"}`))
	f.Add([]byte("[\"\xff\x00\", 1]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		clean, problem := limits.CleanJSON(raw)
		switch problem {
		case "has text that is not valid UTF-8", "has text with a NUL character", "has text with half of a surrogate pair":
			t.Fatalf("%q becomes %q, which %s", raw, clean, problem)
		}
		if before := limits.JSON(raw); before == "" && string(clean) != string(raw) {
			t.Fatalf("%q was changed to %q", raw, clean)
		}
	})
}
