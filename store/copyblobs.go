package store

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// copyBlobs copies the blobs that a tree names to the other store, which has the tree, and returns their number. Blobs that
// it has already are not sent again.
func copyBlobs(ctx context.Context, from, to Importer, owner BlobOwner) (n int, err error) {
	source, ok := driver.As[BlobProvider](from)
	if !ok {
		return 0, nil
	}
	for cursor := ""; ; {
		page, err := source.Blobs().List(ctx, owner, driver.BlobQuery{Cursor: cursor, Limit: driver.MaxBlobs})
		if err != nil || len(page.Items) == 0 {
			return n, err
		}
		target, ok := driver.As[BlobProvider](to)
		if !ok {
			return n, cairn.Errorf(cairn.ErrInvalid, "session %q has files in blobs, which the target does not keep", owner.Root)
		}
		if err := copyBlobPage(ctx, source.Blobs(), target.Blobs(), owner, page.Items); err != nil {
			return n, err
		}
		n += len(page.Items)
		if cursor = page.Next; cursor == "" {
			return n, nil
		}
	}
}

// copyBlobPage copies those of some blobs that the target lacks, no more at once than a Put takes.
func copyBlobPage(ctx context.Context, from, to Blobs, owner BlobOwner, rows []driver.BlobRow) error {
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = rows[i].Key
	}
	there, err := to.Has(ctx, owner, keys...)
	if err != nil {
		return err
	}
	var missing []driver.BlobRow
	for i, row := range rows {
		if !there[i] {
			missing = append(missing, row)
		}
	}
	return readBlobs(ctx, from, owner, missing, func(list [][]byte) error {
		_, err := to.Put(ctx, owner, list...)
		return err
	})
}

// readBlobs calls each with blobs in the order of a list, no more at once than a Put takes.
func readBlobs(ctx context.Context, from Blobs, owner BlobOwner, rows []driver.BlobRow, each func([][]byte) error) error {
	for keys := range driver.BlobGroups(rows) {
		list, err := from.Get(ctx, owner, keys...)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i] == nil {
				return cairn.Errorf(cairn.ErrStale, "session %q: blob %s was dropped while it was read", owner.Root, keys[i])
			}
		}
		if err := each(list); err != nil {
			return err
		}
	}
	return nil
}
