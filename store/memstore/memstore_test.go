package memstore_test

import (
	"testing"

	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/store/storetest"
)

func open(tb testing.TB) store.Store {
	st := memstore.New(nil)
	tb.Cleanup(func() {
		if err := st.Close(); err != nil {
			tb.Error(err)
		}
	})
	return st
}

func openLog(tb testing.TB) store.Log { return open(tb).(store.LogProvider).EventLog() }

func TestConformance(t *testing.T) { storetest.Run(t, open, nil) }

func TestLogConformance(t *testing.T) { storetest.RunLog(t, openLog, nil) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, open) }

func BenchmarkLog(b *testing.B) { storetest.BenchLog(b, openLog) }
