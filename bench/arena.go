package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn/internal/testenv"
)

// arena is the two servers and the systems that are compared on them. Each system has its own database, and as many
// connections as there are writers.
type arena struct {
	conversation *conversation
	contenders   []contender

	postgres  *testenv.PostgresServer
	redis     *testenv.RedisProcess
	writers   int
	databases []*postgresDatabase
	keyspaces []*redisDatabase
}

// newArena creates all systems on the two servers. It includes LangGraph if packages, the directory of its
// packages, is given.
func newArena(
	ctx context.Context, postgres *testenv.PostgresServer, redis *testenv.RedisProcess, writers int, packages string,
) (*arena, error) {
	a := &arena{conversation: newConversation(), postgres: postgres, redis: redis, writers: writers}
	err := a.fill(ctx, packages)
	if err != nil {
		err = errors.Join(err, a.close())
	}
	return a, err
}

func (a *arena) fill(ctx context.Context, packages string) error {
	err := errors.Join(
		a.addPostgres(ctx, floorName, func(db *postgresDatabase) (system, error) {
			made, err := newCairnOnPostgres(ctx, a.conversation, db)
			return &sqlFloor{cairnSystem: made, pool: db.pool}, err
		}),
		a.addPostgres(ctx, cairnName, func(db *postgresDatabase) (system, error) {
			return newCairnOnPostgres(ctx, a.conversation, db)
		}),
		a.addPostgres(ctx, joinedName, func(db *postgresDatabase) (system, error) {
			made, err := newCairnOnPostgres(ctx, a.conversation, db)
			return &sqlFloor{cairnSystem: made, pool: db.pool, joins: true}, err
		}),
		a.addPostgres(ctx, "ADK", func(db *postgresDatabase) (system, error) {
			return newADK(a.conversation, db, a.writers)
		}))
	if packages != "" {
		for _, durability := range []string{"sync", "async"} {
			err = errors.Join(err, a.addPostgres(ctx, "LangGraph, "+durability, func(db *postgresDatabase) (system, error) {
				return newLangGraph(ctx, a.conversation, packages, durability, db, a.writers)
			}))
		}
	}
	return errors.Join(err,
		a.addRedis(floorName, func(db *redisDatabase) (system, error) {
			made, err := newCairnOnRedis(ctx, a.conversation, db, a.writers)
			return &redisFloor{made, db.client}, err
		}),
		a.addRedis(cairnName, func(db *redisDatabase) (system, error) {
			return newCairnOnRedis(ctx, a.conversation, db, a.writers)
		}),
		a.addRedis("trpc-agent-go", func(db *redisDatabase) (system, error) {
			return newTRPC(a.conversation, db, a.writers)
		}))
}

func (a *arena) addPostgres(ctx context.Context, name string, open func(*postgresDatabase) (system, error)) error {
	db, err := newDatabase(ctx, a.postgres, fmt.Sprintf("bench%d", len(a.databases)), a.writers)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.databases = append(a.databases, db)
	s, err := open(db)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.contenders = append(a.contenders, contender{name, onPostgres, s})
	return nil
}

func (a *arena) addRedis(name string, open func(*redisDatabase) (system, error)) error {
	db, err := newRedisDatabase(a.redis, len(a.keyspaces), a.writers)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.keyspaces = append(a.keyspaces, db)
	s, err := open(db)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	a.contenders = append(a.contenders, contender{name, onRedis, s})
	return nil
}

func (a *arena) close() error {
	var errs []error
	for _, x := range a.contenders {
		errs = append(errs, x.close())
	}
	for _, db := range a.databases {
		db.pool.Close()
	}
	for _, db := range a.keyspaces {
		errs = append(errs, db.client.Close())
	}
	return errors.Join(errs...)
}
