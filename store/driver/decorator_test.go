package driver_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// logged logs the commits of a store.
type logged struct {
	driver.Store
	log *slog.Logger
}

// Unwrap implements driver.Unwrapper.
func (l logged) Unwrap() driver.Store { return l.Store }

// Commit implements driver.Store.
func (l logged) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	row, err := l.Store.Commit(ctx, id, c)
	l.log.InfoContext(ctx, "commit", "session", id, "messages", len(c.Messages), "error", err)
	return row, err
}

func ExampleUnwrapper() {
	ctx := context.Background()
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: noTime}))
	bot := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Text("hello"))}
	eng, err := engine.New(logged{memstore.New(nil), log}, []*cairn.Agent{bot}, nil) // with the log of the inner store
	if err != nil {
		fmt.Println(err)
		return
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "s", "bot", cairn.Text("hi"))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := run.Wait(ctx)
	fmt.Println(res.Text, err)
	// Output:
	// level=INFO msg=commit session=s messages=1 error=<nil>
	// level=INFO msg=commit session=s messages=1 error=<nil>
	// hello <nil>
}

// bare embeds a store and is no Unwrapper; alone is not one on purpose; bareLog and openLog embed a log.
type (
	bare    struct{ driver.Store }
	alone   struct{ driver.Store }
	bareLog struct{ driver.Log }
	openLog struct{ bareLog }
)

func (a alone) Self() driver.Store { return a }

func (o openLog) Unwrap() driver.Log { return o.Log }

func TestAsFindsTheOutermost(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	for name, outer := range map[string]driver.Store{"itself": st, "one level": logged{Store: st}, "two levels": logged{Store: logged{Store: st}}} {
		if got, ok := driver.As[driver.Sweeper](outer); !ok || got != driver.Sweeper(st) {
			t.Errorf("%s: %T, %t", name, got, ok)
		}
		if got, ok := driver.As[driver.Unwrapper](outer); ok == (name == "itself") || ok && got != outer {
			t.Errorf("%s: as a decorator it is %T, %t", name, got, ok)
		}
	}
	for name, outer := range map[string]driver.Store{"nil": nil, "no unwrapper": bare{st}, "an unwrapper of one": logged{Store: bare{st}}} {
		if got, ok := driver.As[driver.Sweeper](outer); ok {
			t.Errorf("%s: %T", name, got)
		}
	}
	fence, ok := driver.LogAs[driver.Fencer](openLog{bareLog{st.EventLog()}})
	if !ok || fence != st.EventLog().(driver.Fencer) {
		t.Errorf("the log's fencer is %T, %t", fence, ok)
	}
	if got, ok := driver.LogAs[driver.Fencer](bareLog{st.EventLog()}); ok {
		t.Errorf("a log that is no unwrapper is a %T", got)
	}
}

func TestEngineRefusesDecoratorThatHidesInterfaces(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	agents := []*cairn.Agent{{Name: "bot", Model: scripted.New()}}
	all := []string{"Importer", "LogProvider", "RecordProvider", "StopWatcher", "Sweeper"}
	for name, c := range map[string]struct {
		st   driver.Store
		log  driver.Log
		want []string // words of the error; nil for none
	}{
		"itself":                       {st, nil, nil},
		"a decorator":                  {logged{Store: st}, nil, nil},
		"embedded":                     {bare{st}, st.EventLog(), all},
		"embedded, by pointer":         {&bare{st}, st.EventLog(), all},
		"embedded within a decorator":  {logged{Store: bare{st}}, st.EventLog(), all},
		"a decorator that is embedded": {bare{logged{Store: st}}, st.EventLog(), all},
		"hidden on purpose":            {alone{st}, st.EventLog(), nil},
		"a log":                        {st, bareLog{st.EventLog()}, []string{"Fencer, LogSweeper", "log"}},
		"a log's decorator":            {st, openLog{bareLog{st.EventLog()}}, nil},
	} {
		eng, err := engine.New(c.st, agents, &engine.Options{Log: c.log})
		if err == nil {
			_ = eng.Close(t.Context())
		}
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, word := range c.want {
			if !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "Unwrap") {
				t.Errorf("%s: the error does not name %q: %v", name, word, err)
			}
		}
	}
}

// TestDecoratedStoreDoesAllThatItsInnerStoreDoes deletes and restores a tree, and reads records, through a decorator.
func TestDecoratedStoreDoesAllThatItsInnerStoreDoes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	agents := []*cairn.Agent{{Name: "bot", Model: scripted.New(scripted.Text("hello"))}}
	eng, err := engine.New(logged{memstore.New(nil), slog.New(slog.DiscardHandler)}, agents, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(ctx)
	if _, err := eng.Create(ctx, "s", "bot"); err != nil {
		t.Fatal(err)
	}
	if err := eng.Delete(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if row, err := eng.Restore(ctx, "s"); err != nil || row.ID != "s" {
		t.Errorf("restored %+v, %v", row, err)
	}
	if eng.Records() == nil {
		t.Error("the engine has no records")
	}
}
