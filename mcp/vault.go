package mcp

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

const keyBytes = 32

// The namespaces of what a Connector keeps.
const (
	nsTokens  = "mcp-tokens"  // per user and server, indexed by the user
	nsTickets = "mcp-tickets" // of the addresses that users open
	nsFlows   = "mcp-flows"   // of users who are at an authorisation server, by the state that they bring back
)

const (
	ticketTTL = 90 * 24 * time.Hour
	flowTTL   = 15 * time.Minute
)

// vault keeps encrypted records. Each is bound to its place, so none can be put in the place of another.
type vault struct {
	records store.Records
	seal    cipher.AEAD
}

func newVault(records store.Records, key []byte) (vault, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return vault{}, err
	}
	seal, err := cipher.NewGCM(block)
	return vault{records: records, seal: seal}, err
}

func place(namespace, key string) []byte { return []byte(namespace + "\x00" + key) }

// put writes a record, whatever was there.
func (v *vault) put(ctx context.Context, namespace, key, index string, value any, ttl time.Duration) error {
	plain, err := json.Marshal(value)
	if err != nil {
		return err
	}
	nonce := make([]byte, v.seal.NonceSize())
	rand.Read(nonce) // never fails
	raw, err := json.Marshal(v.seal.Seal(nonce, nonce, plain, place(namespace, key)))
	if err != nil {
		return err
	}
	_, err = v.records.Put(ctx, store.RecordWrite{Namespace: namespace, Key: key, Index: index, Value: raw, Seen: store.AnyVersion, TTL: ttl})
	return err
}

// get reads a record into value, and returns its version; 0 if there is none.
func (v *vault) get(ctx context.Context, namespace, key string, value any) (version int64, err error) {
	r, err := v.records.Get(ctx, namespace, key)
	if errors.Is(err, cairn.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var sealed []byte
	if err := json.Unmarshal(r.Value, &sealed); err != nil || len(sealed) < v.seal.NonceSize() {
		return 0, fmt.Errorf("a record of %s is not one", namespace)
	}
	n := v.seal.NonceSize()
	plain, err := v.seal.Open(nil, sealed[:n], sealed[n:], place(namespace, key))
	if err != nil {
		return 0, fmt.Errorf("a record of %s was encrypted with another key", namespace)
	}
	return r.Version, json.Unmarshal(plain, value)
}

// take deletes a record of a version, and reports whether it was this call that did.
func (v *vault) take(ctx context.Context, namespace, key string, version int64) (bool, error) {
	err := v.records.Delete(ctx, namespace, key, version)
	if errors.Is(err, cairn.ErrNotFound) || errors.Is(err, cairn.ErrStale) {
		return false, nil
	}
	return err == nil, err
}
