package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// fileKeyRecord holds the key that addresses are signed with, so that all processes with the store share it.
const (
	serverRecords = "cairn.server"
	fileKeyRecord = "file-key"
)

// signingKey returns the key that the addresses of files are signed with, and creates it if there is none. It is
// nil for a store without records.
func (h *Handler) signingKey(ctx context.Context) ([]byte, error) {
	if key := h.fileKey.Load(); key != nil {
		return *key, nil
	}
	records := h.eng.Records()
	if records == nil {
		return nil, nil
	}
	rec, err := records.Get(ctx, serverRecords, fileKeyRecord)
	if errors.Is(err, cairn.ErrNotFound) {
		fresh := make([]byte, sha256.Size)
		rand.Read(fresh)                // never fails
		value, _ := json.Marshal(fresh) // bytes encode
		rec, err = records.Put(ctx, store.RecordWrite{Namespace: serverRecords, Key: fileKeyRecord, Value: value})
		if seen := driver.SeenRecord(err); seen != nil { // another process was faster
			rec, err = seen, nil
		}
	}
	if err != nil {
		return nil, err
	}
	var key []byte
	if err := json.Unmarshal(rec.Value, &key); err != nil || len(key) < sha256.Size {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "record %s of %s is not a valid key", fileKeyRecord, serverRecords)
	}
	h.fileKey.Store(&key)
	return key, nil
}

// signature signs the address of a file. expires is the last second at which it is valid.
func signature(key []byte, session, message, file, messageID, expires string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(digest("file", session, message, file, messageID, expires)))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// digest hashes several words into one. The boundaries between words count.
func digest(words ...string) string {
	h := sha256.New()
	for _, w := range words {
		sum := sha256.Sum256([]byte(w))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}
