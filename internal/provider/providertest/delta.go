package providertest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

// long returns a stream with the given number of text deltas.
func (a Adapter[Q, R]) long(deltas int) Transport {
	return Plays(a.Piece + strings.Repeat(cmp.Or(a.Delta, a.Piece), deltas) + a.Last + a.Done)
}

// read reads a reply and discards it.
func read(ctx context.Context, m cairn.Model) error {
	for _, err := range m.Stream(ctx, Hello()) {
		if err != nil {
			return err
		}
	}
	return nil
}

// allocations reads a short and a long reply. The allocations of a delta must not grow with the text so far.
// Nothing else may run at the same time.
func (a Adapter[Q, R]) allocations(t *testing.T) {
	const short, long = 500, 10_000
	per := func(deltas int) float64 {
		m := a.through(a.long(deltas))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := read(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(deltas)
	}
	per(short) // one-time allocations
	if few, many := per(short), per(long); many > 1.5*few {
		t.Errorf("a delta allocates %.0f bytes in a stream of %d, %.0f in one of %d", few, short, many, long)
	}
}

// BenchmarkDelta reads streams of 100 and of 10,000 deltas, alternately by the adapter and by the SDK alone. reads
// reads one by the SDK; it is nil for an adapter without one. over-ns is the time per delta that the adapter adds
// to the SDK. It must be less than 5,000, and the bytes per delta must not grow with the length.
func (a Adapter[Q, R]) BenchmarkDelta(b *testing.B, reads func(context.Context, *http.Client) error) {
	for _, deltas := range []int{100, 10_000} {
		b.Run(fmt.Sprint(deltas), func(b *testing.B) {
			client := a.long(deltas)
			var adapter, sdk spent
			for m := a.through(client); b.Loop(); {
				adapter.of(b, func() error { return read(b.Context(), m) })
				if reads == nil {
					continue
				}
				sdk.of(b, func() error { return reads(b.Context(), client.Client()) })
			}
			n := float64(b.N * deltas)
			b.ReportMetric(0, "ns/op") // would include both
			b.ReportMetric(float64(adapter.time)/n, "ns/delta")
			b.ReportMetric(float64(adapter.bytes)/n, "B/delta")
			if reads != nil {
				b.ReportMetric(float64(adapter.time-sdk.time)/n, "over-ns")
				b.ReportMetric(float64(sdk.time)/n, "sdk-ns/delta")
				b.ReportMetric(float64(sdk.bytes)/n, "sdk-B/delta")
			}
		})
	}
}

// spent is the cost of reading.
type spent struct {
	time  time.Duration
	bytes uint64
}

func (s *spent) of(b *testing.B, f func() error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	s.time += time.Since(began)
	runtime.ReadMemStats(&after)
	s.bytes += after.TotalAlloc - before.TotalAlloc
}
