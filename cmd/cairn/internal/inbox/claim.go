package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/engine"
)

type claimCmd struct {
	aCall
	Reviewer string        `placeholder:"NAME" required:"" help:"The reviewer."`
	For      time.Duration `placeholder:"DURATION" default:"15m" help:"For how long, at most 24h. Default: 15m."`
	Override bool          `help:"Override the claim of another reviewer."`
}

// Run claims a call.
func (cmd *claimCmd) Run(a *cli.App, all *flags) error {
	return all.change(a, cmd.Call, func(ctx context.Context, eng *engine.Engine, root, id string) (*cairn.PendingCall, error) {
		return eng.Claim(ctx, root, id, cmd.Reviewer, cmd.For, override(cmd.Override)...)
	})
}

type releaseCmd struct {
	aCall
	Reviewer string `placeholder:"NAME" required:"" help:"The reviewer."`
	Override bool   `help:"Release the claim of another reviewer."`
}

// Run releases a claim.
func (cmd *releaseCmd) Run(a *cli.App, all *flags) error {
	return all.change(a, cmd.Call, func(ctx context.Context, eng *engine.Engine, root, id string) (*cairn.PendingCall, error) {
		return eng.Release(ctx, root, id, cmd.Reviewer, override(cmd.Override)...)
	})
}

func override(yes bool) []engine.ClaimOption {
	if yes {
		return []engine.ClaimOption{engine.OverrideClaim()}
	}
	return nil
}

// change claims or releases a call and prints the call: as JSON, or in words.
func (all *flags) change(a *cli.App, id string, do func(ctx context.Context, eng *engine.Engine, root, id string) (*cairn.PendingCall, error)) error {
	return all.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		call, err := calls.Find(ctx, eng, all.At.Selected(), id)
		if err == nil {
			call, err = do(ctx, eng, call.RootID, call.ID)
		}
		switch {
		case err != nil:
			return err
		case all.JSON:
			return output.JSON(a.Stdout, call)
		}
		who := "not claimed"
		if call.ClaimedBy != "" {
			who = "claimed by " + call.ClaimedBy + " until " + output.Stamp(call.ClaimedUntil)
		}
		_, err = fmt.Fprintf(a.Stdout, "%s of session %s is %s.\n", call.Tool, call.RootID, who)
		return err
	})
}
