package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// HTTPEmbedder calls a server with OpenAI's embeddings API: POST URL/embeddings with model and input.
type HTTPEmbedder struct {
	endpoint, model string
	opts            HTTPEmbedderOptions
}

var _ Embedder = (*HTTPEmbedder)(nil)

// HTTPEmbedderOptions tune an HTTPEmbedder. nil and the zero value mean the defaults.
type HTTPEmbedderOptions struct {
	// Key is sent as a bearer token; empty means none.
	Key string
	// Dimensions is the requested number of dimensions; 0 means the model's own.
	Dimensions int
	// Client sends the requests; nil means a client with a timeout of 30 seconds.
	Client *http.Client
}

// maxEmbeddingAnswer is the maximum size of an answer, in bytes.
const maxEmbeddingAnswer = 64 << 20

// NewHTTPEmbedder returns an embedder for a model of a server, whose address is an absolute URL such as
// https://api.openai.com/v1. The error is ErrInvalid and names the argument.
func NewHTTPEmbedder(address, model string, opts *HTTPEmbedderOptions) (*HTTPEmbedder, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cairn.Invalid("url", "must be an absolute http or https URL")
	}
	if model == "" {
		return nil, cairn.Invalid("model", "is required")
	}
	e := &HTTPEmbedder{endpoint: strings.TrimSuffix(address, "/") + "/embeddings", model: model}
	if opts != nil {
		e.opts = *opts
	}
	if e.opts.Dimensions < 0 || e.opts.Dimensions > MaxDimensions {
		return nil, cairn.Invalid("dimensions", "%d is not from 0 to %d", e.opts.Dimensions, MaxDimensions)
	}
	if e.opts.Client == nil {
		e.opts.Client = &http.Client{Timeout: 30 * time.Second}
	}
	return e, nil
}

// Model implements Embedder.
func (e *HTTPEmbedder) Model() string {
	if e.opts.Dimensions > 0 {
		return fmt.Sprintf("%s/%d", e.model, e.opts.Dimensions)
	}
	return e.model
}

// Embed implements Embedder. It sends one request.
func (e *HTTPEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	body, err := json.Marshal(map[string]any{"model": e.model, "input": texts, "encoding_format": "float"})
	if e.opts.Dimensions > 0 {
		body, err = json.Marshal(map[string]any{"model": e.model, "input": texts, "encoding_format": "float", "dimensions": e.opts.Dimensions})
	}
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInternal, "embeddings: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInternal, "embeddings: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if e.opts.Key != "" {
		req.Header.Set("Authorization", "Bearer "+e.opts.Key)
	}
	resp, err := e.opts.Client.Do(req)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrUnavailable, "embeddings: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxEmbeddingAnswer))
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrUnavailable, "embeddings: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, cairn.Errorf(cairn.ErrUnavailable, "embeddings: status %d: %s", resp.StatusCode, Cut(strings.ToValidUTF8(string(raw), "\uFFFD"), 200))
	}
	return decodeEmbeddings(raw, len(texts))
}

// decodeEmbeddings returns the vectors of an answer in the order of the texts.
func decodeEmbeddings(raw []byte, texts int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, cairn.Errorf(cairn.ErrModel, "embeddings: invalid answer: %w", err)
	}
	list := make([][]float32, texts)
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= texts || list[d.Index] != nil || len(d.Embedding) == 0 {
			return nil, cairn.Errorf(cairn.ErrModel, "embeddings: invalid vector with the index %d", d.Index)
		}
		list[d.Index] = d.Embedding
	}
	for i := range list {
		if list[i] == nil {
			return nil, cairn.Errorf(cairn.ErrModel, "embeddings: no vector for text %d", i)
		}
	}
	return list, nil
}
