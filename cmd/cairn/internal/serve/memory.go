package serve

import (
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store/driver"
)

// memory returns the memory of an assistant, in the store of the sessions. model makes the model that extracts facts.
func (s *service) memory(m *config.Memory, model func(string) (cairn.Model, error)) (cairn.Memory, error) {
	opts := memory.Options{Scope: driver.MemoryKind(m.Scope), Group: m.Group, Retention: time.Duration(m.Retention), MaxEntries: m.MaxEntries, Logger: s.log,
		Agent: memory.AgentOptions{Trusted: m.Trusted, Forget: m.Forget}}
	if m.Extract != "" {
		by, err := model(m.Extract)
		if err != nil {
			return nil, fmt.Errorf("memory.extract: %w", err)
		}
		opts.Agent.Extract = &memory.Extract{Model: by, DailyUSD: m.ExtractUSD, Consolidate: m.Consolidate}
	}
	made, err := memory.New(s.sessions, &opts)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	return made, nil
}
