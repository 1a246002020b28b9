// Package dboshost drives runs on DBOS Transact, which records workflows in a PostgreSQL or SQLite database. A turn is
// a workflow, an effect is a step of it, and the run of a sub-agent is a child workflow. DBOS records ids; messages,
// state and results are in Cairn's store only.
//
//	h, err := dboshost.Open(ctx, "postgres://…", &dboshost.Options{Executor: "worker-1"})
//	eng, err := engine.New(st, agents, &engine.Options{Host: h})
//	err = h.Serve(eng)
//
// See docs/DBOS.md for its guarantees and when to choose it.
package dboshost

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // for sqlite: addresses

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/ids"
)

// LoopVersion is the version of the agent loop that recorded workflows depend on. It changes when the loop asks for
// other effects, under other names or in another order. Agents may change at will.
const LoopVersion = "cairn-loop-2"

// WorkflowName is the name of every workflow of a Host.
const WorkflowName = "cairn.turn"

// Options tune a Host. The zero value and nil mean the defaults.
type Options struct {
	// App is the application that the workflows belong to; "" means "cairn". Applications on one database do not touch
	// each other's workflows.
	App string
	// Version is the version of the application; "" means LoopVersion. DBOS recovers a workflow only in a process of
	// the version that it began on. DBOS's own default is a hash of the binary, so that no rebuilt process would
	// recover anything; but only the loop must not change under a workflow, agents may. [engine.Engine.Work] takes over
	// runs of a version that no process has, once their lease has lapsed.
	Version string
	// Executor is the process's name in DBOS. A process restarted under the name of a dead one resumes its workflows at
	// once, so two live processes must not share a name. "" means a new name each time; [engine.Engine.Work] then takes
	// over the runs of a dead process. (DBOS's own default is "local" for all.)
	Executor string
	// Schema is the schema of DBOS's tables in PostgreSQL; "" means "dbos".
	Schema string
	// Queue is the queue of turns that do not start in the process that began them; "" means "cairn".
	Queue string
	// Concurrency limits the turns that this process drives at once, excluding sub-agents' turns; further turns wait in
	// the queue for any process that serves it. 0 means no limit: a serving process then drives the turns that it
	// begins without the queue. All processes of a queue should have the same limit; the last one to start sets it.
	Concurrency int
	// PollInterval is how often a serving process polls the queue, and how often a caller polls a workflow that another
	// process drives; 0 means one second.
	PollInterval time.Duration
	// Logger receives DBOS's logs and warnings about retried effects; nil is silent.
	Logger *slog.Logger
}

// Host is an [host.Host] on DBOS. It is safe for concurrent use.
type Host struct {
	opts Options
	dbos dbos.Context

	mu     sync.Mutex
	eng    *engine.Engine    // carries out effects; nil until Serve
	drives map[string]*drive // workflows that this process drives, by id
}

// Open connects to a DBOS system database, given as a PostgreSQL URL or as "sqlite:" and a path, and migrates its
// tables. Processes migrate one at a time; for SQLite they lock an empty file next to the database. A deadline of ctx
// limits Open; the host does not end with ctx. DBOS's environment variables (DBOS__APPVERSION, DBOS__VMID) take
// precedence over Version and Executor. The error names the invalid option.
func Open(ctx context.Context, database string, opts *Options) (*Host, error) {
	h := &Host{drives: map[string]*drive{}}
	if opts != nil {
		h.opts = *opts
	}
	if err := h.opts.complete(); err != nil {
		return nil, err
	}
	if database == "" {
		return nil, cairn.Invalid("database", "is empty")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	config := dbos.Config{
		DatabaseURL: database, DatabaseSchema: h.opts.Schema, Logger: h.opts.Logger,
		AppName: h.opts.App, ApplicationVersion: h.opts.Version, ExecutorID: h.opts.Executor,
	}
	if until, ok := ctx.Deadline(); ok {
		config.SystemDBStartupTimeout = time.Until(until)
	}
	unlock, err := lock(ctx, database, h.opts.Schema)
	if err != nil {
		return nil, unavailable(err)
	}
	defer unlock()
	if h.dbos, err = dbos.NewContext(context.WithoutCancel(ctx), config); err != nil {
		return nil, unavailable(err)
	}
	dbos.RegisterWorkflow(h.dbos, h.turn, dbos.WithWorkflowName(WorkflowName))
	return h, nil
}

func (o *Options) complete() error {
	if o.Concurrency < 0 {
		return cairn.Invalid("concurrency", "%d is negative", o.Concurrency)
	}
	if o.PollInterval < 0 {
		return cairn.Invalid("poll_interval", "%s is negative", o.PollInterval)
	}
	for s, to := range map[*string]string{&o.App: "cairn", &o.Version: LoopVersion, &o.Queue: "cairn", &o.Executor: newExecutor()} {
		if *s == "" {
			*s = to
		}
	}
	if o.PollInterval == 0 {
		o.PollInterval = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func newExecutor() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + ":" + strconv.Itoa(os.Getpid()) + ":" + ids.New("executor")
}

// Serve makes the process drive workflows and carry out their effects in eng, which must have been made with this Host.
// It drives the workflows that a process of this name left behind, the workflows in the queue and, without a limit on
// concurrency, the turns that it begins. A process that does not serve only begins turns for others to drive. Serve is
// called once and returns at once.
func (h *Host) Serve(eng *engine.Engine) error {
	if eng == nil {
		return cairn.Invalid("engine", "is required")
	}
	h.mu.Lock()
	twice := h.eng != nil
	if !twice {
		h.eng = eng
	}
	h.mu.Unlock()
	if twice {
		return cairn.Invalid("engine", "the host already serves an engine")
	}
	queue := []dbos.QueueOption{dbos.WithQueueBasePollingInterval(h.opts.PollInterval), dbos.WithQueueOnConflict(dbos.QueueConflictAlwaysUpdate)}
	if h.opts.Concurrency > 0 {
		queue = append(queue, dbos.WithWorkerConcurrency(h.opts.Concurrency))
	}
	if _, err := dbos.RegisterQueue(h.dbos, h.opts.Queue, queue...); err != nil {
		return unavailable(err)
	}
	dbos.ListenQueues(h.dbos, h.opts.Queue)
	if err := dbos.Launch(h.dbos); err != nil {
		return unavailable(err)
	}
	return nil
}

// Close leaves the workflows of this process unfinished and closes the connection to the database. Call it after the
// engine's Close; effects that are still running are cancelled. A process of the same executor resumes the workflows,
// or a worker takes their runs over. When ctx ends first, Close returns its error, and closes the rest as soon as it
// has stopped.
func (h *Host) Close(ctx context.Context) error {
	// Shutdown gets no time limit of its own: one that times out waits for workflows that it is still starting.
	closed := make(chan error, 1)
	go func() { closed <- dbos.Shutdown(h.dbos, math.MaxInt64) }()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// served returns the engine that carries out effects, or nil before Serve.
func (h *Host) served() *engine.Engine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.eng
}

// Name implements [host.Keeper]. Hosts of one application count as one.
func (h *Host) Name() string { return "dbos/" + strings.ReplaceAll(h.opts.App, "@", "_") }

// CheckLease implements [host.Keeper]. DBOS never detects a dead process, so no lease is too short for it.
func (h *Host) CheckLease(time.Duration) error { return nil }

// Driving implements [host.Keeper]. DBOS does not know whether a process is alive, so for workflows of other processes
// only the lease decides. Workflows that this process drives, and queued ones of this version, need no takeover.
func (h *Host) Driving(ctx context.Context, b host.Run) (bool, error) {
	id := firstID(b)
	found, err := h.list(ctx, dbos.WithFilterWorkflowIDs(id, laterID(b)))
	if err != nil {
		return false, err
	}
	for i := range found {
		w := &found[i]
		switch {
		case !drives(w, b):
		case w.Status == dbos.WorkflowStatusEnqueued, w.Status == dbos.WorkflowStatusDelayed:
			return w.ApplicationVersion == h.opts.Version, nil
		case w.Status == dbos.WorkflowStatusPending:
			return h.drivesHere(w.ID), nil
		}
	}
	return false, nil
}

// drivesHere reports whether this process drives a workflow.
func (h *Host) drivesHere(id string) bool {
	h.mu.Lock()
	d := h.drives[id]
	h.mu.Unlock()
	if d == nil {
		return false
	}
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// Start implements [host.Host].
func (h *Host) Start(ctx context.Context, b host.Run) (func(context.Context) error, error) {
	id, err := h.workflowID(ctx, b)
	if err != nil {
		return nil, err
	}
	wait, err := h.begin(ctx, id, b)
	if err != nil {
		return nil, err
	}
	switch free, err := h.workflowID(ctx, b); {
	case err != nil: // it keeps running, or a worker takes it over
		return wait, nil
	case free != id: // a session of that id in another store was faster
		return h.begin(ctx, free, b)
	}
	return wait, nil
}

// begin starts a workflow here or enqueues it. It returns a function that waits for its end.
func (h *Host) begin(ctx context.Context, id string, b host.Run) (func(context.Context) error, error) {
	if h.served() == nil || h.opts.Concurrency > 0 {
		db, done := h.until(ctx)
		defer done()
		_, err := dbos.Enqueue[outcome](db, h.opts.Queue, WorkflowName, b, dbos.WithEnqueueWorkflowID(id),
			dbos.WithEnqueueApplicationVersion(h.opts.Version), dbos.WithEnqueueAttributes(attributes(b)))
		if err != nil {
			return nil, unavailable(err)
		}
		return h.wait(id, nil), nil
	}
	d := h.driving(id)
	if _, err := dbos.RunWorkflow(dbos.WithValue(h.dbos, valuesKey{}, ctx), h.turn, b, named(id, b)...); err != nil {
		h.ended(id, d, outcome{}, err)
		return nil, unavailable(err)
	}
	return h.wait(id, d), nil
}

func named(id string, b host.Run) []dbos.WorkflowOption {
	return []dbos.WorkflowOption{dbos.WithWorkflowID(id), dbos.WithWorkflowAttributes(attributes(b))}
}

// attributes are the properties that workflows can be searched by.
func attributes(b host.Run) map[string]any {
	return map[string]any{"agent": b.Agent, "session": b.SessionID, "root": b.RootID, "run": b.RunID, "token": token(b), "status": string(cairn.RunRunning)}
}

// StatusReleased is the attribute "status" of a workflow that ended without the end of its run, which another workflow
// or another host drives.
const StatusReleased = "released"

// finish records in a workflow's row how its run ended. DBOS's own status does not show it: a workflow whose turn has
// failed succeeds.
func (h *Host) finish(ctx context.Context, id string, status cairn.RunStatus) error {
	db, done := h.until(ctx)
	defer done()
	return dbos.SetWorkflowAttributes(db, id, map[string]any{"status": cmp.Or(string(status), StatusReleased)}, dbos.WithMergeAttributes())
}

// until returns DBOS's context with the end of ctx, since DBOS retries calls of a database that is away without limit.
func (h *Host) until(ctx context.Context) (db dbos.Context, done func()) {
	db, cancel := dbos.WithCancel(h.dbos)
	ended := context.AfterFunc(ctx, cancel)
	return db, func() {
		ended()
		cancel()
	}
}

// workflowID returns the id of the workflow that drives a run under its lease: cairn/{agent}/{session}/{turn}. DBOS
// never runs two workflows of one id. So if the id is taken, because the run was taken over, or the session was rewound
// or removed and begun anew, the run and the lease's token are appended. Open workflows that drove the same run under
// an earlier lease are cancelled: they are fenced, and their processes may never return to end them. The error is
// ErrFenced if one drives it under a later lease.
func (h *Host) workflowID(ctx context.Context, b host.Run) (string, error) {
	id := firstID(b)
	found, err := h.list(ctx, dbos.WithFilterWorkflowIDs(id))
	if err != nil {
		return "", err
	}
	if len(found) == 0 || drives(&found[0], b) {
		return id, nil
	}
	earlier, err := h.list(ctx, dbos.WithFilterWorkflowIDPrefix(id), dbos.WithFilterStatus(dbos.WorkflowStatusPending, dbos.WorkflowStatusEnqueued))
	if err != nil {
		return "", err
	}
	for i := range earlier {
		w := &earlier[i]
		if w.Attributes["run"] != b.RunID || drives(w, b) {
			continue
		}
		if later(w, b) {
			return "", cairn.Errorf(cairn.ErrFenced, "session %q: run %s was taken over by workflow %s", b.SessionID, b.RunID, w.ID)
		}
		if err := h.cancel(ctx, w.ID); err != nil {
			return "", err
		}
	}
	return laterID(b), nil
}

func firstID(b host.Run) string {
	return "cairn/" + b.Agent + "/" + b.SessionID + "/" + strconv.Itoa(b.Turn)
}

func laterID(b host.Run) string { return firstID(b) + "/" + b.RunID + "/" + token(b) }

// drives reports whether a workflow drives the run of b under the same lease.
func drives(w *dbos.WorkflowStatus, b host.Run) bool {
	return w.Attributes["run"] == b.RunID && w.Attributes["token"] == token(b)
}

// later reports whether a workflow drives its run under a later lease than b's.
func later(w *dbos.WorkflowStatus, b host.Run) bool {
	text, _ := w.Attributes["token"].(string)
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n > b.Token
}

func token(b host.Run) string { return strconv.FormatInt(b.Token, 10) }

func (h *Host) cancel(ctx context.Context, id string) error {
	db, done := h.until(ctx)
	defer done()
	if err := dbos.CancelWorkflow(db, id); err != nil {
		return unavailable(err)
	}
	return nil
}

// list lists workflows without their inputs and outputs.
func (h *Host) list(ctx context.Context, which ...dbos.ListWorkflowsOption) ([]dbos.WorkflowStatus, error) {
	db, done := h.until(ctx)
	defer done()
	found, err := dbos.ListWorkflows(db, append(which, dbos.WithFilterLoadInput(false), dbos.WithFilterLoadOutput(false))...)
	if err != nil {
		return nil, unavailable(err)
	}
	return found, nil
}

func unavailable(err error) error { return cairn.Errorf(cairn.ErrUnavailable, "DBOS: %w", err) }
