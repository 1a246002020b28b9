package redisstore

import (
	"context"
	"strconv"
	"sync"

	"github.com/cairn-agents/cairn"
)

var (
	scriptClaim   = keyed("claim", "commit", grows)
	scriptRelease = keyed("release", "delete", frees)
)

// routes caches the buckets of children, which do not follow from their ids.
type routes struct {
	mu    sync.Mutex
	known map[string]int
}

// mostRoutes bounds the number of cached routes; an evicted route is looked up again.
const mostRoutes = 100_000

func (r *routes) get(id string) (bucket int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bucket, ok = r.known[id]
	return bucket, ok
}

func (r *routes) put(id string, bucket int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= mostRoutes {
		r.known = map[string]int{}
	}
	r.known[id] = bucket
}

func (r *routes) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, id)
}

// route returns the bucket where a session is looked for first, and whether it was seen there.
func (d *database) route(id string) (bucket int, remembered bool) {
	if len(d.buckets) > 1 {
		if bucket, remembered = d.routes.get(id); remembered {
			return bucket, true
		}
	}
	return d.bucketOf(id), false
}

// claim stores, on a cluster, a note of the bucket of a session that is to be created, so that it is found by its id. A
// note that names another bucket is replaced only if anew is set.
func (d *database) claim(ctx context.Context, id string, home int, anew bool) error {
	own := d.bucketOf(id)
	r, err := d.run(ctx, scriptClaim, own, id, home, own, anew)
	if err != nil {
		return err
	}
	bucket, err := strconv.Atoi(r.text(1))
	if err != nil || bucket < 0 || bucket >= len(d.buckets) {
		return cairn.Errorf(cairn.ErrCorrupt, "session %q: stored bucket %q not found", id, r.text(1))
	}
	d.routes.put(id, bucket)
	return nil
}

// release deletes, on a cluster, the note of a deleted session's bucket. If it fails, the note names no session, and
// the next creator of a session with that id corrects it.
func (d *database) release(ctx context.Context, id string, home int) error {
	own := d.bucketOf(id)
	if own == home {
		return nil
	}
	d.routes.forget(id)
	_, err := d.run(ctx, scriptRelease, own, id, home)
	return err
}
