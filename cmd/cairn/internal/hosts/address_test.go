package hosts

import (
	"strings"
	"testing"
)

// Missing parts of a host's URL get their defaults. Parameters are the host's or its driver's.
func TestHostURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Address{
		"temporal:":                                      {kind: onTemporal},
		"temporal:///support?tls=false":                  {kind: onTemporal, namespace: "support", tls: "false"},
		"temporal://localhost":                           {kind: onTemporal, place: "localhost:7233"},
		"temporal://127.0.0.1:7234/?tls=true":            {kind: onTemporal, place: "127.0.0.1:7234", tls: "true"},
		"Temporal://[::1]/support?queue=q&search=true":   {kind: onTemporal, place: "[::1]:7233", namespace: "support", queue: "q", search: true},
		"temporal://h:1/a%20b?search=false":              {kind: onTemporal, place: "h:1", namespace: "a b"},
		"dbos://ada:word@db/app?sslmode=disable&queue=q": {kind: onDBOS, place: "postgres://ada:word@db/app?sslmode=disable", queue: "q"},
		"dbos:postgresql://db/app?schema=s":              {kind: onDBOS, place: "postgresql://db/app", schema: "s"},
		"dbos:///app?host=/run/postgresql":               {kind: onDBOS, place: "postgres:///app?host=%2Frun%2Fpostgresql"},
		"dbos:sqlite:dbos.db":                            {kind: onDBOS, place: "sqlite:dbos.db"},
		"dbos:sqlite:///data/dbos.db?queue=a%26b":        {kind: onDBOS, place: "sqlite:/data/dbos.db", queue: "a&b"},
	} {
		got, err := Parse("--host", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want.Given = "--host"
		if *got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", text, *got, want)
		}
	}
}

// Any text is either rejected with the name of the flag, or parsed and shown as a text that parses to the same.
func FuzzHost(f *testing.F) {
	for _, text := range []string{
		"temporal://127.0.0.1:7233/namespace?queue=q&search=true", "temporal://[::1%25lo]:1", "temporal://h/a/b", "temporal:h", "temporal://:1", "temporal://[::%25\x8c]", "temporal:/n?tls=false", "temporal://::0", "dbos://", "dbos://h#f",
		"dbos://ada:word@db/app?sslmode=disable&schema=s", "dbos:postgres:app", "dbos:sqlite:dbos.db?queue=q", "dbos:sqlite:////x", "dbos:", "a.db",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := Parse("--host", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "--host: ") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		shown := at.String()
		again, err := Parse("--host", shown)
		if err != nil {
			t.Fatalf("%q is shown as %q: %v", text, shown, err)
		}
		if again.String() != shown {
			t.Errorf("%q is shown as %q, and that as %q", text, shown, again)
		}
		if again.place = at.place; *again != *at { // a password is not shown
			t.Errorf("%q is shown as %q, which means %+v, not %+v", text, shown, *again, *at)
		}
	})
}

// No message shows a password.
func TestHostHidesPasswords(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-word"
	for _, text := range []string{"dbos://ada:" + secret + "@db/app?queue=q", "dbos:postgres://db/app?password=" + secret} {
		at, err := Parse("--host", text)
		if err != nil {
			t.Fatal(err)
		}
		if shown := at.String() + at.Option(); strings.Contains(shown, secret) {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
	for _, text := range []string{"dbos://ada:" + secret + "@db:port/app", "temporal://ada:" + secret + "@h", "dbos:mysql://ada:" + secret + "@db"} {
		if _, err := Parse("--host", text); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
