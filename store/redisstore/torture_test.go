package redisstore

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store/driver"
)

func init() {
	torture.Victim(openTortured)
}

// addressVariable names the variable that gives victims the server's address.
const addressVariable = "CAIRN_TORTURE_REDIS"

func openTortured(dir string) (driver.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := Open(ctx, os.Getenv(addressVariable), &Options{Prefix: torture.Name(dir)})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func TestTorture(t *testing.T) {
	t.Setenv(addressVariable, testenv.RedisServer(t).URL())
	torture.Run(t, openTortured)
}

func TestTortureOfALogElsewhere(t *testing.T) {
	torture.NeedsSoak(t)
	t.Setenv(addressVariable, testenv.RedisServer(t).URL())
	torture.RunElsewhere(t, openTortured)
}

func TestTortureWithDefaults(t *testing.T) {
	torture.NeedsSoak(t)
	t.Setenv(addressVariable, testenv.RedisServer(t).URL())
	torture.RunDefaults(t, openTortured)
}

// The server is killed as well, and restarted at once. It waits for its disk, so it loses nothing.
func TestTortureOfTheServer(t *testing.T) {
	server := testenv.RedisServer(t)
	t.Setenv(addressVariable, server.URL())
	torture.RunOn(t, server, openTortured)
}
