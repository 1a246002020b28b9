package serve

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

func TestMemoryOfAssistants(t *testing.T) {
	t.Parallel()
	s := &service{sessions: memstore.New(nil), log: slog.New(slog.DiscardHandler)}
	model := func(name string) (cairn.Model, error) {
		if name != "fake:extractor" {
			return nil, cairn.Invalid("model", "unknown model %q", name)
		}
		return scripted.New(), nil
	}
	made, err := s.memory(&config.Memory{Scope: "group", Group: "desk", MaxEntries: 5, Trusted: []string{"crm"}, Forget: true, Extract: "fake:extractor"}, model)
	if err != nil {
		t.Fatal(err)
	}
	opts := made.(*memory.Memory).Options()
	if opts.Scope != memory.OfGroup || opts.Group != "desk" || opts.MaxEntries != 5 || !opts.Agent.Forget || opts.Agent.Extract.Model == nil || opts.Agent.Trusted[0] != "crm" {
		t.Errorf("options %+v", opts)
	}
	for want, m := range map[string]*config.Memory{"memory.extract: ": {Scope: "user", Extract: "fake:none"}, "memory: group": {Scope: "group"}} {
		if _, err := s.memory(m, model); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want one that begins with %q", err, want)
		}
	}
}
