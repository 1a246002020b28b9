//go:build !demo && !notemporal

package hosts

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/temporalhost"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
)

func (at *Address) connectTemporal(ctx context.Context, env map[string]string, executor string, drain time.Duration, logger *slog.Logger) (*Connection, error) {
	server, err := newTemporalServer(at, env)
	if err != nil {
		return nil, err
	}
	server.opts.Identity, server.opts.Logger = executor, log.NewStructuredLogger(logger)
	c, err := client.DialContext(ctx, server.opts)
	if err != nil {
		return nil, server.refused(ctx, cmp.Or(errors.Unwrap(err), err)) // the wrapped error is the server's
	}
	h, err := server.host(ctx, c)
	if err != nil {
		c.Close()
		return nil, err
	}
	var w worker.Worker
	return &Connection{
		Host: h,
		Serve: func(eng *engine.Engine) error {
			w = h.Worker(eng, worker.Options{WorkerStopTimeout: drain})
			return w.Start()
		},
		Rest: func() {
			if w != nil {
				w.Stop()
			}
		},
		Close: func(context.Context) error {
			c.Close()
			return nil
		},
	}, nil
}

// host returns a host on the server, if the server has all that it needs.
func (s *temporalServer) host(ctx context.Context, c client.Client) (*temporalhost.Host, error) {
	_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.at.namespace})
	var missing *serviceerror.NamespaceNotFound
	if errors.As(err, &missing) {
		return nil, cairn.Errorf(cairn.ErrNotFound, "the Temporal server at %s has no namespace %q", s.at.place, s.at.namespace)
	}
	if err != nil {
		return nil, s.refused(ctx, err)
	}
	if s.at.search {
		if err := s.checkSearchable(ctx, c); err != nil {
			return nil, err
		}
	}
	// Stores that share a namespace need their own queues and workflow ids.
	return temporalhost.New(c, &temporalhost.Options{TaskQueue: s.at.queue, Prefix: s.at.queue, SearchAttributes: s.at.search})
}

// checkSearchable returns an error if the namespace lacks the search attributes of workflows.
func (s *temporalServer) checkSearchable(ctx context.Context, c client.Client) error {
	list, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: s.at.namespace})
	if err != nil {
		return s.refused(ctx, err)
	}
	for _, name := range []string{temporalhost.SessionAttribute.GetName(), temporalhost.AgentAttribute.GetName(), temporalhost.StatusAttribute.GetName()} {
		if list.CustomAttributes[name] != enumspb.INDEXED_VALUE_TYPE_KEYWORD {
			return cairn.Errorf(cairn.ErrSchema, "namespace %q has no search attribute %s: run temporal operator search-attribute create --namespace %s --name %s --type Keyword",
				s.at.namespace, name, cli.Quoted(s.at.namespace), name)
		}
	}
	return nil
}
