package traces_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/sqlitestore"
	"github.com/cairn-agents/cairn/traces"
)

// These variables make the test's program another process of a scenario.
const (
	envRole  = "CAIRN_TRACES_ROLE"
	envStore = "CAIRN_TRACES_STORE"
	envURL   = "CAIRN_TRACES_URL"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		if err := process(role); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// options are those of each engine here: by role, a dead process is noticed soon.
func options(role string) *engine.Options {
	opts := &engine.Options{WorkInterval: 20 * time.Millisecond}
	if role == "work" {
		opts.LeaseTTL = 600 * time.Millisecond
	}
	return opts
}

// tracing are the options of each exporter here.
func tracing() *traces.Options {
	return &traces.Options{Interval: 15 * time.Millisecond, LeaseTTL: 300 * time.Millisecond}
}

// process is the life of another process: "ask" begins a turn that comes to wait, and then waits to be killed; "work" takes
// part in all turns.
func process(role string) error {
	ctx := context.Background()
	st, err := sqlitestore.Open(os.Getenv(envStore), nil)
	if err != nil {
		return err
	}
	eng, err := engine.New(st, cast(), options(role))
	if err != nil {
		return err
	}
	to, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(os.Getenv(envURL)+"/v1/traces"))
	if err != nil {
		return err
	}
	x, err := traces.New(eng, to, tracing())
	if err != nil {
		return err
	}
	switch role {
	case "ask":
		run, err := eng.Execute(ctx, "s", "support", cairn.Text("Where is my order? Refund it."), engine.WithUser("ann"), engine.WithTags("gold"),
			engine.WithTraceParent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
		if err != nil {
			return err
		}
		if _, err := run.Wait(ctx); err != nil {
			return err
		}
		if err := x.Flush(ctx); err != nil {
			return err
		}
	case "work":
		go func() { _ = x.Run(ctx) }()
		go func() { _ = eng.Work(ctx) }()
		var turns sync.WaitGroup
		for i := range 3 {
			turns.Go(func() { converse(ctx, eng, fmt.Sprint("w", i)) })
		}
		turns.Wait()
	}
	fmt.Println("ready")
	select {}
}

// converse makes turns of a session, one after another, until ctx is done.
func converse(ctx context.Context, eng *engine.Engine, id string) {
	for ctx.Err() == nil {
		run, err := eng.Execute(ctx, id, "worker", cairn.Text("go"), engine.WithUser("ann"))
		if err == nil {
			_, _ = run.Wait(ctx)
			continue
		}
		timer := time.NewTimer(10 * time.Millisecond) // a run of a process that died is taken over soon
		<-timer.C
	}
}

// start starts another process. It returns once the process has printed that it is ready, if wait is set.
func start(t *testing.T, role, store, url string, wait bool) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role, envStore+"="+store, envURL+"="+url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	if wait {
		line := make([]byte, 64)
		if n, err := out.Read(line); !strings.HasPrefix(string(line[:n]), "ready") {
			t.Fatalf("%s is not ready: %q, %v", role, line[:n], err)
		}
	}
	return cmd
}

// kill kills a process, and waits until it is gone.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// cast are the agents of all processes.
func cast() []*cairn.Agent {
	find := cairn.Func("find_order", "Finds an order.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "order 7", nil })
	refund := cairn.Func("refund", "Refunds an order.", func(context.Context, *cairn.Call, struct{}) (string, error) {
		return "", fmt.Errorf("the bank is closed")
	}, cairn.RequireApproval())
	reader := &cairn.Agent{Name: "reader", Description: "Reads policies.", Model: scripted.New(scripted.Text("30 days.").Usage(30, 3))}
	support := &cairn.Agent{Name: "support", Tools: []cairn.Tool{find, refund, cairn.SubAgent(reader)}, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		switch answered(req) {
		case 0:
			return scripted.Reply(scripted.Call("find_order", struct{}{}).ID("call_find"), scripted.Call("reader", map[string]string{"input": "refunds"}).ID("call_read")).Usage(100, 10)
		case 2:
			return scripted.Call("refund", struct{}{}).ID("call_refund").Usage(200, 20)
		}
		return scripted.Text("The bank is closed.").Usage(300, 30)
	})}
	think := cairn.Func("think", "Thinks.", func(ctx context.Context, _ *cairn.Call, _ struct{}) (string, error) {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
		return "done", ctx.Err()
	})
	worker := &cairn.Agent{Name: "worker", Tools: []cairn.Tool{think}, Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if answered(req)%4 != 0 || req.Messages[len(req.Messages)-1].Role == cairn.RoleUser {
			return scripted.Reply(scripted.Text("Hm."), scripted.Pause(3*time.Millisecond), scripted.Call("think", struct{}{}), scripted.Call("think", struct{}{}))
		}
		return scripted.Reply(scripted.Pause(3*time.Millisecond), scripted.Text("Done."))
	})}
	return []*cairn.Agent{support, reader, worker}
}

// answered counts the results in a request.
func answered(req *cairn.Request) (n int) {
	for i := range req.Messages {
		n += len(req.Messages[i].ToolResults())
	}
	return n
}
