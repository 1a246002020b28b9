package redisstore

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/released"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/redis/go-redis/v9"
)

// Keys that releases have written are used by this build.
func TestReleased(t *testing.T) {
	released.Run(t, released.Store{
		Name:   "redisstore",
		File:   "keys.redis",
		Schema: []driver.Migration{{Version: schemaVersion, Name: "layout"}},
		Open:   func(tb testing.TB) driver.Store { return openNew(tb) },
		Save: func(tb testing.TB, st driver.Store) []byte {
			s := st.(*Store)
			return saveKeys(tb, s.client.(*redis.Client), s.opts.Prefix)
		},
		Restore: func(tb testing.TB, data []byte, _ []driver.Migration) driver.Store {
			prefix := newPrefix()
			restoreKeys(tb, data, prefix)
			return openAt(tb, testenv.Redis(tb), &Options{Prefix: prefix})
		},
	})
}

// savedPrefix stands for the prefix of keys that are saved.
const savedPrefix = "cairn"

// saveKeys returns the keys under a prefix as commands for redis-cli, which do not depend on the version of the server.
func saveKeys(tb testing.TB, client *redis.Client, prefix string) []byte {
	tb.Helper()
	var keys []string
	for all := client.Scan(tb.Context(), 0, prefix+":*", 1000).Iterator(); all.Next(tb.Context()); {
		keys = append(keys, all.Val())
	}
	slices.Sort(keys)
	var out bytes.Buffer
	for _, key := range keys {
		name := savedPrefix + strings.TrimPrefix(key, prefix)
		for _, command := range commandsOf(tb, client, key, name) {
			for i, word := range command {
				if i > 0 {
					word = " " + quoted(word)
				}
				out.WriteString(word)
			}
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// commandsOf returns the commands that make a key under another name.
func commandsOf(tb testing.TB, client *redis.Client, key, name string) (list [][]string) {
	tb.Helper()
	ctx := tb.Context()
	switch kind := must(client.Type(ctx, key).Result()); kind {
	case "string":
		list = append(list, []string{"SET", name, must(client.Get(ctx, key).Result())})
	case "list":
		list = append(list, append([]string{"RPUSH", name}, must(client.LRange(ctx, key, 0, -1).Result())...))
	case "set":
		members := must(client.SMembers(ctx, key).Result())
		slices.Sort(members)
		list = append(list, append([]string{"SADD", name}, members...))
	case "hash":
		fields := must(client.HGetAll(ctx, key).Result())
		command := []string{"HSET", name}
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			command = append(command, field, fields[field])
		}
		list = append(list, command)
	case "zset":
		command := []string{"ZADD", name}
		for _, z := range must(client.ZRangeWithScores(ctx, key, 0, -1).Result()) {
			command = append(command, strconv.FormatFloat(z.Score, 'g', -1, 64), z.Member.(string))
		}
		list = append(list, command)
	case "stream":
		for _, entry := range must(client.XRange(ctx, key, "-", "+").Result()) {
			command := []string{"XADD", name, entry.ID}
			for _, field := range slices.Sorted(maps.Keys(entry.Values)) {
				command = append(command, field, entry.Values[field].(string))
			}
			list = append(list, command)
		}
		list = append(list, []string{"XSETID", name, must(client.XInfoStream(ctx, key).Result()).LastGeneratedID})
	default:
		tb.Fatalf("key %q is a %s", key, kind)
	}
	if at := must(client.PExpireTime(ctx, key).Result()); at > 0 {
		list = append(list, []string{"PEXPIREAT", name, strconv.FormatInt(at.Milliseconds(), 10)})
	}
	return list
}

// restoreKeys performs what saveKeys returned, under a prefix.
func restoreKeys(tb testing.TB, data []byte, prefix string) {
	tb.Helper()
	client := redis.NewClient(must(redis.ParseURL(testenv.Redis(tb))))
	defer client.Close()
	for line := range strings.Lines(string(data)) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		command := []any{word}
		for rest != "" {
			word := must(strconv.QuotedPrefix(rest))
			rest = strings.TrimPrefix(rest[len(word):], " ")
			command = append(command, must(strconv.Unquote(word)))
		}
		command[1] = prefix + strings.TrimPrefix(command[1].(string), savedPrefix)
		if err := client.Do(tb.Context(), command...).Err(); err != nil {
			tb.Fatalf("%s: %v", line, err)
		}
	}
}

// quoted quotes a word in the way that redis-cli and Go read it.
func quoted(word string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(word) {
		switch c := word[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "\\x%02x", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
