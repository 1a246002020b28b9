package memory

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// dailyCost limits the cost of extraction: of the turns of one agent in a day, in all processes of a store.
type dailyCost struct {
	records driver.Records
	key     string
	limit   int64 // billionths of a US dollar
}

// spentToday is the value of the record of a day.
type spentToday struct {
	Nanos int64 `json:"nanos"`
}

// costRecordTTL outlasts the day of a record.
const costRecordTTL = 48 * time.Hour

// dailyCost returns the limit that applies to a turn; nil if there is none. The day is the one of the store's time at
// which the turn is read.
func (m *Memory) dailyCost(turn *cairn.EndedTurn) *dailyCost {
	x := m.opts.Agent.Extract
	if x.DailyUSD == 0 {
		return nil
	}
	day := turn.Session.AsOf.UTC().Format(time.DateOnly)
	return &dailyCost{m.records, turn.Session.Agent + "/" + day, int64(math.Round(x.DailyUSD * 1e9))}
}

// reached reports whether the day's limit is reached.
func (d *dailyCost) reached(ctx context.Context) (bool, error) {
	if d == nil {
		return false, nil
	}
	spent, _, err := d.read(ctx)
	return spent.Nanos >= d.limit, err
}

func (d *dailyCost) read(ctx context.Context) (spent spentToday, version int64, err error) {
	rec, err := d.records.Get(ctx, driver.MemoryCostRecords, d.key)
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		return spent, 0, nil
	case err != nil:
		return spent, 0, err
	}
	if err := json.Unmarshal(rec.Value, &spent); err != nil {
		return spent, 0, cairn.Errorf(cairn.ErrCorrupt, "memory: cost of %s: %w", d.key, err)
	}
	return spent, rec.Version, nil
}

// costTime is how long the count of a call may take.
const costTime = 5 * time.Second

// add adds the cost of a call, also if ctx has ended meanwhile. The call has been made: a failure is logged, since an error
// would repeat it.
func (d *dailyCost) add(ctx context.Context, usage cairn.Usage, log *slog.Logger) {
	if d == nil || usage.CostNanos == 0 {
		if d != nil && usage.ModelCalls+usage.DiscardedCalls > 0 {
			log.LogAttrs(ctx, slog.LevelWarn, "memory: the price of the model that extracts is not known; the daily limit does not count it", slog.String("day", d.key))
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), costTime)
	defer cancel()
	for {
		spent, version, err := d.read(ctx)
		if err == nil {
			spent.Nanos += usage.CostNanos
			value, _ := json.Marshal(spent) // always encodes
			_, err = d.records.Put(ctx, driver.RecordWrite{Namespace: driver.MemoryCostRecords, Key: d.key, Value: value, Seen: version, TTL: costRecordTTL})
		}
		if errors.Is(err, cairn.ErrStale) {
			continue
		}
		switch {
		case err != nil:
			log.LogAttrs(ctx, slog.LevelWarn, "memory: cost of extraction not counted", slog.String("day", d.key), slog.Any("error", err))
		case spent.Nanos >= d.limit && spent.Nanos-usage.CostNanos < d.limit:
			log.LogAttrs(ctx, slog.LevelWarn, "memory: the daily limit of extraction is reached; only the texts of turns are kept", slog.String("day", d.key))
		}
		return
	}
}
