package user

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/cairn-agents/cairn"
)

// printed returns a panic's value as text, even if printing it panics.
func printed(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T that cannot be printed", v)
		}
	}()
	return strings.ToValidUTF8(fmt.Sprint(v), "\uFFFD")
}

// Tamed wraps an error of user code so that printing, comparing and unwrapping it calls no user code that could do
// harm. It must be called in the user code's own goroutine.
func Tamed(err error) error { return tame(err, 0) }

// maxCauses bounds how many causes an error keeps, since they may form a cycle.
const maxCauses = 16

func tame(err error, depth int) error {
	switch e, ours := err.(*cairn.Error); {
	case err == nil || depth > maxCauses:
		return nil
	case ours && e != nil && e.Cause == nil:
		return e
	case ours && e != nil:
		safe := *e
		safe.Cause = tame(e.Cause, depth+1)
		return &safe
	}
	t := &foreignError{err: err, text: errorText(err)}
	var known *cairn.Error
	if asked(func() bool { return errors.As(err, &known) }) && known != nil {
		t.known, _ = tame(known, depth+1).(*cairn.Error)
	}
	for i, target := range contextErrors {
		t.context[i] = asked(func() bool { return errors.Is(err, target) })
	}
	return t
}

var contextErrors = [...]error{context.Canceled, context.DeadlineExceeded}

// Is is errors.Is for an error of user code, in that code's own goroutine. It reports false if a method of the error
// panics.
func Is(err, target error) bool { return asked(func() bool { return errors.Is(err, target) }) }

// errorText returns an error's message.
func errorText(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			if r := reflect.ValueOf(err); r.Kind() == reflect.Pointer && r.IsNil() {
				text = fmt.Sprintf("a nil %T returned as an error; return a nil error instead", err)
			} else {
				text = fmt.Sprintf("an error of type %T, whose Error method panicked: %s", err, printed(v))
			}
		}
	}()
	return strings.ToValidUTF8(err.Error(), "\uFFFD")
}

// asked calls a method of an error. It reports false if the method panics.
func asked(fn func() bool) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return fn()
}

// foreignError is an error of user code. It answers the engine's usual questions without calling err.
type foreignError struct {
	err     error
	text    string
	known   *cairn.Error // the one that err is or wraps, or nil
	context [len(contextErrors)]bool
}

func (e *foreignError) Error() string { return e.text }

func (e *foreignError) Is(target error) bool {
	switch target.(type) {
	case *cairn.Error, cairn.Code:
		return e.known != nil && errors.Is(e.known, target)
	}
	for i, known := range contextErrors {
		if target == known {
			return e.context[i]
		}
	}
	return asked(func() bool { return errors.Is(e.err, target) })
}

func (e *foreignError) As(target any) bool {
	if into, ours := target.(**cairn.Error); ours {
		if e.known != nil {
			*into = e.known
		}
		return e.known != nil
	}
	return asked(func() bool { return errors.As(e.err, target) })
}
