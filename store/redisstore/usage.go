package redisstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

var (
	scriptUsageRead  = keyed("usageread", "sum usage", reads)
	scriptUsageRows  = keyed("usagerows", "list usage", reads)
	scriptUsageSums  = keyed("usagesums", "read sums of usage", reads)
	scriptUsageWrite = keyed("usagewrite", "write usage", frees)
)

// stampLength is how many digits the microseconds before a row have.
const stampLength = 16

// Usages returns the store's usage rows. Sums reads all rows that are not folded in one script: run a worker, which
// folds them. On a cluster each bucket has rows and sums of its own: Rows lists one bucket after the other, and Sums
// reads each at a point in time of its own, at which every row of the bucket counts once.
func (s *Store) Usages() driver.Usages { return (*usages)(s) }

var _ driver.UsageProvider = (*Store)(nil)

// usages is the store as driver.Usages.
type usages Store

// addUsage adds the usage row of a commit to the arguments of write.lua.
func (w *write) addUsage(cmd *command) error {
	if w.d.Usage == nil {
		return nil
	}
	text, err := backend.UsageRowText(w.d.Usage, true)
	if err == nil {
		cmd.words("dated", "ul", "1", text)
	}
	return err
}

// stepUsage returns the usage row of a step; empty for none.
func (w *write) stepUsage() (string, error) {
	if w.d.Usage == nil {
		return "", nil
	}
	return backend.UsageRowText(w.d.Usage, true)
}

// readUsageRow reads a stored row.
func readUsageRow(text string) (cairn.UsageRow, error) {
	if len(text) < stampLength {
		return cairn.UsageRow{}, cairn.Errorf(cairn.ErrCorrupt, "stored usage row is too short")
	}
	at, err := strconv.ParseInt(text[:stampLength], 10, 64)
	if err != nil {
		return cairn.UsageRow{}, cairn.Errorf(cairn.ErrCorrupt, "stored usage row: %w", err)
	}
	return backend.ReadUsageRow(text[stampLength:], fromMicros(at), "", "")
}

// usagePart is a list of rows as a script returned it.
type usagePart struct {
	version         string
	now             time.Time
	trimmed, folded int64
	from            int64
	texts           []any
}

// part reads rows of a bucket from a number on; -1 is the first that is not folded.
func (u *usages) part(ctx context.Context, bucket int, from int64, limit int) (p usagePart, err error) {
	answer, err := (*Store)(u).run(ctx, scriptUsageRows, bucket, from, limit)
	if err != nil {
		return p, err
	}
	var now int64
	for i, n := range map[int]*int64{2: &now, 3: &p.trimmed, 4: &p.folded, 6: &p.from} {
		if *n, err = answer.number(scriptUsageRows, i); err != nil {
			return p, err
		}
	}
	p.version, p.now, p.texts = answer.text(1), fromMicros(now), answer.list(5)
	return p, nil
}

// Rows implements driver.Usages.
func (u *usages) Rows(ctx context.Context, q driver.PageQuery) (page driver.Page[cairn.UsageRow], err error) {
	name, number, _ := strings.Cut(q.Cursor, "-")
	bucket, err := driver.NumberCursor(name)
	if err != nil || bucket >= int64(len(u.buckets)) {
		return page, cairn.Invalid("cursor", "%q does not belong to this list", q.Cursor)
	}
	from, err := driver.NumberCursor(number)
	if err != nil {
		return page, err
	}
	p, err := u.part(ctx, int(bucket), from, q.Size())
	if err != nil {
		return page, err
	}
	for _, text := range p.texts {
		r, err := readUsageRow(plain(text))
		if err != nil {
			return page, err
		}
		page.Items = append(page.Items, r)
	}
	switch next := p.from + int64(len(p.texts)); {
	case len(p.texts) == q.Size():
		page.Next = strconv.FormatInt(bucket, 10) + "-" + strconv.FormatInt(next, 10)
	case bucket+1 < int64(len(u.buckets)):
		page.Next = strconv.FormatInt(bucket+1, 10) + "-0"
	}
	return page, nil
}

// Sums implements driver.Usages.
func (u *usages) Sums(ctx context.Context, days driver.DaySpan, reset func(), visit func(*driver.UsageSum)) error {
	from, before := days.Keys()
	replies, err := (*Store)(u).runAll(ctx, scriptUsageRead, from, before)
	if err != nil {
		return err
	}
	reset()
	show := func(sum *driver.UsageSum) {
		if days.Has(sum.Day) {
			visit(sum)
		}
	}
	for _, answer := range replies {
		for _, value := range answer.list(2) {
			sum, err := backend.DecodeUsageSum(plain(value))
			if err != nil {
				return err
			}
			visit(&sum)
		}
		for _, text := range answer.list(3) {
			r, err := readUsageRow(plain(text))
			if err != nil {
				return err
			}
			driver.SumsOf(&r, show)
		}
	}
	return nil
}

// change makes one write to the usage of a bucket. plan returns the version that it has seen and the changes; without
// changes nothing is written. If the bucket has changed since, plan is called again.
func (u *usages) change(ctx context.Context, bucket int, plan func() (version string, changes []any, err error)) error {
	for {
		version, changes, err := plan()
		if err != nil || len(changes) == 0 {
			return err
		}
		answer, err := (*Store)(u).run(ctx, scriptUsageWrite, bucket, append([]any{version, ids.New("usage")}, changes...)...)
		if err != nil || answer.word() == "ok" {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// Fold implements driver.Usages.
func (u *usages) Fold(ctx context.Context, limit int) (n int, err error) {
	for bucket := range u.buckets {
		if n >= limit {
			break
		}
		some := 0
		err := u.change(ctx, bucket, func() (string, []any, error) {
			p, err := u.part(ctx, bucket, -1, limit-n)
			if some = len(p.texts); err != nil || some == 0 {
				return "", nil, err
			}
			sums := backend.UsageSums{}
			for _, text := range p.texts {
				r, err := readUsageRow(plain(text))
				if err != nil {
					return "", nil, err
				}
				sums.AddRow(&r)
			}
			changes, err := u.addSums(ctx, bucket, sums)
			return p.version, append(changes, "fold", some), err
		})
		if err != nil {
			return n, err
		}
		n += some
	}
	return n, nil
}

// addSums returns the changes that add sums to those of a bucket. The caller's write compares the version that it has
// seen before.
func (u *usages) addSums(ctx context.Context, bucket int, sums backend.UsageSums) (changes []any, err error) {
	keys := slices.Sorted(maps.Keys(sums))
	args := make([]any, len(keys))
	for i := range keys {
		args[i] = keys[i]
	}
	answer, err := (*Store)(u).run(ctx, scriptUsageSums, bucket, args...)
	if err != nil {
		return nil, err
	}
	for i, value := range answer.list(2) {
		if text := plain(value); text != "" {
			old, err := backend.DecodeUsageSum(text)
			if err != nil {
				return nil, err
			}
			sums[keys[i]].Add(&old)
		}
	}
	return putSums(keys, sums)
}

func putSums(keys []string, sums backend.UsageSums) (changes []any, err error) {
	for _, key := range keys {
		data, err := backend.EncodeUsageSum(sums[key])
		if err != nil {
			return nil, err
		}
		changes = append(changes, "put", key, data)
	}
	return changes, nil
}

// Trim implements driver.Usages.
func (u *usages) Trim(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	for bucket := range u.buckets {
		some := 0
		err := u.change(ctx, bucket, func() (string, []any, error) {
			p, err := u.part(ctx, bucket, 0, limit-n)
			if err != nil {
				return "", nil, err
			}
			some = 0
			for _, text := range p.texts[:min(int64(len(p.texts)), p.folded)] {
				r, err := readUsageRow(plain(text))
				if err != nil {
					return "", nil, err
				}
				if !r.At.Before(p.now.Add(-age)) {
					break
				}
				some++
			}
			if some == 0 {
				return "", nil, nil
			}
			return p.version, []any{"trim", some}, nil
		})
		if err != nil {
			return n, err
		}
		if n += some; n >= limit {
			break
		}
	}
	return n, nil
}

// Forget implements driver.Usages. It reads all rows, a thousand at a time, and for a user all sums.
func (u *usages) Forget(ctx context.Context, who driver.Forget) error {
	for bucket := range u.buckets {
		for from := int64(0); ; {
			p, err := u.forgetRows(ctx, bucket, from, who)
			if err != nil {
				return err
			}
			if from = p.from + int64(len(p.texts)); len(p.texts) < 1000 {
				break
			}
		}
		if who.UserID == "" {
			continue
		}
		if err := u.forgetSums(ctx, bucket, who.UserID); err != nil {
			return err
		}
	}
	return nil
}

// forgetRows removes ids from some rows of a bucket, which it returns.
func (u *usages) forgetRows(ctx context.Context, bucket int, from int64, who driver.Forget) (p usagePart, err error) {
	err = u.change(ctx, bucket, func() (string, []any, error) {
		if p, err = u.part(ctx, bucket, from, 1000); err != nil {
			return "", nil, err
		}
		var changes []any
		for i, text := range p.texts {
			r, err := readUsageRow(plain(text))
			if err != nil {
				return "", nil, err
			}
			if !who.Apply(&r) {
				continue
			}
			data, err := backend.UsageRowText(&r, true)
			if err != nil {
				return "", nil, err
			}
			list, index := "uk", p.from-p.trimmed+int64(i)
			if index >= p.folded {
				list, index = "ul", index-p.folded
			}
			changes = append(changes, "set", list, index, plain(text)[:stampLength]+data)
		}
		return p.version, changes, nil
	})
	return p, err
}

// forgetSums moves the sums of a user to those without a user.
func (u *usages) forgetSums(ctx context.Context, bucket int, user string) error {
	return u.change(ctx, bucket, func() (string, []any, error) {
		answer, err := (*Store)(u).run(ctx, scriptUsageRead, bucket, "", "~")
		if err != nil {
			return "", nil, err
		}
		var changes []any
		sums := backend.UsageSums{}
		for _, value := range answer.list(2) {
			sum, err := backend.DecodeUsageSum(plain(value))
			if err != nil {
				return "", nil, err
			}
			if sum.UserID == user {
				changes = append(changes, "drop", sum.Key())
				sum.UserID = ""
				sums.Add(&sum)
			}
		}
		if len(changes) == 0 {
			return "", nil, nil
		}
		puts, err := u.addSums(ctx, bucket, sums)
		return answer.text(1), append(changes, puts...), err
	})
}

// Put implements driver.Usages. Of a cluster, the first bucket gets the sums.
func (u *usages) Put(ctx context.Context, sums []driver.UsageSum) error {
	byKey := backend.UsageSums{}
	for i := range sums {
		byKey[sums[i].Key()] = &sums[i]
	}
	return u.change(ctx, 0, func() (string, []any, error) {
		answer, err := (*Store)(u).run(ctx, scriptUsageSums, 0)
		if err != nil {
			return "", nil, err
		}
		changes, err := putSums(slices.Sorted(maps.Keys(byKey)), byKey)
		return answer.text(1), changes, err
	})
}
