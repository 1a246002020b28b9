package store

import (
	"github.com/cairn-agents/cairn/store/driver"
)

// eachBlobs calls each with the pages of the blobs that an owner names.
func (x *exporter) eachBlobs(owner BlobOwner, each func([]driver.BlobRow) error) error {
	for cursor := ""; ; {
		page, err := x.blobs.List(x.ctx, owner, driver.BlobQuery{Cursor: cursor, Limit: driver.MaxBlobs})
		if err != nil {
			return err
		}
		if len(page.Items) > 0 {
			if err := each(page.Items); err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// countBlobs returns the number of blobs that the parts list.
func (x *exporter) countBlobs(owner BlobOwner) (count int, err error) {
	if x.blobs == nil {
		return 0, nil
	}
	err = x.eachBlobs(owner, func(rows []driver.BlobRow) error { count += len(rows); return nil })
	return count, err
}

// files yields the blobs of the tree, each list before its bytes.
func (x *exporter) files(owner BlobOwner, count int) error {
	listed := 0
	err := x.eachBlobs(owner, func(rows []driver.BlobRow) error {
		listed += len(rows)
		if err := x.give(&Part{Blobs: rows}); err != nil {
			return err
		}
		return readBlobs(x.ctx, x.blobs, owner, rows, func(list [][]byte) error { return x.give(&Part{Bytes: list}) })
	})
	if err == nil && listed != count {
		err = x.changed()
	}
	return err
}
