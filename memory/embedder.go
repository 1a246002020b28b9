package memory

import (
	"context"
)

// Embedder makes vectors of texts. It must be safe for concurrent use.
type Embedder interface {
	// Model identifies the model and the number of its dimensions. Vectors of another model are not compared.
	Model() string
	// Embed returns a vector for each text, all with the same number of dimensions, at most MaxDimensions.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// MaxDimensions is the maximum number of dimensions of a vector.
const MaxDimensions = 4096
