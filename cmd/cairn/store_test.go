package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/redis/go-redis/v9"
)

// places returns the tests' servers, each time with a new schema or prefix.
func places(t *testing.T) map[string]string {
	name := fmt.Sprintf("t%d", placeNumber.Add(1))
	return map[string]string{
		"postgres": withQuery(testenv.FastPostgres(t), "schema", name),
		"redis":    withQuery(testenv.Redis(t), "prefix", name),
	}
}

var placeNumber atomic.Int64

func withQuery(text, name, value string) string {
	u := must(url.Parse(text))
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newServerBench is a bench whose sessions are on a server, with the real clock and random ids.
func newServerBench(t *testing.T, store string) *bench {
	b := newBench(t)
	b.everyday = true
	b.env["CAIRN_STORE"] = store
	return b
}

// want performs a command line, which must succeed, and returns its output.
func (b *bench) want(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	stdout, stderr, code := b.run(stdin, args...)
	if code != cli.ExitOK {
		t.Fatalf("cairn %q: exit %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

func wantWords(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not said:\n%s", word, text)
		}
	}
}

// The whole way on a server: without tables, with them, a pending refund, its answer, and the worker.
func TestServerStores(t *testing.T) {
	t.Parallel()
	for name, place := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newServerBench(t, place)
			shop := "--shop=" + filepath.Join(b.dir, "shop.db")

			stdout, stderr, code := b.run("", "sessions", "list")
			if code != cli.ExitFailure || stdout != "" {
				t.Errorf("list of nothing: exit %d, %s", code, stdout)
			}
			wantWords(t, stderr, "CAIRN_STORE: ", "has no Cairn tables yet", "migrate up --store ")
			wantWords(t, b.want(t, "", "migrate", "status"), "VERSION", "pending")
			wantWords(t, b.want(t, "", "migrate", "up"), "Applied ")
			wantWords(t, b.want(t, "", "migrate", "up"), "Nothing to do")
			wantWords(t, b.want(t, "", "migrate", "status", "--json"), `"applied": true`)

			stdout = b.want(t, "Order 42 arrived broken\n", "demo", shop)
			wantWords(t, stdout, "inbox approve call_", " --store ")
			calls := b.want(t, "", "inbox", "list", "--json")
			call := secretID.FindString(calls)
			b.want(t, "", "inbox", "approve", call)
			b.work(t, "demo", shop)
			wantWords(t, b.want(t, "", "sessions", "list"), "demo", "completed")
			wantWords(t, b.want(t, "", "sessions", "messages", "demo"), "Order 42 arrived broken")
			wantWords(t, b.want(t, "", "sessions", "events", "demo"), "run_end")
			b.want(t, "", "sessions", "branch", "demo", "other")
			b.want(t, "", "sessions", "delete", "demo", "--yes")
			b.want(t, "", "sessions", "show", "other")
			if _, _, code := b.run("", "sessions", "show", "demo"); code != cli.ExitNotFound {
				t.Errorf("after the deletion: exit %d", code)
			}
		})
	}
}

// A session with a pending call is copied from a file to PostgreSQL and to Durable Objects, answered and resumed there,
// and then continued on Redis.
func TestSessionMoves(t *testing.T) {
	t.Parallel()
	b := newServerBench(t, "")
	servers := places(t)
	file, postgres, redis := filepath.Join(b.dir, "cairn.db"), servers["postgres"], servers["redis"]
	objects := fmt.Sprintf("do+insecure://:%s@%s/moves", url.PathEscape(testenv.WorkerSecret), testenv.Worker(t))
	shop := "--shop=" + filepath.Join(b.dir, "shop.db")
	wantWords(t, b.want(t, "Order 42 arrived broken\n", "demo", "--db", file, shop), "waits for approval")
	for _, server := range servers {
		b.want(t, "", "migrate", "up", "--store", server)
	}

	wantWords(t, b.want(t, "", "store", "copy", file, postgres), "demo", "copied")
	wantWords(t, b.want(t, "", "store", "copy", postgres, objects), "demo", "copied")
	b.env["CAIRN_STORE"] = objects
	call := secretID.FindString(b.want(t, "", "inbox", "list", "--json"))
	b.want(t, "", "inbox", "approve", call)
	b.work(t, "demo", shop)
	refunded := b.want(t, "", "sessions", "messages", "demo")
	wantWords(t, refunded, "Order 42 arrived broken", "refund")

	wantWords(t, b.want(t, "", "store", "copy", objects, redis), "demo", "copied")
	b.env["CAIRN_STORE"] = redis
	if moved := b.want(t, "", "sessions", "messages", "demo"); moved != refunded {
		t.Errorf("in Durable Objects:\n%s\non Redis:\n%s", refunded, moved)
	}
	wantWords(t, b.want(t, "Where is order 44?\n", "demo", shop), "order 44")
	wantWords(t, b.want(t, "", "sessions", "runs", "demo"), "3     run_")

	// The original still waits, and the copy does not overwrite it.
	b.env["CAIRN_STORE"] = ""
	b.env["CAIRN_DB"] = file
	wantWords(t, b.want(t, "", "sessions", "list"), "paused")
	stdout, _, code := b.run("", "store", "copy", redis, file)
	if code != cli.ExitFailure {
		t.Errorf("copy over what waits: exit %d", code)
	}
	wantWords(t, stdout, "failed: already_exists")
}

// work has a worker drive ready sessions until the run of a session has ended.
func (b *bench) work(t *testing.T, session string, args ...string) {
	t.Helper()
	worker := b.start(t, append([]string{"work"}, args...)...)
	readUntil(t, worker.stderr, `"run ended" session=`+session)
	worker.signal(syscall.SIGTERM)
	if stdout, stderr, code := worker.end(); code != cli.ExitOK || stdout != "" {
		t.Errorf("the worker: exit %d\n%s%s", code, stdout, stderr)
	}
}

// Every wrong store is reported on one line, with the name of the flag and without a password.
func TestWrongStores(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	replica := server.Replica(t)
	locked := testenv.RedisServer(t, "--appendonly", "no", "--requirepass", "right")
	newer := redis.NewClient(must(redis.ParseURL(testenv.Redis(t))))
	defer newer.Close()
	if err := newer.HSet(t.Context(), "newer:schema", "version", 99, "buckets", 1).Err(); err != nil {
		t.Fatal(err)
	}
	const secret = "s3cr3t-word"
	for name, c := range map[string]struct {
		args  []string
		code  int
		words []string
	}{
		"keys and values":      {[]string{"--store", "host=h password=" + secret}, cli.ExitUsage, []string{"--store: ", "postgres://"}},
		"another kind":         {[]string{"--store", "mysql://ada:" + secret + "@host/db"}, cli.ExitUsage, []string{"--store: ", `unknown kind of store "mysql"`}},
		"both flags":           {[]string{"--store", "a.db", "--db", "b.db"}, cli.ExitUsage, []string{"--store", "--db"}},
		"a server as a file":   {[]string{"--db", "postgres://ada:" + secret + "@host/db"}, cli.ExitUsage, []string{"--db: ", "--store"}},
		"no path":              {[]string{"--store", "sqlite:"}, cli.ExitUsage, []string{"--store: path is empty"}},
		"no URL":               {[]string{"--store", "postgres:db"}, cli.ExitUsage, []string{"--store: ", "postgres://HOST/DATABASE"}},
		"a broken URL":         {[]string{"--store", "redis://ada:" + secret + "@host:port:port"}, cli.ExitUsage, []string{"--store: ", "redis://HOST/0"}},
		"no schema's name":     {[]string{"--store", "postgres://host/db?schema="}, cli.ExitUsage, []string{"--store: ?schema="}},
		"a name that is none":  {[]string{"--store", withQuery(server.URL(), "schema", `a"b`)}, cli.ExitUsage, []string{"--store: schema: "}},
		"an unknown parameter": {[]string{"--store", "redis://ada:" + secret + "@127.0.0.1:1/0?colour=red"}, cli.ExitUsage, []string{"--store: ", "colour"}},
		"no listener":          {[]string{"--store", "postgresql://ada:" + secret + "@127.0.0.1:1/db"}, cli.ExitFailure, []string{"--store: ", "cannot reach"}},
		"no primary's name":    {[]string{"--store", "redis-sentinel://ada:" + secret + "@127.0.0.1:1/0"}, cli.ExitUsage, []string{"--store: ", "?master="}},
		"no Redis there":       {[]string{"--store", "redis://ada:" + secret + "@127.0.0.1:1/0"}, cli.ExitFailure, []string{"--store: ", "cannot reach"}},
		"no such account":      {[]string{"--store", withQuery(withQuery(server.URL(), "user", "nobody_knows"), "password", secret)}, cli.ExitUsage, []string{"--store: ", "nobody_knows"}},
		"wrong password":       {[]string{"--store", strings.Replace(locked.URL(), "unix://", "unix://:"+secret+"@", 1)}, cli.ExitFailure, []string{"--store: ", "rejected the user or password"}},
		"no tables":            {[]string{"--store", withQuery(server.URL(), "password", secret)}, cli.ExitFailure, []string{"--store: ", "run ", " migrate up --store 'postgres:"}},
		"a replica":            {[]string{"--store", replica.URL()}, cli.ExitFailure, []string{"--store: ", "read-only replica"}},
		"newer keys":           {[]string{"--store", withQuery(testenv.Redis(t), "prefix", "newer")}, cli.ExitFailure, []string{"--store: ", "use a newer program"}},
		"no file":              {[]string{"--store", "sqlite:" + filepath.Join(t.TempDir(), "none.db")}, cli.ExitNotFound, []string{"none.db not found"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := newBench(t).run("", append([]string{"sessions", "list"}, c.args...)...)
			if code != c.code || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, secret) {
				t.Errorf("exit %d, want %d\n%s%s", code, c.code, stdout, stderr)
			}
			wantWords(t, stderr, c.words...)
		})
	}
}
