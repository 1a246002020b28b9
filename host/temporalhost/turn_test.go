package temporalhost_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/temporalhost"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// play starts a process with a worker for one agent.
func play(t *testing.T, c client.Client, st driver.Store, agent *cairn.Agent, opts temporalhost.Options) *engine.Engine {
	t.Helper()
	opts.TaskQueue, opts.Prefix = t.Name(), t.Name()
	h, err := temporalhost.New(c, &opts)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.New(st, []*cairn.Agent{agent}, &engine.Options{Host: h})
	if err != nil {
		t.Fatal(err)
	}
	w := h.Worker(eng, worker.Options{})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Stop()
		if err := eng.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return eng
}

type in struct {
	Text string `json:"text"`
}

// rounds is a model that calls the tool "note" n times and then is done.
func rounds(n int) cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if done := len(req.Messages) / 2; done < n {
			return scripted.Call("note", in{fmt.Sprint(done)})
		}
		return scripted.Text("done")
	})
}

func execute(t *testing.T, eng *engine.Engine) *engine.Run {
	t.Helper()
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// histories returns the histories of all runs of the first turn's workflow, in order.
func histories(t *testing.T, c client.Client) [][]*historypb.HistoryEvent {
	t.Helper()
	var all [][]*historypb.HistoryEvent
	id := t.Name() + "/bot/s/1"
	first, err := c.DescribeWorkflow(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	for run := first.RawResponse.GetWorkflowExecutionInfo().GetFirstRunId(); run != ""; {
		var list []*historypb.HistoryEvent
		next := ""
		for page := c.GetWorkflowHistory(t.Context(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); page.HasNext(); {
			ev, err := page.Next()
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, ev)
			next = ev.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		}
		all, run = append(all, list), next
	}
	return all
}

// A history holds ids and numbers, however large the payloads of tools and models. With 200 steps, some of a megabyte,
// it stays far below the server's limits of 51200 events and 50 MB.
func TestHistoryHoldsNoPayload(t *testing.T) {
	t.Parallel()
	c := connect(t)
	const secret = "the-payload-"
	const steps = 200
	result := strings.Repeat(secret, 1<<20/len(secret)+1) // a megabyte
	note := cairn.Func("note", "Notes.", func(_ context.Context, _ *cairn.Call, in in) (string, error) {
		if strings.HasSuffix(in.Text, "0") { // every tenth: with all, the race detector needs minutes
			return result, nil
		}
		return secret, nil
	})
	agent := &cairn.Agent{Name: "bot", Model: rounds(steps - 1), Tools: []cairn.Tool{note}, MaxSteps: steps}
	eng := play(t, c, memstore.New(nil), agent, temporalhost.Options{})
	if res, err := execute(t, eng).Wait(t.Context()); err != nil || res.Text != "done" || res.Steps != steps {
		t.Fatal(res, err)
	}
	bytes, events, runs := 0, 0, histories(t, c)
	for _, run := range runs {
		for _, ev := range run {
			bytes, events = bytes+ev.Size(), events+1
			if strings.Contains(ev.String(), secret) {
				t.Errorf("event %d holds a payload", ev.GetEventId())
			}
		}
	}
	t.Logf("%d steps: %d workflow runs, %d events, %d bytes", steps, len(runs), events, bytes)
	if bytes >= 1<<20 {
		t.Errorf("the history has %d bytes", bytes)
	}
}

// A long turn continues as a new run of its workflow.
func TestLongTurnContinuesAsNew(t *testing.T) {
	t.Parallel()
	c := connect(t)
	note := cairn.Func("note", "Notes.", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return "noted", call.Append([]string{"notes"}, in.Text)
	})
	st := memstore.New(nil)
	eng := play(t, c, st, &cairn.Agent{Name: "bot", Model: rounds(6), Tools: []cairn.Tool{note}}, temporalhost.Options{StepsPerRun: 3})
	res, err := execute(t, eng).Wait(t.Context())
	if err != nil || res.Steps != 7 {
		t.Fatal(res, err)
	}
	if n := len(histories(t, c)); n != 3 {
		t.Errorf("%d workflow runs for 7 steps, want 3", n)
	}
	if raw, err := driver.State(t.Context(), st, "s", ""); err != nil || string(raw) != `{"notes":["0","1","2","3","4","5"]}` {
		t.Errorf("state %s, %v", raw, err)
	}
}

// Cancelling the workflow stops the turn.
func TestCancelledWorkflowInterruptsTheTurn(t *testing.T) {
	t.Parallel()
	c := connect(t)
	waiting := make(chan struct{})
	model := scripted.New(scripted.Reply(scripted.Text("well "), scripted.Do(func() { close(waiting) }), scripted.Gate(make(chan struct{}))))
	eng := play(t, c, memstore.New(nil), &cairn.Agent{Name: "bot", Model: model}, temporalhost.Options{})
	run := execute(t, eng)
	<-waiting
	if err := c.CancelWorkflow(t.Context(), t.Name()+"/bot/s/1", ""); err != nil {
		t.Fatal(err)
	}
	res, err := run.Wait(t.Context())
	if err != nil || res.Status != cairn.RunInterrupted || res.Text != "well " {
		t.Fatal(res, err)
	}
}

// A process that is slow to start a workflow leaves the next lease holder's workflow alone.
func TestLaterLeaseKeepsItsWorkflow(t *testing.T) {
	t.Parallel()
	c := connect(t)
	h, err := temporalhost.New(c, &temporalhost.Options{TaskQueue: t.Name(), Prefix: t.Name()}) // which has no worker
	if err != nil {
		t.Fatal(err)
	}
	b := host.Run{Turn: 1, Position: host.Position{SessionID: "s", Agent: "bot", RunID: "run"}}
	var running string
	for _, step := range []struct {
		token int64
		want  error
	}{{5, nil}, {4, cairn.ErrFenced}, {6, nil}, {5, cairn.ErrFenced}} {
		before := running
		b.Token = step.token
		if _, err := h.Start(t.Context(), b); !errors.Is(err, step.want) {
			t.Fatalf("token %d: %v, want %v", step.token, err, step.want)
		}
		d, err := c.DescribeWorkflow(t.Context(), t.Name()+"/bot/s/1", "")
		if err != nil {
			t.Fatal(err)
		}
		running = d.WorkflowExecution.RunID
		if started := running != before; started != (step.want == nil) || d.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			t.Errorf("token %d: a workflow was started: %t, it is %s", step.token, started, d.Status)
		}
	}
	b.Token = 6 // again, as after a lost answer
	if _, err := h.Start(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if d, err := c.DescribeWorkflow(t.Context(), t.Name()+"/bot/s/1", ""); err != nil || d.WorkflowExecution.RunID != running {
		t.Errorf("a repeated start replaced the workflow: %v", err)
	}
	if err := c.TerminateWorkflow(t.Context(), t.Name()+"/bot/s/1", "", "the test is over"); err != nil {
		t.Error(err)
	}
}

// A sub-agent whose workflow is terminated from outside resumes: the termination is not its answer.
func TestTerminatedWorkflowOfAChild(t *testing.T) {
	t.Parallel()
	c := connect(t)
	waiting := make(chan struct{})
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(
		scripted.Reply(scripted.Text("well "), scripted.Do(func() { close(waiting) }), scripted.Gate(make(chan struct{}))), scripted.Text("found"))}
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{cairn.SubAgent(helper)},
		Model: scripted.New(scripted.Call("helper", map[string]string{"input": "look"}), scripted.Text("bye"))}
	st := memstore.New(nil)
	eng := play(t, c, st, agent, temporalhost.Options{Activity: workflow.ActivityOptions{HeartbeatTimeout: time.Second}})
	run := execute(t, eng)
	<-waiting
	children, err := st.List(t.Context(), driver.SessionQuery{ParentID: "s"})
	if err != nil || len(children.Items) != 1 {
		t.Fatal(children.Items, err)
	}
	if err := c.TerminateWorkflow(t.Context(), t.Name()+"/helper/"+children.Items[0].ID+"/1", "", "by hand"); err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Text != "bye" {
		t.Fatal(res, err)
	}
	list, err := driver.AllMessages(t.Context(), st, "s")
	if err != nil {
		t.Fatal(err)
	}
	if r := list[2].ToolResults()[0]; r.IsError || string(r.Output) != `"found"` {
		t.Errorf("the sub-agent came to %s", r.Output)
	}
}

func TestSearchAttributes(t *testing.T) {
	t.Parallel()
	c := connect(t)
	model := scripted.New(scripted.Text("hello"))
	eng := play(t, c, memstore.New(nil), &cairn.Agent{Name: "bot", Model: model}, temporalhost.Options{SearchAttributes: true})
	if _, err := execute(t, eng).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := c.WorkflowService().DescribeWorkflowExecution(t.Context(), &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, Execution: &commonpb.WorkflowExecution{WorkflowId: t.Name() + "/bot/s/1"}})
	if err != nil {
		t.Fatal(err)
	}
	have := d.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields()
	for name, want := range map[string]string{"CairnSession": `"s"`, "CairnAgent": `"bot"`, "CairnStatus": `"completed"`} {
		if got := string(have[name].GetData()); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// Temporal's own status does not show how a turn ended, so workflows can be listed by that of the run.
func TestWorkflowsAreListedByStatus(t *testing.T) {
	t.Parallel()
	c := connect(t)
	fails := scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrFiltered, "no")))
	eng := play(t, c, memstore.New(nil), &cairn.Agent{Name: "bot", Model: fails}, temporalhost.Options{SearchAttributes: true})
	if res, _ := execute(t, eng).Wait(t.Context()); res.Status != cairn.RunFailed {
		t.Fatalf("the turn came to %+v", res)
	}
	for { // the server lists a workflow a moment later
		page, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: "CairnStatus = 'failed' AND WorkflowId = '" + t.Name() + "/bot/s/1'"})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.GetExecutions()) == 1 {
			return
		}
	}
}

// An activity that runs a tool, or consults an agent, shows the tool's name.
func TestActivitiesShowTheirTool(t *testing.T) {
	t.Parallel()
	c := connect(t)
	note := cairn.Func("note", "Notes.", func(context.Context, *cairn.Call, in) (string, error) { return "noted", nil })
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Text("found"))}
	model := scripted.New(scripted.Reply(scripted.Call("note", in{}), scripted.Call("helper", map[string]string{"input": "look"})), scripted.Text("done"))
	eng := play(t, c, memstore.New(nil), &cairn.Agent{Name: "bot", Model: model, Tools: []cairn.Tool{note, cairn.SubAgent(helper)}}, temporalhost.Options{})
	if res, err := execute(t, eng).Wait(t.Context()); err != nil || res.Text != "done" {
		t.Fatal(res, err)
	}
	shown := map[string]string{}
	for _, run := range histories(t, c) {
		for _, ev := range run {
			name := ev.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
			if summary := ev.GetUserMetadata().GetSummary(); summary != nil {
				shown[string(summary.GetData())] = name
			}
		}
	}
	if len(shown) != 2 || shown[`"note"`] != "cairn.tool" || shown[`"helper"`] != "cairn.child" {
		t.Errorf("the summaries are %v", shown)
	}
}

func TestOptionsThatAreWrong(t *testing.T) {
	t.Parallel()
	if _, err := temporalhost.New(nil, nil); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("no client: %v", err)
	}
	if _, err := temporalhost.New(connect(t), &temporalhost.Options{StepsPerRun: -1}); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("a negative number of steps: %v", err)
	}
}

// An activity that is out of time says so itself where it is faster than Temporal's server; either way it is a timeout.
func TestActivityThatIsOutOfTime(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if err := temporalhost.Carried(late, late.Err()); !errors.Is(err, &cairn.Error{Code: cairn.ErrTimeout}) {
		t.Errorf("it failed with %v", err)
	}
	if err := temporalhost.Inward(temporal.NewApplicationError("context deadline exceeded", "DeadlineExceeded")); !errors.Is(err, &cairn.Error{Code: cairn.ErrTimeout}) {
		t.Errorf("as the SDK says it: %v", err)
	}
	if err := temporalhost.Carried(t.Context(), late.Err()); errors.Is(err, &cairn.Error{Code: cairn.ErrTimeout}) {
		t.Errorf("with time left it failed with %v", err)
	}
}
