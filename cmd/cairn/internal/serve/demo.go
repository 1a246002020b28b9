package serve

import (
	"context"
	_ "embed"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/setup"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/shop"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/support"
)

//go:embed demo.yaml
var demoFile []byte

const (
	// demoShop is the file with the demo's orders.
	demoShop = "cairn-demo-shop.db"
	// demoLease is short, so that a turn continues a moment after its process was killed.
	demoLease = 3 * time.Second
)

// demo returns the support agent over the demo's shop.
func (s *service) demo(ctx context.Context) ([]*cairn.Agent, error) {
	goods, err := shop.Open(ctx, demoShop, s.app.Engine.Now)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, goods.Close)
	model, err := setup.Model(s.app, "", usualPace)
	if err != nil {
		return nil, err
	}
	return []*cairn.Agent{support.Agent(goods, model)}, nil
}
