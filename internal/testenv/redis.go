package testenv

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// redisReady is part of the line that a server logs for each address that it listens on.
const redisReady = "eady to accept connections"

// redisSettings apply to every server. It listens only on a socket in its directory.
var redisSettings = []string{
	"--port", "0",
	"--unixsocketperm", "700",
	"--save", "",
	"--daemonize", "no",
}

// Redis returns the URL of a Redis server that is started for this test binary and keeps its data in memory. The
// tests of a package share it, so each must use its own prefix.
func Redis(tb testing.TB) (url string) {
	tb.Helper()
	s, err := sharedRedis()
	if err != nil {
		tb.Fatal(err)
	}
	return s.URL()
}

var sharedRedis = sync.OnceValues(func() (*RedisProcess, error) { return startRedis("redis", "--appendonly", "no") })

// RedisServer starts a Redis server for one test, which may stop and restart it, and stops it when the test ends.
// The server is durable: each write waits for the disk, unless settings, which are command-line options, override
// that.
func RedisServer(tb testing.TB, settings ...string) *RedisProcess {
	tb.Helper()
	s, err := StartRedis(settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// StartRedis starts a server like that of [RedisServer] for a program, which may stop it. It is removed when [Run]
// returns.
func StartRedis(settings ...string) (*RedisProcess, error) {
	return startRedis("redis-own", append([]string{"--appendonly", "yes", "--appendfsync", "always"}, settings...)...)
}

// RedisProcess is a Redis server.
type RedisProcess struct{ *Server }

// URL returns the URL of the server's first database.
func (p *RedisProcess) URL() string {
	return (&url.URL{Scheme: "unix", Path: p.socket()}).String()
}

func (p *RedisProcess) socket() string { return filepath.Join(p.Dir, "socket") }

// Start starts a server that was stopped or killed, and returns once it is ready. It first removes effects of a script
// that the server has written in part, as an operator has to: see package redisstore.
func (p *RedisProcess) Start() error {
	manifest := filepath.Join(p.Dir, "appendonlydir", "appendonly.aof.manifest")
	if _, err := os.Stat(manifest); err == nil {
		if err := p.answer("y\n", "redis-check-aof", "--fix", manifest); err != nil {
			return err
		}
	}
	return p.Server.Start()
}

func startRedis(name string, settings ...string) (*RedisProcess, error) {
	s, err := launch(program{name: name, ready: redisReady, abort: syscall.SIGKILL, prepare: func(s *Server) ([]string, error) {
		bin, err := exec.LookPath("redis-server")
		if err != nil {
			return nil, errors.New("redis-server not found; `make test` installs it (on Debian: apt-get install redis-server)")
		}
		place := []string{bin, "--dir", s.Dir, "--unixsocket", (&RedisProcess{s}).socket()}
		return slices.Concat(place, redisSettings, settings), nil
	}})
	if err != nil {
		return nil, err
	}
	return &RedisProcess{s}, nil
}
