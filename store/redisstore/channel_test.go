package redisstore

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// TestChannelsOfNestedPrefixes names channels of stores whose prefixes and logs would be ambiguous if they were
// concatenated.
func TestChannelsOfNestedPrefixes(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, prefix := range []string{"a", "a:events:x", "a:events", "a:stops", "a:events:x:events"} {
		s := &database{opts: Options{Prefix: prefix}}
		for _, log := range []string{"y", "x:events:y", "events:y", "stops", "x", "x:{events}:y", ""} {
			for _, channel := range []string{s.eventChannel(log), s.stopChannel()} {
				who := fmt.Sprintf("prefix %s", prefix)
				if before, ok := seen[channel]; ok && before != who {
					t.Errorf("channel %s is of %s and of %s", channel, before, who)
				}
				seen[channel] = who
			}
		}
	}
}

// TestClientIsSilent runs a process whose server dies, and checks what the process writes to standard error.
func TestClientIsSilent(t *testing.T) {
	t.Parallel()
	if os.Getenv("CAIRN_TEST_CLIENT") != "" {
		loseServer(t)
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^TestClientIsSilent$")
	c.Env = append(os.Environ(), "CAIRN_TEST_CLIENT=1")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v; standard error has %q", err, stderr.String())
	}
}

func loseServer(t *testing.T) {
	server := testenv.RedisServer(t, "--appendonly", "no")
	s := openAt(t, server.URL(), nil)
	server.Kill()
	if _, err := s.List(t.Context(), driver.SessionQuery{}); err == nil {
		t.Error("there is an answer without a server")
	}
}
