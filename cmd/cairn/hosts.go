//go:build !nohosts

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/dboshost"
	"github.com/cairn-agents/cairn/host/temporalhost"
)

// buildFlags are those that this program was built with.
const buildFlags = ""

// poll is how often DBOS's queue is looked into.
const poll = 200 * time.Millisecond

// connect connects to the host, under a name for this process that may be empty. drain is how long what is under way may
// go on when the process ends. The error names the flag and shows no password.
func (at *hostAddress) connect(ctx context.Context, executor string, drain time.Duration, logger *slog.Logger) (*hosting, error) {
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	open := at.connectTemporal
	if at.kind == onDBOS {
		open = at.connectDBOS
	}
	h, err := open(ctx, executor, drain, logger)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.given, err)
	}
	return h, nil
}

func (at *hostAddress) connectDBOS(ctx context.Context, executor string, _ time.Duration, logger *slog.Logger) (*hosting, error) {
	h, err := dboshost.Open(ctx, at.place, &dboshost.Options{
		Executor: executor, Queue: at.queue, Schema: at.schema, PollInterval: poll, Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	return &hosting{Host: h, serve: h.Serve, close: h.Close}, nil
}

func (at *hostAddress) connectTemporal(ctx context.Context, executor string, drain time.Duration, logger *slog.Logger) (*hosting, error) {
	c, err := client.DialContext(ctx, client.Options{
		HostPort: at.place, Namespace: at.namespace, Identity: executor, Logger: log.NewStructuredLogger(logger),
	})
	if err != nil {
		return nil, cairn.Errorf(cairn.CodeUnavailable, "no Temporal server can be reached at %s: %w", at.place, err)
	}
	h, err := at.onServer(ctx, c)
	if err != nil {
		c.Close()
		return nil, err
	}
	var w worker.Worker
	return &hosting{
		Host: h,
		serve: func(eng *engine.Engine) error {
			w = h.Worker(eng, worker.Options{WorkerStopTimeout: drain})
			return w.Start()
		},
		rest: func() {
			if w != nil {
				w.Stop()
			}
		},
		close: func(context.Context) error {
			c.Close()
			return nil
		},
	}, nil
}

// onServer returns a host on a server that has all it needs.
func (at *hostAddress) onServer(ctx context.Context, c client.Client) (*temporalhost.Host, error) {
	_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: at.namespace})
	var missing *serviceerror.NamespaceNotFound
	if errors.As(err, &missing) {
		return nil, cairn.Errorf(cairn.CodeNotFound, "the Temporal server at %s has no namespace %q", at.place, at.namespace)
	}
	if err != nil {
		return nil, at.unavailable(err)
	}
	if at.search {
		if err := at.checkSearchable(ctx, c); err != nil {
			return nil, err
		}
	}
	// Stores that share a namespace need queues of their own, and ids too.
	return temporalhost.New(c, &temporalhost.Options{TaskQueue: at.queue, Prefix: at.queue, SearchAttributes: at.search})
}

// checkSearchable returns an error if the namespace has not the search attributes of workflows.
func (at *hostAddress) checkSearchable(ctx context.Context, c client.Client) error {
	list, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: at.namespace})
	if err != nil {
		return at.unavailable(err)
	}
	for _, name := range []string{temporalhost.SessionAttribute.GetName(), temporalhost.AgentAttribute.GetName()} {
		if list.CustomAttributes[name] != enumspb.INDEXED_VALUE_TYPE_KEYWORD {
			return cairn.Errorf(cairn.CodeSchema, "namespace %q has no search attribute %s: run temporal operator search-attribute create --namespace %s --name %s --type Keyword",
				at.namespace, name, quoted(at.namespace), name)
		}
	}
	return nil
}

func (at *hostAddress) unavailable(err error) error {
	return cairn.Errorf(cairn.CodeUnavailable, "the Temporal server at %s: %w", at.place, err)
}
