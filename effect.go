package cairn

import (
	"encoding/json"
	"time"
)

// EffectState is the state of an effectful call in the ledger.
type EffectState string

const (
	EffectSent      EffectState = "sent"      // an attempt began and has not ended
	EffectUnknown   EffectState = "unknown"   // an attempt ended without an outcome: nobody knows whether it took effect
	EffectConfirmed EffectState = "confirmed" // it took effect
	EffectFailed    EffectState = "failed"    // it did not take effect, according to the tool, its [Confirm] or a person
)

// Effect is the part of a call's row that belongs to the ledger of effects, see [Effectful].
type Effect struct {
	// State is the state of the latest attempt.
	State EffectState `json:"state"`
	// Key is the call's [Call.IdempotencyKey], the same for every attempt.
	Key string `json:"idempotency_key"`
	// Attempts counts the attempts at the tool's function that began.
	Attempts int `json:"attempts"`
	// SentAt is when the latest attempt began, by the store's clock.
	SentAt time.Time `json:"sent_at,omitzero"`
}

// EffectOutcome is the answer to a pending call of [CallEffect].
type EffectOutcome string

const (
	EffectHappened     EffectOutcome = "happened"       // the call took effect
	EffectDidNotHappen EffectOutcome = "did_not_happen" // it did not, and is not repeated
	EffectTryAgain     EffectOutcome = "try_again"      // the tool is called again, with the same idempotency key
)

// EffectAnswer is the value of an answer to a pending call of [CallEffect].
type EffectAnswer struct {
	// Outcome is the person's decision.
	Outcome EffectOutcome `json:"outcome"`
	// Result becomes the call's result if it happened, and the text that the model reads if it did not. Without one the
	// model reads the decision.
	Result json.RawMessage `json:"result,omitempty"`
}
