package redisstore

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store"
	"github.com/redis/go-redis/v9/logging"
)

func init() {
	logging.Disable() // a victim must have nothing to say
	torture.Victim(openTortured)
}

// addressVariable is how victims know the server.
const addressVariable = "CAIRN_TORTURE_REDIS"

func openTortured(string) (store.Store, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := Open(ctx, os.Getenv(addressVariable), nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func TestTorture(t *testing.T) {
	t.Setenv(addressVariable, testenv.RedisServer(t).URL())
	torture.Run(t, openTortured)
}

// The server is killed, too, and started again at once: it waits for its disk, so it forgets nothing.
func TestTortureOfTheServer(t *testing.T) {
	server := testenv.RedisServer(t)
	t.Setenv(addressVariable, server.URL())
	kills, err := flag.Lookup("torture.kills").Value.(flag.Getter).Get().(int), error(nil)
	if kills > 60 {
		if err = flag.Set("torture.kills", "60"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var killing sync.WaitGroup
	count := 0
	killing.Go(func() {
		for {
			timer := time.NewTimer(time.Duration(300+rand.IntN(1200)) * time.Millisecond)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			server.Kill()
			count++
			if err = server.Start(); err != nil {
				return
			}
		}
	})
	torture.Run(t, openTortured)
	cancel()
	killing.Wait()
	if err != nil || count == 0 {
		t.Errorf("the server was killed %d times: %v", count, err)
	}
	t.Logf("the server was killed %d times", count)
}
