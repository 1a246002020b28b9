// Package valued joins contexts that end at different times and know different things.
package valued

import "context"

// Join returns a context that ends as ctx does and has the values of from beside its own, which come first.
func Join(ctx, from context.Context) context.Context { return joined{ctx, from} }

type joined struct {
	context.Context
	from context.Context
}

// Value asks the context itself first, for that is how a context finds the one above it that ends.
func (j joined) Value(key any) any {
	if v := j.Context.Value(key); v != nil {
		return v
	}
	return j.from.Value(key)
}
