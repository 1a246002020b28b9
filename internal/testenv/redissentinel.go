package testenv

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn/internal/testclock"
)

// Watched is a primary with a replica and a Sentinel that watches them. The Sentinel promotes the replica about a second
// after the primary has died.
type Watched struct {
	Primary, Replica *RedisProcess
	// Address is that of the primary, host and port.
	Address string
	// Sentinel is the address of the Sentinel, host and port.
	Sentinel string
	// Name is the Sentinel's name of the primary.
	Name string
}

// RedisSentinel starts a primary, a replica and a Sentinel for one test, and stops them when the test ends. The servers
// have the settings, which are command-line options.
func RedisSentinel(tb testing.TB, settings ...string) *Watched {
	tb.Helper()
	w, err := startWatched(settings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(w.Replica.Stop)
	tb.Cleanup(w.Primary.Stop)
	return w
}

func startWatched(settings []string) (*Watched, error) {
	w := &Watched{Name: "sessions"}
	start := func(more ...string) (*RedisProcess, string, error) {
		port, err := freePort()
		if err != nil {
			return nil, "", err
		}
		all := append([]string{"--appendonly", "no", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"}, settings...)
		server, err := startRedis("redis-watched", append(all, more...)...)
		return server, strconv.Itoa(port), err
	}
	primary, port, err := start()
	if err != nil {
		return nil, err
	}
	w.Primary, w.Address = primary, net.JoinHostPort("127.0.0.1", port)
	if w.Replica, _, err = start("--replicaof", "127.0.0.1 "+port); err != nil {
		return nil, err
	}
	if err := awaitReplica(port); err != nil { // else the Sentinel first learns of it after ten seconds
		return nil, err
	}
	w.Sentinel, err = startSentinel(w.Name, port)
	return w, err
}

// awaitReplica waits until a server on a port has a replica that follows it.
func awaitReplica(port string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	var out []byte
	var err error
	if testclock.Poll(ctx, func() bool {
		out, err = exec.Command("redis-cli", "-p", port, "info", "replication").CombinedOutput()
		return err == nil && strings.Contains(string(out), "state=online")
	}) != nil {
		return fmt.Errorf("testenv: the replica does not follow after %s: %w\n%s", startWithin, err, out)
	}
	return nil
}

// startSentinel starts a Sentinel that watches the primary on a port under a name.
func startSentinel(name, primary string) (address string, err error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	config := fmt.Sprintf("port %d\nbind 127.0.0.1\nsentinel monitor %[2]s 127.0.0.1 %[3]s 1\nsentinel down-after-milliseconds %[2]s 300\n"+
		"sentinel failover-timeout %[2]s 3000\n", port, name, primary)
	_, err = launch(program{name: "redis-sentinel", ready: "+monitor", abort: syscall.SIGKILL, prepare: func(s *Server) ([]string, error) {
		bin, err := exec.LookPath("redis-server")
		if err != nil {
			return nil, err
		}
		file := filepath.Join(s.Dir, "sentinel.conf") // the Sentinel rewrites it
		return []string{bin, file, "--sentinel"}, s.answer(config, "tee", file)
	}})
	return loopback(port), err
}
