package redisstore

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/scale"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// occupied returns the memory that the store's keys take, in all and by kind. The server's own figure of its memory has
// buffers that differ from run to run.
func occupied(t *testing.T, s *Store) (all int64, kinds map[string]int64) {
	t.Helper()
	kinds = map[string]int64{}
	for keys := s.client.Scan(t.Context(), 0, s.opts.Prefix+":{*", 1000).Iterator(); keys.Next(t.Context()); {
		size, err := s.client.MemoryUsage(t.Context(), keys.Val(), 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(keys.Val(), "}:")
		kind, _, _ := strings.Cut(name, ":")
		kinds[kind] += size
		all += size
	}
	return all, kinds
}

// TestStorageOfAConversation makes turns of one session, each of two steps with a tool call in between, and compares
// the memory that they take with the text in them. It has a server of its own, which nothing else uses.
func TestStorageOfAConversation(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.RedisServer(t, "--appendonly", "no").URL(), nil)
	talk := scale.NewConversation(t, s)
	talk.Turn()
	before, _ := occupied(t, s)
	begun := talk.Bytes
	for range testenv.Choose(500, 2500) {
		talk.Turn()
	}
	after, kinds := occupied(t, s)
	conversation := float64(talk.Bytes - begun)
	for name, size := range kinds {
		if share := float64(size) / conversation; share > 0.01 {
			t.Logf("%.2f bytes of %s per byte of conversation", share, name)
		}
	}
	all, log := float64(after-before)/conversation, float64(kinds["e"]+kinds["l"])/conversation
	t.Logf("%.2f bytes in all", all)
	if all > 4.4 || all-log > 2.65 {
		t.Errorf("%.2f bytes are stored per byte of conversation, %.2f of them outside the event log", all, all-log)
	}
}

// BenchmarkColdResume resumes sessions in new handles: see [scale.BenchResume].
func BenchmarkColdResume(b *testing.B) {
	url, opts := testenv.Redis(b), &Options{Prefix: newPrefix()}
	scale.BenchResume(b, func(tb testing.TB) scale.Handle {
		s, err := Open(context.Background(), url, opts)
		if err != nil {
			tb.Fatal(err)
		}
		return s
	})
}

// BenchmarkCopy copies sessions from memory: see [scale.BenchCopy].
func BenchmarkCopy(b *testing.B) {
	scale.BenchCopy(b, memstore.New(nil), func(tb testing.TB) driver.Importer { return openNew(tb) })
}

// BenchmarkCopyFrom copies sessions to memory: see [scale.BenchCopyFrom].
func BenchmarkCopyFrom(b *testing.B) { scale.BenchCopyFrom(b, openNew(b)) }
