//go:build !demo

package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/testenv"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
)

var queueNumber atomic.Int64

// onHosts runs a test on each host, with its own queue and a new bench.
func onHosts(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Parallel()
	for name, host := range map[string]func(b *bench) string{
		"temporal": func(*bench) string { return "temporal://" + testenv.Temporal(t) + "?search=true&" },
		"dbos":     func(b *bench) string { return "dbos:sqlite:" + filepath.Join(b.dir, "dbos.db") + "?" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.env["CAIRN_HOST"] = host(b) + fmt.Sprintf("queue=q%d", queueNumber.Add(1))
			test(t, b)
		})
	}
}

// One command is enough: the demo itself executes the effects for the host.
func TestDemoOnHost(t *testing.T) {
	onHosts(t, func(t *testing.T, b *bench) {
		wantDemoOnHost(t, b)
		if strings.HasPrefix(b.env["CAIRN_HOST"], "dbos:sqlite:") { // its file shows, without DBOS, what it did
			db := must(sql.Open("sqlite", filepath.Join(b.dir, "dbos.db")))
			defer db.Close()
			var turns int // the demo may end before the last one has its status
			err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM workflow_status WHERE status IN ('SUCCESS', 'PENDING')").Scan(&turns)
			if err != nil || turns != 3 {
				t.Errorf("DBOS has %d turns, want 3: %v", turns, err)
			}
		}
	})
}

// DBOS and the sessions share a PostgreSQL server.
func TestDemoOnPostgres(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := testenv.FastPostgres(t)
	b.env["CAIRN_HOST"] = "dbos:" + withQuery(withQuery(server, "schema", "dbos_demo"), "queue", "q")
	b.env["CAIRN_STORE"] = withQuery(server, "schema", "host_demo")
	wantDemoOnHost(t, b)
}

func wantDemoOnHost(t *testing.T, b *bench) {
	p := b.start(t, "demo", "--yes", "--shop", filepath.Join(b.dir, "cairn-shop.db"))
	p.say("Order 42 arrived broken")
	p.say("thank you")
	stdout, stderr, code := p.end()
	if code != cli.ExitOK || stderr != "" {
		t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
	}
	wantWords(t, stdout, "Runs are driven by ")
	wantTranscript(t, b, append(wholeAnswer[:len(wholeAnswer):len(wholeAnswer)],
		"user: thank you", "assistant: You are welcome. Is there anything else?"))
	wantRefunds(t, b, 1)
}

// One process begins what a worker of the host executes. The worker is killed halfway through the answer and
// started again under the same name.
func TestWorkerOnHostKilled(t *testing.T) {
	onHosts(t, func(t *testing.T, b *bench) {
		demo := b.start(t, "demo", "--yes", "--no-serve")
		demo.until(" work ") // it has created DBOS's tables
		demo.say("Order 42 arrived broken")
		worker := b.start(t, "work", "--executor", "one", "--pace", "50ms")
		demo.until("I am asking ")
		worker.signal(syscall.SIGKILL)
		worker.end()
		if s := b.session(t); s.Status != cairn.SessionActive {
			t.Fatalf("the session is %s: the worker was not killed in the middle", s.Status)
		}

		worker = b.start(t, "work", "--executor", "one", "--json")
		stdout, stderr, code := demo.end()
		if code != cli.ExitOK || stderr != "" {
			t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
		}
		wantWords(t, stdout, "  completed · ")
		wantTranscript(t, b, wholeAnswer)
		wantRefunds(t, b, 1)
		worker.signal(syscall.SIGTERM)
		stdout, stderr, code = worker.end()
		if code != cli.ExitOK || stdout != "" {
			t.Errorf("the worker: exit %d\n%s%s", code, stdout, stderr)
		}
		for line := range strings.Lines(stderr) {
			var record struct{ Msg string }
			if err := json.Unmarshal([]byte(line), &record); err != nil || record.Msg == "" {
				t.Errorf("the worker logs %q", line)
			}
		}
		wantWords(t, stderr, `"worker started"`, `"run ended","session":"demo"`)
	})
}

// A demo that is terminated halfway through an answer leaves it behind. A worker without the host can resume it,
// once it has given the host time to do so. Lease and grace are short except in a soak. The engine's own tests
// cover the defaults.
func TestDemoOnHostTerminated(t *testing.T) {
	onHosts(t, func(t *testing.T, b *bench) {
		b.env[withHostGrace] = testenv.Choose("1s", "")
		if strings.HasPrefix(b.env["CAIRN_HOST"], "dbos:") { // Temporal's own retries need more than 11 seconds
			b.env[withLease] = testenv.Choose("4s", "")
		}
		demo := b.start(t, "demo", "--pace", "500ms")
		demo.say("Order 44 is too late, where is it?")
		demo.until("Let me ")
		demo.signal(syscall.SIGTERM)
		stdout, stderr, code := demo.end()
		if code != cli.ExitOK || stderr != "" {
			t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
		}
		wantWords(t, stdout, "Left in the middle of the answer.")
		if s := b.session(t); s.Status != cairn.SessionActive {
			t.Fatalf("the session is %s", s.Status)
		}
		b.env["CAIRN_HOST"] = ""
		b.work(t, "demo")
		if s := b.session(t); s.Status != cairn.SessionCompleted {
			t.Errorf("the session is %s", s.Status)
		}
	})
}

// A worker that is terminated hands over the effects that it executes for a host.
func TestWorkerOnHostTerminated(t *testing.T) {
	onHosts(t, func(t *testing.T, b *bench) {
		demo := b.start(t, "demo", "--no-serve", "--yes")
		demo.until(" work ") // it has created DBOS's tables
		demo.say("Order 42 arrived broken")
		worker := b.start(t, "work", "--executor", "one", "--pace", "100ms")
		demo.until("Let me ")
		worker.signal(syscall.SIGTERM)
		if stdout, stderr, code := worker.end(); code != cli.ExitOK || stdout != "" {
			t.Errorf("exit %d: %q\n%s", code, stdout, stderr)
		}
		b.start(t, "work", "--executor", "one")
		if stdout, stderr, code := demo.end(); code != cli.ExitOK || stderr != "" {
			t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
		}
		wantTranscript(t, b, wholeAnswer)
		wantRefunds(t, b, 1)
	})
}

// Every wrong host, and every host that lacks something, is reported on one line, with the name of the flag and
// without a password, before any file is created.
func TestWrongHosts(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-word"
	temporal := testenv.Temporal(t)
	bare := bareNamespace(t, temporal)
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	for name, c := range map[string]struct {
		host  string
		code  int
		words []string
	}{
		"no listener":             {"temporal://127.0.0.1:1", cli.ExitFailure, []string{"cannot reach a Temporal server at 127.0.0.1:1"}},
		"no reply":                {"temporal://" + mute.Addr().String(), cli.ExitFailure, []string{"cannot reach a Temporal server at "}},
		"no such namespace":       {"temporal://" + temporal + "/nowhere", cli.ExitNotFound, []string{`has no namespace "nowhere"`}},
		"no search attributes":    {"temporal://" + temporal + "/" + bare + "?search=true", cli.ExitFailure, []string{"CairnSession", "search-attribute create"}},
		"no PostgreSQL":           {"dbos://ada:" + secret + "@127.0.0.1:1/db", cli.ExitFailure, []string{"127.0.0.1:1"}},
		"PostgreSQL that is mute": {"dbos://ada:" + secret + "@" + mute.Addr().String() + "/db?sslmode=disable", cli.ExitFailure, []string{"DBOS"}},
		"a wrong parameter":       {"dbos://ada:" + secret + "@127.0.0.1:1/db?sslmode=perhaps", cli.ExitFailure, []string{"sslmode"}},
		"a directory":             {"dbos:sqlite:" + t.TempDir(), cli.ExitFailure, []string{"unable to open database file"}},
	} {
		for _, command := range []string{"demo", "work"} {
			t.Run(name+"/"+command, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				if strings.Contains(c.host, mute.Addr().String()) { // takes the whole time
					b.reach = testenv.Choose(2*time.Second, 0)
				}
				stdout, stderr, code := b.run("hello\n", command, "--host", c.host)
				if code != c.code || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, secret) {
					t.Errorf("exit %d, want %d\n%s%s", code, c.code, stdout, stderr)
				}
				wantWords(t, stderr, append(c.words, "cairn: --host: ")...)
				if made, err := os.ReadDir(b.dir); err != nil || len(made) > 0 {
					t.Errorf("there are %v, %v", made, err)
				}
			})
		}
	}
}

// bareNamespace creates a namespace without search attributes.
func bareNamespace(t *testing.T, address string) string {
	t.Helper()
	c, err := client.NewNamespaceClient(client.Options{HostPort: address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	name := fmt.Sprintf("bare%d", queueNumber.Add(1))
	err = c.Register(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * 60 * 60 * 1e9),
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// A build without a host has none of its modules, and the error names the command that builds all.
func TestBuildsWithoutOneHost(t *testing.T) {
	t.Parallel()
	for tags, unused := range map[string][]string{"notemporal": {"temporal"}, "nodbos": {"dbos"}} {
		list, err := exec.Command("go", "list", "-deps", "-tags", tags, ".").Output()
		if err != nil {
			t.Fatal(err)
		}
		for path := range strings.Lines(string(list)) {
			for _, name := range unused {
				if strings.Contains(path, name) {
					t.Errorf("with -tags %s it has %s", tags, path)
				}
			}
		}
		out, err := exec.Command("go", "test", "-count=1", "-v", "-tags", tags, "-run=^TestConnectWithout", "./internal/hosts").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestConnectWithout") {
			t.Errorf("-tags %s: %v\n%s", tags, err, out)
		}
	}
}

// The demo build has neither hosts nor stores on servers, and says so.
func TestBuildWithoutHosts(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "cairn")
	if out, err := exec.Command("go", "build", "-tags", "demo", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list, err := exec.Command("go", "list", "-deps", "-tags", "demo", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(list)) {
		for _, unused := range []string{"temporal", "dbos", "pgx", "redis", "grpc", "yaml", "go-git", "cairn/server", "cairn/mcp"} {
			if strings.Contains(path, unused) {
				t.Errorf("it has %s", path)
			}
		}
	}
	for _, command := range []string{"demo", "work"} {
		out, err := exec.Command(program, command, "--host", "temporal://127.0.0.1", "--db", filepath.Join(t.TempDir(), "cairn.db")).CombinedOutput()
		if err == nil || string(out) != "cairn: --host: this program was built without hosts on Temporal; use go run ./cmd/cairn or make build\n" {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	out, err := exec.Command(program, "sessions", "list", "--store", "redis://127.0.0.1").CombinedOutput()
	if err == nil || string(out) != "cairn: --store: this program was built without stores on servers; use go run ./cmd/cairn or make build\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
