package workspace

import (
	"context"
	"time"
)

// dirProvider is the provider of Dir.
type dirProvider struct{ slots *slots }

// Dir returns a provider that keeps files in directories below a path of this machine, and runs no commands. The path is
// made if it does not exist. The directories are a cache: a process on another machine restores the files from the last
// snapshot. The error is ErrInvalid if the path cannot be used.
func Dir(path string) (Provider, error) {
	s, err := newSlots(path, -1)
	if err != nil {
		return nil, err
	}
	return dirProvider{s}, nil
}

// Info implements Provider.
func (dirProvider) Info() Info { return Info{Name: "dir"} }

// Open implements Provider.
func (p dirProvider) Open(_ context.Context, id string) (Directory, error) {
	d, err := p.slots.open(id)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Sweep implements Provider.
func (p dirProvider) Sweep(ctx context.Context, idle time.Duration) error {
	return p.slots.sweep(ctx, idle)
}
