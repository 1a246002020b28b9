package crosshost_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/pgstore"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// spendsVar, if set, makes the test binary a worker of the database that it names, whose runs share a budget. It begins
// the half of them that halfVar names, unless an earlier process has.
const (
	spendsVar = "CAIRN_TEST_SPENDS"
	halfVar   = "CAIRN_TEST_HALF"
)

const (
	spendingRuns  = 50
	spendingLimit = 400 // cents
	spendingCall  = 3   // cents, as estimated and as used
)

// spendingStore opens a database: a URL of PostgreSQL or a file of SQLite.
func spendingStore(database string) (store.Store, error) {
	if strings.Contains(database, "://") {
		return pgstore.Open(context.Background(), database, &pgstore.Options{Schema: "spending"})
	}
	return sqlitestore.Open(database, nil)
}

// spending returns an engine whose agent calls its model four times for each message.
func spending(st store.Store) (*engine.Engine, error) {
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		steps := 0
		for i := range req.Messages {
			if req.Messages[i].Role == cairn.RoleAssistant {
				steps++
			}
		}
		step := scripted.Call("look", struct{}{})
		if steps == 3 {
			step = scripted.Text("done")
		}
		return scripted.Reply(scripted.Pause(50*time.Millisecond), step).Usage(10_000, 2_000)
	})
	look := cairn.Func("look", "Looks.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "seen", nil })
	agent := &cairn.Agent{Name: "spender", Model: model, Tools: []cairn.Tool{look}, Settings: cairn.Settings{MaxOutputTokens: 2_000}}
	return engine.New(st, []*cairn.Agent{agent}, &engine.Options{LeaseTTL: 2 * time.Second, WorkInterval: 200 * time.Millisecond,
		Models: cairn.ModelTable{{Provider: "scripted", Name: "scripted", AsOf: "2026-11-01", Price: cairn.Price{Input: 1_000_000, Output: 10_000_000}}},
		Budgets: []cairn.BudgetRule{{Name: "monthly", Scope: cairn.BudgetOfUser, Period: cairn.BudgetMonth,
			Budget: cairn.Budget{USD: spendingLimit / 100.0, OnLimit: cairn.BudgetFails}}}})
}

// spends runs a spending process.
func spends(database string) error {
	st, err := spendingStore(database)
	if err != nil {
		return err
	}
	defer st.Close()
	eng, err := spending(st)
	if err != nil {
		return err
	}
	for i := range spendingRuns / 2 {
		id := fmt.Sprintf("%s-%d", os.Getenv(halfVar), i)
		_, err := eng.Execute(context.Background(), id, "spender", cairn.Text("go"), engine.WithUser("ann"), engine.WithRunID(id))
		if err != nil && !isTaken(err) {
			return err
		}
	}
	return eng.Work(context.Background())
}

// Fifty runs of one user share a budget in two processes that are killed again and again. They exceed it by at most the
// calls in progress, and its count equals the usage of the sessions in the end.
func TestBudgetOfKilledProcesses(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "spending.db") },
		"postgres": func(t *testing.T) string { return testenv.FastPostgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := database(t)
			st, err := spendingStore(at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			eng, err := spending(st)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = eng.Close(context.Background()) })
			// used returns what the rows of the sessions have, in cents, and how many sessions have ended.
			used := func() (cents int64, ended, failed int) {
				for row, err := range store.All(func(cursor string) (store.Page[cairn.Session], error) {
					return st.List(context.Background(), store.SessionQuery{UserID: "ann", Cursor: cursor})
				}) {
					if err != nil {
						t.Fatal(err)
					}
					cents += row.Usage.CostNanos / 10_000_000
					switch row.Status {
					case cairn.SessionFailed:
						failed++
						ended++
					case cairn.SessionCompleted:
						ended++
					}
				}
				return cents, ended, failed
			}
			kill := map[string]func(){}
			for _, half := range []string{"a", "b"} {
				kill[half] = startLife(t, spendsVar+"="+at, halfVar+"="+half)
			}
			for n, at := 1, at; n <= 6; n++ { // each time some more has been spent
				testclock.Await(t, "the runs to spend", func() bool {
					cents, ended, _ := used()
					return cents >= int64(n*spendingLimit/8) || ended == spendingRuns
				})
				half := []string{"a", "b"}[n%2]
				kill[half]()
				kill[half] = startLife(t, spendsVar+"="+at, halfVar+"="+half)
			}
			testclock.Await(t, "the runs to end", func() bool { _, ended, _ := used(); return ended == spendingRuns })
			cents, _, failed := used()
			const most = spendingLimit + 16*spendingCall              // calls that begin at the same time do not see each other
			const least = spendingLimit - 2*spendingRuns*spendingCall // while the calls of all runs are reserved, the dead ones' too
			if failed == 0 || cents < least || cents > most {
				t.Errorf("%d cents are used, %d runs failed: want at least %d and at most %d", cents, failed, least, most)
			}
			spent := func() int64 {
				list, err := eng.BudgetSpent(t.Context(), "monthly", "ann")
				if err != nil || len(list) != 1 {
					t.Fatal(list, err)
				}
				return int64(math.Round(list[0].Spent * 100))
			}
			testclock.Await(t, "the reservations of the dead to lapse", func() bool { return spent() == cents })
			t.Logf("%d cents of %d, %d runs failed", cents, spendingLimit, failed)
		})
	}
}
