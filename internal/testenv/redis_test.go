package testenv_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/testenv"
)

// ask sends a command to the Redis server at a URL and returns the lines of its reply.
func ask(t *testing.T, address, command string, lines int) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial(u.Scheme, u.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "%s\r\n", command); err != nil {
		t.Fatal(err)
	}
	var answer strings.Builder
	r := bufio.NewReader(c)
	for range lines {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		answer.WriteString(strings.TrimSpace(line) + "\n")
	}
	return answer.String()
}

func TestRedisIsSharedByTheTestsOfAPackage(t *testing.T) {
	t.Parallel()
	first, second := testenv.Redis(t), testenv.Redis(t)
	if first != second {
		t.Errorf("two servers: %s and %s", first, second)
	}
	if got := ask(t, first, "PING", 1); got != "+PONG\n" {
		t.Errorf("PING answers %q", got)
	}
	if got := ask(t, first, "CONFIG GET port", 5); !strings.HasSuffix(got, "\n0\n") {
		t.Errorf("the server listens on a port: %q", got)
	}
}

func TestRedisServerKeepsWhatItAcknowledgedWhenItIsKilled(t *testing.T) {
	t.Parallel()
	s := testenv.RedisServer(t)
	if s.URL() == testenv.Redis(t) {
		t.Fatal("the server is the shared one")
	}
	if got := ask(t, s.URL(), "SET key value", 1); got != "+OK\n" {
		t.Fatalf("SET answers %q", got)
	}
	s.Kill()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s.URL(), "GET key", 2); got != "$5\nvalue\n" {
		t.Errorf("GET answers %q after the server was killed", got)
	}
}

// A server that dies while it writes a script's effects leaves a part of them at the end of its file. Redis executes
// that part with the next script's effects when it starts for the second time, unless it is removed before the first.
func TestRedisServerForgetsAScriptThatItWroteInPart(t *testing.T) {
	t.Parallel()
	s := testenv.RedisServer(t)
	script := func(word string) {
		t.Helper()
		ask(t, s.URL(), `EVAL "redis.call('RPUSH','list','`+word+`') redis.call('SET','last','`+word+`')" 0`, 1)
	}
	script("one")
	script("torn")
	s.Kill()
	files, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the server's files are %q, error %v", files, err)
	}
	written, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(files[0], int64(bytes.LastIndex(written, []byte("SET")))); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	script("two")
	s.Kill()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s.URL(), "LRANGE list 0 -1", 5); got != "*2\n$3\none\n$3\ntwo\n" {
		t.Errorf("the list is %q", got)
	}
}
