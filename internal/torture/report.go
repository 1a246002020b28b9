package torture

import (
	"fmt"
	"time"

	"github.com/cairn-agents/cairn/internal/testenv"
)

// report logs the result of a soak as a row of a table in docs/results/stops.md, and appends it to the results.
func (h *harness) report(lasted time.Duration, serverStops int, paused *pauses) {
	h.t.Helper()
	testenv.Report(h.t, h.cells(lasted, serverStops, paused)...)
}

// cells returns the row's cells: stops, runs, invariants, and the times from a stop to the end of the runs that it hit.
func (h *harness) cells(lasted time.Duration, serverStops int, paused *pauses) []string {
	by, slept := map[ending]int{}, 0
	for _, s := range h.stops {
		by[s.how]++
		if s.slept {
			slept++
		}
	}
	stops := fmt.Sprintf("%d in %s: %d SIGKILL, %d SIGTERM, %d both; %d slept past their leases",
		h.stopped(), lasted.Round(time.Second), by[byKill], by[byTerm], by[byBoth], slept)
	if serverStops > 0 {
		stops += fmt.Sprintf("; the server %d times", serverStops)
	}
	if n := paused.n.Load(); n > 0 {
		stops += fmt.Sprintf("; the server paused %d times for %s", n, pauseOf)
	}
	if n := paused.hung.Load(); n > 0 {
		stops += fmt.Sprintf(", after which it hung and was restarted %d times", n)
	}
	took, lost := h.outlived()
	hit := lost
	for _, list := range took {
		hit += len(list)
	}
	verdict := fmt.Sprintf("%d, all hold", len(Invariants)+len(questions))
	if h.t.Failed() {
		verdict = "**broken**"
	}
	return []string{
		stops, fmt.Sprintf("%d of %d sessions, hit by a stop %d times", h.tally.runs, h.tally.sessions, hit), verdict,
		fmt.Sprintf("%s; %s; %s", h.times(took, byKill), h.times(took, byTerm), h.times(took, byBoth)),
	}
}

// questions are the checks of the store after every stop, see [watch].
var questions = []string{"what needs a worker is due", "nothing is active without a lease for long", "a closed engine has no lease"}

func (h *harness) times(took map[ending][]time.Duration, how ending) string {
	list := took[how]
	return fmt.Sprintf("%s: median %s, p99 %s", how, round(median(list)), round(quantile(list, 0.99)))
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
