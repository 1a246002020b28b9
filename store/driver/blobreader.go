package driver

import (
	"context"
	"fmt"
	"io"

	"github.com/cairn-agents/cairn"
)

// BlobReader reads a file that is kept as blobs. Each has [MaxBlob] bytes; the last one may be smaller. It reads from the
// store one blob at a time. Use [NewBlobReader].
type BlobReader struct {
	ctx   context.Context // of the caller's request; the reader does not outlive it
	blobs Blobs
	owner BlobOwner
	keys  []string
	size  int64
	name  string
	at    int64
	held  int // the number of the blob in memory; -1 for none
	part  []byte
}

// NewBlobReader returns a reader of the blobs with the given keys, size bytes in all, that can be used until ctx is done.
// The name identifies the file in errors, which are ErrCorrupt if the owner lacks a blob.
func NewBlobReader(ctx context.Context, blobs Blobs, owner BlobOwner, keys []string, size int64, name string) *BlobReader {
	return &BlobReader{ctx: ctx, blobs: blobs, owner: owner, keys: keys, size: size, name: name, held: -1}
}

// Read implements io.Reader.
func (r *BlobReader) Read(p []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	n := int(r.at / MaxBlob)
	if n != r.held {
		if n >= len(r.keys) {
			return 0, r.lost("has no part %d", n)
		}
		found, err := r.blobs.Get(r.ctx, r.owner, r.keys[n])
		if err != nil {
			return 0, err
		}
		if found[0] == nil {
			return 0, r.lost("lacks part %d", n)
		}
		r.held, r.part = n, found[0]
	}
	offset := int(r.at % MaxBlob)
	if offset >= len(r.part) {
		return 0, r.lost("has a short part %d", n)
	}
	copied := copy(p, r.part[offset:])
	r.at += int64(copied)
	return copied, nil
}

func (r *BlobReader) lost(format string, args ...any) error {
	return cairn.Errorf(cairn.ErrCorrupt, "%s %s", r.name, fmt.Sprintf(format, args...))
}

// Seek implements io.Seeker.
func (r *BlobReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, cairn.Invalid("offset", "%d is negative", offset)
	}
	r.at = offset
	return offset, nil
}
