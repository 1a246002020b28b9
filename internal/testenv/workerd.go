package testenv

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"

	"github.com/cairn-agents/cairn/cloudflare"
)

//go:embed workerd/package-lock.json
var workerdLocked []byte

//go:embed workerd/test.js
var workerOfTests []byte

// WorkerSecret and WorkerNextSecret are the secrets of the workers that this package starts. AdvanceSecret and
// AdvanceNextSecret are those of tickets.
const (
	WorkerSecret      = "a secret of tests"
	WorkerNextSecret  = "the next secret of tests"
	AdvanceSecret     = "a secret of tests for tickets of runs"
	AdvanceNextSecret = "the next secret of tests for tickets"
)

// Worker returns the address of a worker of Cairn in Cloudflare's runtime that is started for this test binary and
// keeps its data in memory if possible. The tests of a package share it, so each must use a store of its own.
func Worker(tb testing.TB) (address string) {
	tb.Helper()
	p, err := sharedWorker()
	if err != nil {
		tb.Fatal(err)
	}
	return p.Address
}

var sharedWorker = sync.OnceValues(func() (*WorkerProcess, error) { return startWorker("workerd", true, aim{}) })

// WorkerServer starts a worker for one test, which may kill and start it, and stops it when the test ends.
func WorkerServer(tb testing.TB) *WorkerProcess {
	tb.Helper()
	return ownWorker(tb, false, aim{})
}

// WorkflowServer starts a worker for one test whose workflows drive the runs of the Go server at an address. It keeps its
// data in memory if possible.
func WorkflowServer(tb testing.TB, server string) *WorkerProcess {
	tb.Helper()
	return ownWorker(tb, true, aim{server: server})
}

// FrontServer is WorkflowServer for a worker that is also in front of the Go server, as it would be of a container.
func FrontServer(tb testing.TB, server string) *WorkerProcess {
	tb.Helper()
	return ownWorker(tb, true, aim{server: server, front: true})
}

// aim is the Go server of a worker.
type aim struct {
	server string // host and port; empty for none
	front  bool   // the worker passes requests on to it
}

func ownWorker(tb testing.TB, inMemory bool, at aim) *WorkerProcess {
	tb.Helper()
	p, err := startWorker("workerd-own", inMemory, at)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Stop)
	return p
}

// WorkerProcess is a worker of Cairn.
type WorkerProcess struct {
	*Server
	// Address is the host and port that it listens on.
	Address string
}

// Break makes the directories of the worker refuse what the trees deliver, and Mend ends this.
func (p *WorkerProcess) Break(tb testing.TB) { p.visit(tb, "break") }

// Mend ends what Break began.
func (p *WorkerProcess) Mend(tb testing.TB) { p.visit(tb, "mend") }

func (p *WorkerProcess) visit(tb testing.TB, path string) {
	tb.Helper()
	response, err := http.Get("http://" + p.Address + "/test/" + path)
	if err == nil {
		err = response.Body.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func startWorker(name string, inMemory bool, at aim) (*WorkerProcess, error) {
	p := &WorkerProcess{}
	s, err := launch(program{name: name, ready: `"event":"listen"`, abort: syscall.SIGKILL, trusted: true, inMemory: inMemory, prepare: func(s *Server) ([]string, error) {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(workerdLocked)
		modules := filepath.Join(cache, "cairn", "workerd-"+hex.EncodeToString(sum[:6]), "node_modules")
		list, _ := filepath.Glob(filepath.Join(modules, "@cloudflare", "workerd-*", "bin", "workerd"))
		if len(list) != 1 {
			return nil, fmt.Errorf("workerd not found in %s; `make test` installs it", modules)
		}
		if p.Address, err = freeAddress(); err != nil {
			return nil, err
		}
		config, err := workerConfig(s.Dir, p.Address, modules, at)
		return []string{list[0], "serve", config, "--control-fd=1", "--experimental"}, err
	}})
	p.Server = s
	return p, err
}

// workerConfig writes the worker's modules and the runtime's configuration below a directory, and returns the name of the
// latter. modules has the packages of npm. The engine of Workflows is that of miniflare, which wrangler dev uses as well.
func workerConfig(dir, address, modules string, at aim) (string, error) {
	if err := os.CopyFS(dir, cloudflare.Worker); err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(dir, "disk"), 0o700); err != nil {
		return "", err
	}
	for _, name := range []string{"workflows/binding", "workflows/wrapped-binding", "shared/zod"} {
		text, err := os.ReadFile(filepath.Join(modules, "miniflare", "dist", "src", "workers", filepath.FromSlash(name)+".worker.js"))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, path.Base(name)+".js"), text, 0o600); err != nil {
			return "", err
		}
	}
	names, err := fs.Glob(cloudflare.Worker, path.Join(path.Dir(cloudflare.Main), "*.js"))
	if err != nil {
		return "", err
	}
	main := path.Join(path.Dir(cloudflare.Main), "test.js")
	if err := os.WriteFile(filepath.Join(dir, main), workerOfTests, 0o600); err != nil {
		return "", err
	}
	var text strings.Builder
	err = workerConfigText.Execute(&text, map[string]any{
		"Disk": filepath.Join(dir, "disk"), "Address": address, "Server": at.server, "Front": at.front,
		"Modules": append([]string{main}, names...), // the first one is the main module
		"Secrets": map[string]string{"CAIRN_SECRET": WorkerSecret, "CAIRN_SECRET_NEXT": WorkerNextSecret,
			"CAIRN_ADVANCE_SECRET": AdvanceSecret, "CAIRN_ADVANCE_SECRET_NEXT": AdvanceNextSecret},
	})
	if err != nil {
		return "", err
	}
	config := filepath.Join(dir, "worker.capnp")
	return config, os.WriteFile(config, []byte(text.String()), 0o600)
}

//go:embed workerd/worker.capnp
var workerConfigSource string

var workerConfigText = template.Must(template.New("").Funcs(template.FuncMap{"base": path.Base}).Parse(workerConfigSource))
