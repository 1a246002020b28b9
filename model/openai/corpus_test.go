package openai_test

import "testing"

func TestCorpus(t *testing.T) { adapter.Corpus(t, true) }
