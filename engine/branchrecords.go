package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// branching is the record of a branch that is about to be made.
type branching struct {
	To string `json:"to"`
	// The session that is branched: its tree may be removed before the files are named.
	From        string `json:"from"`
	Root        string `json:"root"`
	Incarnation string `json:"incarnation,omitempty"`
	Agent       string `json:"agent"`
}

func branchKey(to string) string { return ids.Derive("branch", to) }

// branchIndex is the index of the records of branches of an owner's sessions.
func branchIndex(from store.BlobOwner) string { return ids.Derive("from", from.Root, from.Incarnation) }

// keepBranches names all blobs of a tree that is about to be purged for its branches whose files are not named yet. The tree
// is removed, so no further branch is made of it. The records remain for a process that has the agents.
func keepBranches(ctx context.Context, st store.Store, records store.Records, blobs store.Blobs, from store.BlobOwner) error {
	if records == nil || blobs == nil {
		return nil
	}
	index := branchIndex(from)
	for rec, err := range driver.All(func(cursor string) (driver.Page[driver.Record], error) {
		return records.List(ctx, driver.RecordQuery{Namespace: driver.BranchRecords, Index: &driver.IndexRange{From: index, Before: index + "!"}, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		var b branching
		if json.Unmarshal(rec.Value, &b) != nil {
			continue // of a version to come
		}
		branch, err := driver.Load(ctx, st, b.To)
		if err == nil {
			err = nameAllBlobs(ctx, blobs, from, driver.OwnerOfBlobs(branch))
		}
		if err != nil && !errors.Is(err, cairn.ErrNotFound) { // it was never made, or has been removed
			return err
		}
	}
	return nil
}

// nameAllBlobs names all blobs of an owner for another one.
func nameAllBlobs(ctx context.Context, blobs store.Blobs, from, to store.BlobOwner) error {
	for cursor := ""; ; {
		page, err := blobs.List(ctx, from, driver.BlobQuery{Cursor: cursor, Limit: driver.MaxBlobs})
		if err != nil {
			return err
		}
		keys := make([]string, len(page.Items))
		for i := range page.Items {
			keys[i] = page.Items[i].Key
		}
		if len(keys) > 0 {
			if err := blobs.Name(ctx, from, to, keys...); err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}
