package engine

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Artifacts pages through the artifacts of a session, see [cairn.Call.Publish], oldest first. The last one of
// a name is current. Artifacts of its sub-agents are theirs. The list is made from the transcript, so a long one takes
// several reads. The error is ErrInvalid for q.Newest.
func (e *Engine) Artifacts(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.PublishedArtifact], error) {
	return pageOfMessages(ctx, e, id, q, "artifacts", (*cairn.Message).Artifacts)
}

// pageOfMessages pages through the items of a session's messages, which of returns for a message and its index.
func pageOfMessages[T any](ctx context.Context, e *Engine, id string, q store.PageQuery, what string, of func(*cairn.Message, int) []T) (page store.Page[T], err error) {
	if q.Newest {
		return page, cairn.Invalid("newest", "is not supported by %s", what)
	}
	next, skip := 0, 0
	if q.Cursor != "" {
		message, number, _ := strings.Cut(q.Cursor, ".")
		next, err = strconv.Atoi(message)
		if skip, _ = strconv.Atoi(number); err != nil || next < 0 || skip < 0 || itemCursor(next, skip) != q.Cursor {
			return page, cairn.Invalid("cursor", "%q does not belong to this list", q.Cursor)
		}
	}
	for {
		list, err := e.Messages(ctx, id, next, filesMessages)
		if err != nil {
			return store.Page[T]{}, err
		}
		for i := range list {
			for number, item := range of(&list[i], next+i) {
				if i == 0 && number < skip {
					continue
				}
				if len(page.Items) == q.Size() {
					page.Next = itemCursor(next+i, number)
					return page, nil
				}
				page.Items = append(page.Items, item)
			}
		}
		skip = 0
		if next += len(list); len(list) < filesMessages {
			return page, nil
		}
	}
}

// itemCursor is the place of the first item of a page: the index of its message, and its number there.
func itemCursor(message, number int) string { return fmt.Sprintf("%d.%d", message, number) }

// OpenArtifact returns an artifact by its place in a session's transcript, see [cairn.PublishedArtifact], and its content,
// which is read from the store in parts, until ctx is done. The error is ErrNotFound if there is none.
func (e *Engine) OpenArtifact(ctx context.Context, id string, message, file int) (*cairn.PublishedArtifact, io.ReadSeeker, error) {
	row, err := e.Session(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	var list []cairn.PublishedArtifact
	if message >= 0 && message < row.MessageCount {
		found, err := e.Messages(ctx, id, message, 1)
		if err != nil {
			return nil, nil, err
		}
		for i := range found {
			list = found[i].Artifacts(message)
		}
	}
	if file < 0 || file >= len(list) {
		return nil, nil, &cairn.Error{Code: cairn.ErrNotFound, Field: "artifact", Message: fmt.Sprintf("artifact %d of message %d of session %q not found", file, message, id)}
	}
	blobs, err := driver.BlobsOf(e.store)
	if err != nil {
		return nil, nil, err
	}
	a := list[file]
	has, err := blobs.Has(ctx, driver.OwnerOfBlobs(row), a.Blobs...)
	if err == nil && slices.Contains(has, false) {
		err = e.mendBranch(ctx, row)
	}
	if err != nil {
		return nil, nil, err
	}
	return &a, driver.NewBlobReader(ctx, blobs, driver.OwnerOfBlobs(row), a.Blobs, a.Size, fmt.Sprintf("artifact %q of session %q", a.Name, id)), nil
}
