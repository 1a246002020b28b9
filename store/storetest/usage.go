package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// usageTests are the tests of stores that are UsageProviders.
var usageTests = []storeTest{
	{name: "RowOfCommit", run: usageRowOfCommit},
	{name: "OnceForEachCommit", run: usageOnce},
	{name: "Pages", run: usagePages},
	{name: "FoldsKeepSums", run: usageFolds},
	{name: "TwoFolders", run: usageTwoFolders},
	{name: "TwoHandles", run: usageTwoHandles, needs: needsSecond},
	{name: "Trim", run: usageTrim},
	{name: "Forget", run: usageForget},
	{name: "Put", run: usagePut},
	{name: "Days", run: usageDays},
	{name: "Hostile", run: usageHostile},
	{name: "Reopen", run: usageReopen, needs: needsReopen},
	{name: "Fault", run: usageFault, needs: needsFault},
}

// usages returns the store's usage rows. Only tests of stores that have them call it.
func (h *harness) usages() driver.Usages { return h.st.(driver.UsageProvider).Usages() }

// modelEntry and toolEntry are entries of a model call and of a tool call.
func modelEntry(model string, in, out int64) cairn.UsageEntry {
	return cairn.UsageEntry{Kind: cairn.UsageModel, Name: model, Duration: cairn.Duration(time.Duration(in) * time.Millisecond),
		Usage: cairn.Usage{InputTokens: in, OutputTokens: out, ModelCalls: 1, PricedCalls: 1, CostNanos: 7 * in}}
}

func toolEntry(tool string) cairn.UsageEntry {
	return cairn.UsageEntry{Kind: cairn.UsageTool, Name: tool, Duration: cairn.Duration(time.Second), Usage: cairn.Usage{ToolCalls: 1}}
}

// spend commits a step of the run that holds s, with entries.
func (h *harness) spend(s *cairn.Session, entries ...cairn.UsageEntry) *cairn.Session {
	h.Helper()
	c := h.stepCommit(s, "reply")
	c.Spend(entries...)
	return h.commit(s.ID, c)
}

// rows returns all usage rows.
func (h *harness) usageRows() (list []cairn.UsageRow) {
	h.Helper()
	for r, err := range driver.All(func(cursor string) (driver.Page[cairn.UsageRow], error) {
		return h.usages().Rows(h.Context(), driver.PageQuery{Cursor: cursor})
	}) {
		h.must(err)
		list = append(list, *r)
	}
	return list
}

// sums returns the usage of a span of days by their keys without the day.
func (h *harness) sums(days driver.DaySpan) map[string]cairn.Usage {
	h.Helper()
	var all map[string]cairn.Usage
	h.must(h.usages().Sums(h.Context(), days, func() { all = map[string]cairn.Usage{} }, func(s *driver.UsageSum) {
		of := fmt.Sprintf("%s|%s|%s|%s|%s|%s", s.Tenant, s.UserID, s.Agent, strings.Join(s.Tags, ","), s.Kind, s.Name)
		all[of] = all[of].Add(s.Usage)
	}))
	return all
}

// total returns the sum of all usage.
func (h *harness) total() (sum cairn.Usage) {
	h.Helper()
	for _, u := range h.sums(driver.DaySpan{}) {
		sum = sum.Add(u)
	}
	return sum
}

// fold folds everything, a few rows at a time.
func (h *harness) fold() {
	h.Helper()
	for {
		n, err := h.usages().Fold(h.Context(), 3)
		h.must(err)
		if n == 0 {
			return
		}
	}
}

func (h *harness) wantUsage(what string, got, want cairn.Usage) {
	h.Helper()
	same(h.T, what, roundedUsage(got), roundedUsage(want))
}

// roundedUsage is usage whose custom amounts do not depend on the order in which they were added.
func roundedUsage(u cairn.Usage) cairn.Usage {
	custom := map[string]float64{}
	for name, n := range u.Custom {
		custom[name] = math.Round(n*1e6) / 1e6
	}
	u.Custom = custom
	return u
}

// usageRowOfCommit checks what a row says: of a step, of work outside of runs, of a commit without entries, and of the end
// of a run without usage.
func usageRowOfCommit(h *harness) {
	h.commit("acme::s", &driver.Commit{Create: &cairn.Session{Agent: agentName, UserID: "acme::ann", Tags: []string{"b", "a"}}})
	s := h.begin("acme::s", "run")
	custom := cairn.UsageEntry{Kind: cairn.UsageCustom, Name: "pages", Usage: cairn.Usage{Custom: map[string]float64{"pages": 1.5}}}
	h.spend(s, modelEntry("test:a", 10, 2), toolEntry("find"), custom)
	tags := []string{"c"}
	h.commit("acme::s", &driver.Commit{Context: &driver.ContextChange{Tags: &tags},
		UsageBeside: modelEntry("test:b", 5, 1).Usage, UsageEntries: []cairn.UsageEntry{modelEntry("test:b", 5, 1)}})
	s = h.load("acme::s")
	c := h.stepCommit(s, "more")
	c.Usage = cairn.Usage{InputTokens: 3}
	h.end(h.commit("acme::s", c))
	s = h.load("acme::s")

	rows := h.usageRows()
	if len(rows) != 4 {
		h.Fatalf("%d rows, want 4: %+v", len(rows), rows)
	}
	for i, want := range []cairn.UsageRow{
		{RunID: "run", Step: 1, Tags: []string{"b", "a"}, Entries: []cairn.UsageEntry{modelEntry("test:a", 10, 2), toolEntry("find"), custom}},
		{Tags: tags, Entries: []cairn.UsageEntry{modelEntry("test:b", 5, 1)}},
		{RunID: "run", Step: 2, Tags: tags, Entries: []cairn.UsageEntry{{Kind: cairn.UsageUnknown, Usage: cairn.Usage{InputTokens: 3}}}},
		{RunID: "run", Tags: tags, Entries: []cairn.UsageEntry{}},
	} {
		want.At, want.SessionID, want.RootID, want.Tenant, want.UserID, want.Agent = rows[i].At, "acme::s", "acme::s", "acme", "acme::ann", agentName
		same(h.T, fmt.Sprintf("row %d", i), rows[i], want)
		if rows[i].At.IsZero() || rows[i].At.After(s.AsOf) || i > 0 && rows[i].At.Before(rows[i-1].At) {
			h.Fatalf("row %d is of %s", i, rows[i].At)
		}
	}
	h.wantUsage("the sums", h.total(), h.load("acme::s").Usage)
}

// usageOnce commits the same step twice, and one that is refused: neither adds a row.
func usageOnce(h *harness) {
	s := h.running("s")
	c := h.stepCommit(s, "reply")
	c.Spend(modelEntry("test:a", 10, 2))
	row := h.commit("s", c)
	h.commit("s", c)
	stale := h.stepCommit(s, "late")
	stale.Spend(modelEntry("test:a", 10, 2))
	if _, err := h.st.Commit(h.Context(), "s", stale); err == nil {
		h.Fatal("a stale commit was written")
	}
	if rows := h.usageRows(); len(rows) != 1 {
		h.Fatalf("%d rows, want 1", len(rows))
	}
	h.wantUsage("the sums", h.total(), row.Usage)
}

func usagePages(h *harness) {
	s := h.running("s")
	for i := range 7 {
		s = h.spend(s, modelEntry("test:a", int64(i+1), 0))
	}
	if _, err := h.usages().Fold(h.Context(), 3); err != nil {
		h.Fatal(err)
	}
	var got []int64
	for cursor, pages := "", 0; ; pages++ {
		page, err := h.usages().Rows(h.Context(), driver.PageQuery{Cursor: cursor, Limit: 2})
		h.must(err)
		if len(page.Items) > 2 || pages > 7 {
			h.Fatalf("page %d has %d rows", pages, len(page.Items))
		}
		for i := range page.Items {
			got = append(got, page.Items[i].Usage().InputTokens)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		if pages == 0 { // folding, and new rows, do not disturb a list
			h.fold()
			s = h.spend(s, modelEntry("test:a", 8, 0))
		}
	}
	same(h.T, "the rows", got, []int64{1, 2, 3, 4, 5, 6, 7, 8})
	_, err := h.usages().Rows(h.Context(), driver.PageQuery{Cursor: "x"})
	h.wantError(err, cairn.ErrInvalid, "an invalid cursor")
}

// usageFolds compares the sums with a model while steps, folds and trims happen in a random order.
func usageFolds(h *harness) {
	seed := h.opts.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	r := rand.New(rand.NewPCG(seed, 1))
	sessions := []*cairn.Session{}
	for i := range 3 {
		id := fmt.Sprintf("s%d", i)
		h.commit(id, &driver.Commit{Create: &cairn.Session{Agent: agentName, UserID: fmt.Sprintf("u%d", i%2), Tags: []string{"t", fmt.Sprint(i)}[:1+i%2]}})
		sessions = append(sessions, h.begin(id, "run"))
	}
	want := map[string]cairn.Usage{}
	for range h.rounds(60) {
		switch n := r.IntN(10); {
		case n < 6:
			at := r.IntN(len(sessions))
			s := sessions[at]
			e := []cairn.UsageEntry{modelEntry(fmt.Sprintf("test:%d", r.IntN(2)), r.Int64N(100), r.Int64N(9)), toolEntry("find")}[:1+r.IntN(2)]
			sessions[at] = h.spend(s, e...)
			for _, e := range e {
				of := fmt.Sprintf("%s|%s|%s|%s|%s|%s", s.Tenant, s.UserID, s.Agent, strings.Join(s.Tags, ","), e.Kind, e.Name)
				want[of] = want[of].Add(e.Usage)
			}
		case n < 8:
			_, err := h.usages().Fold(h.Context(), 1+r.IntN(5))
			h.must(err)
		default:
			_, err := h.usages().Trim(h.Context(), 0, 1+r.IntN(5))
			h.must(err)
		}
		if got := h.sums(driver.DaySpan{}); plain(h.T, got) != plain(h.T, want) {
			h.Fatalf("seed %d: sums differ:\n%s\nwant\n%s", seed, plain(h.T, got), plain(h.T, want))
		}
	}
}

// usageTwoFolders folds with several callers at once, while steps are written and sums are read.
func usageTwoFolders(h *harness) { h.foldBy(h, h) }

func usageTwoHandles(h *harness) { h.foldBy(h, h.on(h.opts.Second(h.T, h.st))) }

func (h *harness) foldBy(folders ...*harness) {
	const each = 30
	sessions := []*cairn.Session{h.running("s0"), h.running("s1")}
	stop := make(chan struct{})
	var folds, writes sync.WaitGroup
	problems := make(chan error, 8)
	for _, f := range folders {
		folds.Go(func() {
			for {
				if _, err := f.usages().Fold(h.Context(), 4); err != nil && !errors.Is(err, cairn.ErrStale) {
					problems <- err
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i, s := range sessions {
		writes.Go(func() {
			for range each {
				c := h.stepCommit(s, "reply")
				c.Spend(modelEntry("test:a", int64(i+1), 1))
				next, err := h.st.Commit(h.Context(), s.ID, c)
				if err != nil {
					problems <- err
					return
				}
				s = next
			}
		})
	}
	last := int64(0)
	for range 10 { // a reader never sees less than before
		n := h.total().OutputTokens
		if n < last {
			h.Errorf("the sum fell from %d to %d", last, n)
		}
		last = n
	}
	writes.Wait()
	close(stop)
	folds.Wait()
	select {
	case err := <-problems:
		h.Fatal(err)
	default:
	}
	want := h.load("s0").Usage.Add(h.load("s1").Usage)
	for i, f := range folders {
		f.wantUsage(fmt.Sprintf("the sums of handle %d", i), f.total(), want)
	}
	h.fold()
	h.wantUsage("the sums, all folded", h.total(), want)
}

func usageTrim(h *harness) {
	s := h.running("s")
	for range 5 {
		s = h.spend(s, modelEntry("test:a", 1, 1))
	}
	tick()
	trim := func(age time.Duration, limit int) int {
		n, err := h.usages().Trim(h.Context(), age, limit)
		h.must(err)
		return n
	}
	if n := trim(0, 10); n != 0 {
		h.Fatalf("%d rows were removed that are not folded", n)
	}
	h.fold()
	if n := trim(time.Hour, 10); n != 0 {
		h.Fatalf("%d young rows were removed", n)
	}
	if n := trim(0, 2); n != 2 {
		h.Fatalf("%d rows were removed, want 2", n)
	}
	for trim(0, 10) > 0 {
	}
	if n := len(h.usageRows()); n > 1 { // a store may keep the last one
		h.Fatalf("%d rows remain", n)
	}
	h.wantUsage("the sums", h.total(), s.Usage)
	s = h.spend(s, modelEntry("test:a", 1, 1))
	h.wantUsage("the sums with another row", h.total(), s.Usage)
	h.fold()
	h.wantUsage("the sums with another row folded", h.total(), s.Usage)
}

// usageForget forgets a user and a tree, of whose rows some are folded.
func usageForget(h *harness) {
	live := map[string]*cairn.Session{}
	for _, id := range []string{"of-ann", "of-bob", "tree"} {
		user := strings.TrimPrefix(id, "of-")
		h.commit(id, &driver.Commit{Create: &cairn.Session{Agent: agentName, UserID: user}})
		live[id] = h.begin(id, "run-"+id)
	}
	spend := func() {
		for _, id := range []string{"of-ann", "of-bob", "tree"} {
			live[id] = h.spend(live[id], modelEntry("test:a", 1, 1), toolEntry("find"))
		}
	}
	spend()
	h.fold()
	spend()
	before := h.total()
	who := driver.Forget{UserID: "ann", Roots: []string{"of-ann", "tree"}}
	h.must(h.usages().Forget(h.Context(), who))
	h.must(h.usages().Forget(h.Context(), who))
	check := func(when string) {
		h.Helper()
		h.wantUsage("the sums "+when, h.total(), before)
		for _, r := range h.usageRows() {
			if bob := r.UserID == "bob"; bob != (r.SessionID == "of-bob") || bob != (r.RootID == "of-bob") || bob != (r.RunID == "run-of-bob") || r.UserID == "ann" {
				h.Errorf("%s: row %+v", when, r)
			}
		}
		users := map[string]int64{}
		h.must(h.usages().Sums(h.Context(), driver.DaySpan{}, func() { clear(users) }, func(s *driver.UsageSum) { users[s.UserID] += s.Usage.InputTokens }))
		same(h.T, "the users "+when, users, map[string]int64{"": 2, "bob": 2, "tree": 2})
	}
	check("before the fold")
	h.fold()
	check("after the fold")
}

func usagePut(h *harness) {
	sum := driver.UsageSum{Day: "2026-01-02", Agent: agentName, Kind: cairn.UsageModel, Name: "test:a", Usage: cairn.Usage{InputTokens: 5}}
	for range 2 { // it replaces
		h.must(h.usages().Put(h.Context(), []driver.UsageSum{sum}))
	}
	h.wantUsage("the sums", h.total(), sum.Usage)
}

func usageDays(h *harness) {
	var sums []driver.UsageSum
	for i, day := range []string{"2025-12-31", "2026-01-01", "2026-01-02", "2026-01-10"} {
		sums = append(sums, driver.UsageSum{Day: day, Agent: agentName, Kind: cairn.UsageModel, Usage: cairn.Usage{InputTokens: int64(math.Pow10(i))}})
	}
	h.must(h.usages().Put(h.Context(), sums))
	h.spend(h.running("s"), modelEntry("test:a", 50_000, 0)) // today, not folded
	for span, want := range map[driver.DaySpan]int64{
		{}:                                     51_111,
		{From: "2026-01-01", To: "2026-01-02"}: 110,
		{From: "2026-01-02"}:                   51_100,
		{To: "2026-01-01"}:                     11,
		{From: "2026-01-03", To: "2026-01-09"}: 0,
		{From: "2026-01-02", To: "2026-01-01"}: 0,
	} {
		got := int64(0)
		for _, u := range h.sums(span) {
			got += u.InputTokens
		}
		if got != want {
			h.Errorf("%+v has %d tokens, want %d", span, got, want)
		}
	}
}

// usageHostile uses names that a store might take for syntax of its own.
func usageHostile(h *harness) {
	names := []string{"'; DROP TABLE usage_rows; --", "a\nb|c", `{"day":"x"}`, "%", "日本", strings.Repeat("n", 1000)}
	want := map[string]int64{}
	for i, name := range names {
		id := fmt.Sprintf("s%d", i)
		h.commit(id, &driver.Commit{Create: &cairn.Session{Agent: agentName, UserID: "u" + fmt.Sprint(i), Tags: []string{"t'\""}}})
		s := h.begin(id, "run")
		h.spend(s, modelEntry(name, int64(i+1), 0))
		want[name] = int64(i + 1)
	}
	for _, when := range []string{"in rows", "folded", "forgotten"} {
		got := map[string]int64{}
		h.must(h.usages().Sums(h.Context(), driver.DaySpan{}, func() { clear(got) }, func(s *driver.UsageSum) { got[s.Name] += s.Usage.InputTokens }))
		same(h.T, "the names "+when, got, want)
		if when == "in rows" {
			h.fold()
		} else {
			h.must(h.usages().Forget(h.Context(), driver.Forget{UserID: "u0", Roots: slices.Repeat([]string{"s'1"}, 3)}))
		}
	}
	h.running("s")
	for field, e := range map[string]cairn.UsageEntry{"a text with NUL": {Kind: "a\x00"}, "a negative count": {Kind: "model", Usage: cairn.Usage{InputTokens: -1}}} {
		_, err := h.st.Commit(h.Context(), "s", &driver.Commit{UsageEntries: []cairn.UsageEntry{e}})
		h.wantError(err, cairn.ErrInvalid, field)
	}
}

func usageReopen(h *harness) {
	s := h.running("s")
	s = h.spend(s, modelEntry("test:a", 1, 1))
	h.fold()
	s = h.spend(s, modelEntry("test:a", 2, 1))
	h.st = h.opts.Reopen(h.T, h.st)
	h.wantUsage("the sums", h.total(), s.Usage)
	h.fold()
	h.wantUsage("the sums, folded", h.total(), s.Usage)
}

// usageFault fails each internal write of folds and of forgetting in turn: the sums stay as they are.
func usageFault(h *harness) {
	h.commit("s", &driver.Commit{Create: &cairn.Session{Agent: agentName, UserID: "ann"}})
	s := h.begin("s", "run")
	for what, write := range map[string]func() error{
		"fold":   func() error { _, err := h.usages().Fold(h.Context(), 10); return err },
		"forget": func() error { return h.usages().Forget(h.Context(), driver.Forget{UserID: "ann"}) },
		"trim":   func() error { _, err := h.usages().Trim(h.Context(), 0, 10); return err },
	} {
		for n := 1; ; n++ {
			s = h.spend(s, modelEntry("test:a", 1, 1), modelEntry("test:b", 1, 1), toolEntry("find"))
			if what != "fold" {
				h.fold()
				s = h.spend(s, modelEntry("test:a", 1, 1))
			}
			tick()
			disarm := h.opts.Fault(h.T, h.st, n)
			err := write()
			failed := disarm()
			if err != nil {
				h.wantError(err, cairn.ErrUnavailable, what)
			}
			h.wantUsage("the sums after a "+what, h.total(), s.Usage)
			if !failed {
				h.must(err)
				if n == 1 {
					h.Fatalf("%s: no internal write was made to fail", what)
				}
				break
			}
			if n == mostWrites {
				h.Fatalf("%s: still failing at internal write %d", what, n)
			}
		}
	}
	h.must(h.usages().Forget(h.Context(), driver.Forget{UserID: "ann"}))
	if raw, err := json.Marshal(h.usageRows()); err != nil || strings.Contains(string(raw), "ann") {
		h.Fatalf("rows still have the user: %s, %v", raw, err)
	}
}
