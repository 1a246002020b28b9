package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// interrupting is a store at one of whose imports Ctrl-C is pressed. Sessions are imported concurrently.
type interrupting struct {
	store.Importer
	imports atomic.Int32 // until then
	press   context.CancelFunc
}

func (s *interrupting) Import(ctx context.Context, root string, parts iter.Seq2[*store.Part, error]) error {
	if s.imports.Add(-1) == 0 {
		s.press()
	}
	return s.Importer.Import(ctx, root, parts)
}

// A copy that is interrupted prints what it has copied, as a table or as whole JSON, and how to continue.
func TestInterruptedCopySaysHowFarItCame(t *testing.T) {
	t.Parallel()
	source := memstore.New(nil)
	eng, err := engine.New(source, []*cairn.Agent{{Name: "bot", Model: scripted.New()}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	const sessions = 500
	for i := range sessions {
		if _, err := eng.Create(t.Context(), fmt.Sprint("s", i), "bot"); err != nil {
			t.Fatal(err)
		}
	}
	for _, asJSON := range []bool{false, true} {
		ctx, press := context.WithCancel(t.Context())
		defer press()
		var out, errs strings.Builder
		a := &cli.App{Stdout: &out, Stderr: &errs}
		target := &interrupting{Importer: memstore.New(nil), press: press}
		target.imports.Store(sessions / 2)
		err = newCopying(&copyCmd{JSON: asJSON}, a, source, target).run(ctx, a)
		if !errors.Is(err, &cairn.Error{Code: cairn.ErrNotExecuted}) || !strings.Contains(err.Error(), "interrupted; run the command again to continue") {
			t.Errorf("got %v", err)
		}
		copied := 0
		for _, err := range pages.All(func(cursor string) (store.Page[cairn.Session], error) {
			return target.List(t.Context(), store.SessionQuery{Cursor: cursor})
		}) {
			if err != nil {
				t.Fatal(err)
			}
			copied++
		}
		if copied == 0 || copied == sessions || errs.String() != fmt.Sprintf("%[1]d sessions: %[1]d copied.\n", copied) {
			t.Errorf("with %d of %d copied it says %q", copied, sessions, errs.String())
		}
		var printed struct{ Items []treeReport }
		switch {
		case asJSON && (json.Unmarshal([]byte(out.String()), &printed) != nil || len(printed.Items) != copied || printed.Items[0].Outcome != outcomeCopied):
			t.Errorf("it prints %s", out.String())
		case !asJSON && strings.Count(out.String(), "\n") != copied+1:
			t.Errorf("it prints\n%s", out.String())
		}
	}
}
