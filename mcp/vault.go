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
	"github.com/cairn-agents/cairn/store/driver"
)

const keyBytes = 32

// Prefixes of the keys of records that a Connector keeps of users.
const (
	aToken  = "mcp-token/"  // for a server
	aTicket = "mcp-ticket/" // for an address that the user opens
	aFlow   = "mcp-flow/"   // for a user at an authorisation server, by the state that they bring back
)

const (
	ticketTTL = 90 * 24 * time.Hour
	flowTTL   = 15 * time.Minute
)

// vault keeps encrypted records of users. Each is bound to its key, so none can be moved to another's key.
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

// put writes a record, whatever it replaces.
func (v *vault) put(ctx context.Context, what, name, user string, value any, ttl time.Duration) error {
	_, err := v.swap(ctx, what, name, user, value, store.AnyVersion, ttl)
	return err
}

// swap writes a record in place of the version seen; 0 is that of a record that does not exist. It returns the new
// version, 0 if the record has another one.
func (v *vault) swap(ctx context.Context, what, name, user string, value any, seen int64, ttl time.Duration) (int64, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return 0, err
	}
	nonce := make([]byte, v.seal.NonceSize())
	rand.Read(nonce) // never fails
	raw, err := json.Marshal(v.seal.Seal(nonce, nonce, plain, []byte(what+name)))
	if err != nil {
		return 0, err
	}
	r, err := v.records.Put(ctx, store.RecordWrite{Namespace: store.UserRecords, Key: what + name, Index: driver.UserIndex(user),
		Value: raw, Seen: seen, TTL: ttl})
	if errors.Is(err, cairn.ErrStale) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return r.Version, nil
}

// get reads a record into value, and returns its version; 0 if there is none.
func (v *vault) get(ctx context.Context, what, name string, value any) (version int64, err error) {
	r, err := v.records.Get(ctx, store.UserRecords, what+name)
	if errors.Is(err, cairn.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var sealed []byte
	if err := json.Unmarshal(r.Value, &sealed); err != nil || len(sealed) < v.seal.NonceSize() {
		return 0, fmt.Errorf("record %s is not a sealed value", what+name)
	}
	n := v.seal.NonceSize()
	plain, err := v.seal.Open(nil, sealed[:n], sealed[n:], []byte(what+name))
	if err != nil {
		return 0, fmt.Errorf("record %s was encrypted with another key", what+name)
	}
	return r.Version, json.Unmarshal(plain, value)
}

// take deletes a record if it has the given version, and reports whether this call deleted it.
func (v *vault) take(ctx context.Context, what, name string, version int64) (bool, error) {
	err := v.records.Delete(ctx, store.UserRecords, what+name, version)
	if errors.Is(err, cairn.ErrNotFound) || errors.Is(err, cairn.ErrStale) {
		return false, nil
	}
	return err == nil, err
}
