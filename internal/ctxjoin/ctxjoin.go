// Package ctxjoin joins the values of two contexts.
package ctxjoin

import "context"

// Join returns a context that is cancelled with ctx and has the values of both. Values of ctx take precedence.
func Join(ctx, from context.Context) context.Context { return joined{ctx, from} }

type joined struct {
	context.Context
	from context.Context
}

// Value asks ctx first, since a context finds its cancellable parent through Value.
func (j joined) Value(key any) any {
	if v := j.Context.Value(key); v != nil {
		return v
	}
	return j.from.Value(key)
}
