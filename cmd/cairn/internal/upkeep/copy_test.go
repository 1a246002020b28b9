package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// interrupting is a store at whose last import Ctrl-C is pressed.
type interrupting struct {
	store.Importer
	imports int
	press   context.CancelFunc
}

func (s *interrupting) Import(ctx context.Context, root string, parts iter.Seq2[*store.Part, error]) error {
	if s.imports--; s.imports == 0 {
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
	for _, id := range []string{"a", "b", "c"} {
		if _, err := eng.Create(t.Context(), id, "bot"); err != nil {
			t.Fatal(err)
		}
	}
	for _, asJSON := range []bool{false, true} {
		ctx, press := context.WithCancel(t.Context())
		defer press()
		var out, errs strings.Builder
		a := &cli.App{Stdout: &out, Stderr: &errs}
		err = newCopying(&copyCmd{JSON: asJSON}, a, source, &interrupting{memstore.New(nil), 2, press}).run(ctx, a)
		if !errors.Is(err, &cairn.Error{Code: cairn.CodeNotExecuted}) || !strings.Contains(err.Error(), "interrupted; run the command again to continue") {
			t.Errorf("got %v", err)
		}
		if errs.String() != "1 session: 1 copied.\n" {
			t.Errorf("it says %q", errs.String())
		}
		var printed struct{ Items []treeReport }
		switch {
		case asJSON && (json.Unmarshal([]byte(out.String()), &printed) != nil || len(printed.Items) != 1 || printed.Items[0].Outcome != outcomeCopied):
			t.Errorf("it prints %s", out.String())
		case !asJSON && strings.Count(out.String(), "\n") != 2:
			t.Errorf("it prints\n%s", out.String())
		}
	}
}
