package memstore_test

import (
	"testing"

	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/store/storetest"
)

func open(tb testing.TB) driver.Store {
	st := memstore.New(nil)
	tb.Cleanup(func() {
		if err := st.Close(); err != nil {
			tb.Error(err)
		}
	})
	return st
}

func openLog(tb testing.TB) driver.Log { return open(tb).(driver.LogProvider).EventLog() }

func TestConformance(t *testing.T) { storetest.Run(t, open, nil) }

func TestLogConformance(t *testing.T) { storetest.RunLog(t, openLog, nil) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, open) }

func BenchmarkLog(b *testing.B) { storetest.BenchLog(b, openLog) }
