package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/redisstore"
	"github.com/redis/go-redis/v9"
)

// redisDatabase is the numbered database of one system.
type redisDatabase struct {
	url    string
	client *redis.Client // client of the harness and of the floor
}

func newRedisDatabase(s *testenv.RedisProcess, number, writers int) (*redisDatabase, error) {
	url := fmt.Sprintf("%s?db=%d", s.URL(), number)
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	opts.PoolSize = writers
	return &redisDatabase{url: url, client: redis.NewClient(opts)}, nil
}

// stored returns the number of bytes that the server uses for the keys.
func (d *redisDatabase) stored(ctx context.Context) (sum int64, err error) {
	keys := d.client.Scan(ctx, 0, "", 1000).Iterator()
	for keys.Next(ctx) {
		size, err := d.client.MemoryUsage(ctx, keys.Val(), 0).Result()
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, keys.Err()
}

// copy copies the keys of a session to those of another, with the other session's name in them. It keeps existing
// keys.
func (d *redisDatabase) copy(ctx context.Context, from, to string) error {
	keys := d.client.Scan(ctx, 0, "*"+from, 1000).Iterator()
	for keys.Next(ctx) {
		target := strings.TrimSuffix(keys.Val(), from) + to
		if err := d.client.Copy(ctx, keys.Val(), target, d.client.Options().DB, false).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}

func newCairnOnRedis(ctx context.Context, c *conversation, db *redisDatabase, writers int) (*cairnSystem, error) {
	st, err := redisstore.Open(ctx, db.url, &redisstore.Options{Connections: writers})
	if err != nil {
		return nil, err
	}
	return &cairnSystem{conversation: c, store: st, bytes: db.stored}, nil
}
