package jwtauth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// refetch is the shortest time between two fetches of the keys, whatever tokens name.
	refetch = 10 * time.Second
	// maxKeys is the maximum size of a document of keys in bytes.
	maxKeys = 1 << 20
)

// keys are an issuer's keys, fetched on demand.
type keys struct {
	url    string
	client *http.Client
	now    func() time.Time
	keep   time.Duration

	fetching sync.Mutex // held while the keys are fetched

	mu      sync.Mutex
	list    []jose.JSONWebKey
	fetched time.Time // when list was fetched
	tried   time.Time // when the last fetch began
	err     error     // of the last fetch
}

// find returns the keys that may have signed a token. An error means that the keys are not known.
func (k *keys) find(ctx context.Context, id, algorithm string) ([]jose.JSONWebKey, error) {
	found, fresh, _ := k.look(id, algorithm)
	if fresh && len(found) > 0 {
		return found, nil
	}
	k.fetching.Lock()
	defer k.fetching.Unlock()
	found, fresh, due := k.look(id, algorithm) // another request may have fetched them
	if due && (!fresh || len(found) == 0) {
		k.fetch(ctx)
		found, fresh, _ = k.look(id, algorithm)
	}
	if !fresh {
		k.mu.Lock()
		defer k.mu.Unlock()
		return nil, k.err
	}
	return found, nil
}

// look returns the known keys that match, whether they are recent enough, and whether a fetch is permitted.
func (k *keys) look(id, algorithm string) (found []jose.JSONWebKey, fresh, due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.list {
		if key := &k.list[i]; (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			found = append(found, *key)
		}
	}
	now := k.now()
	return found, !k.fetched.IsZero() && now.Sub(k.fetched) < k.keep, k.tried.IsZero() || now.Sub(k.tried) >= refetch
}

// fetch reads the keys from their address. If it fails the known ones remain.
func (k *keys) fetch(ctx context.Context) {
	at := k.now()
	list, err := k.read(context.WithoutCancel(ctx)) // other requests wait for it too
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tried, k.err = at, err; err == nil {
		k.list, k.fetched = list, at
	}
}

func (k *keys) read(ctx context.Context) ([]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return nil, err
	}
	res, err := k.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("issuer keys: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("issuer keys: %s responds with %s", k.url, res.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxKeys))
	if err != nil {
		return nil, fmt.Errorf("issuer keys: %w", err)
	}
	var doc struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("issuer keys: %w", err)
	}
	var list []jose.JSONWebKey
	for _, text := range doc.Keys {
		var key jose.JSONWebKey // unknown kinds, secrets and keys for another use are left out
		if key.UnmarshalJSON(text) == nil && key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			list = append(list, key)
		}
	}
	return list, nil
}
