package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/engine"
)

// observed exports the spans and metrics of an engine, and serves metrics.
type observed struct {
	env     map[string]string
	log     *slog.Logger
	eng     *engine.Engine // set once it is open
	metrics *metered       // nil without metrics
}

// start exports spans and metrics and serves metrics until finish is called, which waits for the last of them.
func (o *observed) start(ctx context.Context, cfg *config.Config) (finish func(), err error) {
	if o.metrics != nil {
		watchEngine(o.metrics, o.eng)
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ends []func()
	finish = func() {
		stop()
		for _, end := range ends {
			end()
		}
	}
	for _, begin := range []func() (end func(), err error){
		func() (func(), error) { return o.export(working, &cfg.Traces) },
		func() (func(), error) { return o.exportMetrics(working) },
		func() (func(), error) { return o.serveMetrics(cfg) },
	} {
		end, err := begin()
		if err != nil {
			finish()
			return nil, err
		}
		ends = append(ends, end)
	}
	return finish, nil
}

// lastExport is how long the last export to a collector may take.
const lastExport = 5 * time.Second

// serveMetrics serves GET /metrics at an address of its own, if the file has one, until end is called.
func (o *observed) serveMetrics(cfg *config.Config) (end func(), err error) {
	if cfg.Metrics == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scraped(o.metrics))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() { _ = web.Serve(l) }() // until it is closed
	o.log.Info("serving metrics", "url", "http://"+l.Addr().String()+"/metrics")
	return func() { web.Close() }, nil
}
