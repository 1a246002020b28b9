package memory_test

import (
	"testing"

	"github.com/cairn-agents/cairn/memory/memorytest"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	memorytest.Run(t, func(testing.TB) driver.Store { return memstore.New(nil) })
}
