package modeltest

import (
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn"
)

// failures are the codes that a model may fail with. ErrLost is for agents on other servers.
var failures = []cairn.Code{
	cairn.ErrRateLimited, cairn.ErrOverloaded, cairn.ErrModelRequest, cairn.ErrContextLength, cairn.ErrFileRefused,
	cairn.ErrModelNotFound, cairn.ErrAuth, cairn.ErrFiltered, cairn.ErrModel, cairn.ErrModelReply, cairn.ErrLost,
}

func failureChecks() []check {
	list := []check{{name: "Failure", needs: Failures, run: someFailure}}
	for _, code := range failures {
		list = append(list, check{"Failure/" + string(code), Failures, func(h *harness) { failure(h, code) }})
	}
	return list
}

// someFailure tests that Options.Fail has a failure at all.
func someFailure(h *harness) {
	for _, code := range failures {
		if h.opts.Fail(code) != nil {
			return
		}
	}
	h.Errorf("modeltest.Options: Fail has no request for any code: name %q in Without", Failures)
}

// failure tests that a call fails with one error of a code, at its end, and that the next call works.
func failure(h *harness, code cairn.Code) {
	req := h.opts.Fail(code)
	if req == nil {
		h.Skipf("Options.Fail has no request that fails with %q", code)
	}
	r := h.ask(h.Context(), req)
	known, problem := failed(r)
	switch {
	case problem != "":
		h.Errorf("%s\n%s", problem, r)
	case known == nil:
		h.Errorf("the request of Options.Fail did not fail\n%s", r)
	case known.Code != code:
		h.Errorf("the code of the error is %q, want %q: %v", known.Code, code, known)
	}
	h.mustWork()
}

// failed returns the error of a reply, nil if there is none, and what is wrong with it.
func failed(r *reply) (known *cairn.Error, problem string) {
	if problem := r.broken(); problem != "" {
		return nil, problem
	}
	err := r.err()
	switch {
	case err == nil:
		return nil, ""
	case r.firstError() < len(r.elements)-1:
		return nil, "the sequence continued after an error"
	case !errors.As(err, &known) || known == nil:
		return nil, fmt.Sprintf("the error is no *cairn.Error, but a %T: %v", err, err)
	case known.Code.Category() != cairn.CategoryModel:
		return nil, fmt.Sprintf("the error's code %q is of category %q, want %q: %v",
			known.Code, known.Code.Category(), cairn.CategoryModel, err)
	case known.Message == "":
		return nil, fmt.Sprintf("the error of code %q has no message", known.Code)
	}
	for _, e := range r.elements {
		if e.chunk.Type == cairn.ChunkFinish {
			return nil, "the reply finished, and has an error"
		}
	}
	return known, ""
}
