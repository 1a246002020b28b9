package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/internal/testenv"
)

// resultsVariable names the file to which a soak appends its result.
const resultsVariable = "CAIRN_SOAK_RESULTS"

// report logs the result of a soak as a row of a table in docs/results/stops.md, and appends it to the results.
func (h *harness) report(lasted time.Duration, serverStops int, paused *pauses) {
	h.t.Helper()
	line := h.line(lasted, serverStops, paused)
	h.t.Log(line)
	if path := os.Getenv(resultsVariable); path != "" && testenv.Soak() {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, line)
			f.Close()
		}
		if err != nil {
			h.t.Errorf("the result is not kept: %v", err)
		}
	}
}

// line returns the row: date, commit, command, test, stops, runs, invariants, and the times from a stop to the end
// of the runs that it hit.
func (h *harness) line(lasted time.Duration, serverStops int, paused *pauses) string {
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
	cells := []string{
		time.Now().UTC().Format(time.DateOnly), commit(), "`" + command() + "`", filepath.Base(workDir()) + " " + h.t.Name(), stops,
		fmt.Sprintf("%d of %d sessions, hit by a stop %d times", h.tally.runs, h.tally.sessions, hit), verdict,
		fmt.Sprintf("%s; %s; %s", h.times(took, byKill), h.times(took, byTerm), h.times(took, byBoth)),
	}
	return "| " + strings.Join(cells, " | ") + " |"
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

// commit returns the tested commit, or "unknown".
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// command returns the command that started the test.
func command() string {
	if !testenv.Soak() {
		return "make test"
	}
	words := []string{"make", "soak"}
	for _, name := range []string{"KILLS", "HOURS"} {
		if v := os.Getenv(name); v != "" {
			words = append(words, name+"="+v)
		}
	}
	return strings.Join(append(words, "ONLY="+filepath.Base(workDir())), " ")
}

func workDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "unknown"
	}
	return dir
}
