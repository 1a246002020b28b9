package pgstore

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

const (
	// By the key of usage_rows.
	sqlUsageRows = `
		SELECT number, at, root_id, user_id, data FROM {schema}.usage_rows WHERE number > $1 ORDER BY number LIMIT $2`

	// By usage_rows_new.
	sqlNewUsage = `
		SELECT number, at, root_id, user_id, data FROM {schema}.usage_rows
		WHERE NOT folded ORDER BY number LIMIT $1
		FOR UPDATE`

	// sqlUsageSums reads sums, and the rows that are in none, in one statement, so all are from one snapshot. By the
	// key of usage_sums, and by usage_rows_new.
	sqlUsageSums = `
		SELECT NULL::timestamptz, '', '', data FROM {schema}.usage_sums WHERE key >= $1 AND key < $2
		UNION ALL
		SELECT at, root_id, user_id, data FROM {schema}.usage_rows WHERE NOT folded`

	// sqlLockSums is executed by each writer of sums, so that a sum that it has read stays until its transaction ends.
	sqlLockSums = `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))::text`

	sqlFolded = `UPDATE {schema}.usage_rows SET folded = TRUE WHERE number = ANY ($1::bigint[])`

	sqlSumsByKey = `SELECT data FROM {schema}.usage_sums WHERE key = ANY ($1::text[])`

	sqlPutSums = `
		INSERT INTO {schema}.usage_sums (key, data)
		SELECT s.key, s.data FROM unnest($1::text[], $2::text[]) s (key, data)
		ON CONFLICT (key) DO UPDATE SET data = excluded.data`

	sqlTrimUsage = `
		DELETE FROM {schema}.usage_rows WHERE number = ANY (ARRAY(
			SELECT number FROM {schema}.usage_rows
			WHERE folded AND at < statement_timestamp() - $1::interval ORDER BY number LIMIT $2))`

	// sqlForgetUsage reads all rows of a range of numbers.
	sqlForgetUsage = `
		UPDATE {schema}.usage_rows
		SET root_id = '', user_id = CASE user_id WHEN $3 THEN '' ELSE user_id END, data = (data::jsonb - 's' - 'r')::text
		WHERE number > $1 AND number <= $2 AND (root_id = ANY ($4::text[]) AND root_id <> '' OR user_id = $3 AND $3 <> '')`

	sqlUsageEnds = `SELECT coalesce(min(number), 1) - 1, coalesce(max(number), 0) FROM {schema}.usage_rows`

	// sqlTakeSums removes sums of a user.
	sqlTakeSums = `
		DELETE FROM {schema}.usage_sums WHERE key = ANY (ARRAY(
			SELECT key FROM {schema}.usage_sums WHERE data::jsonb ->> 'user_id' = $1 LIMIT $2))
		RETURNING data`
)

// usageBatch is how many rows one write changes at most.
const usageBatch = 1000

// Usages returns the store's usage rows.
func (s *Store) Usages() driver.Usages { return (*usages)(s) }

var _ driver.UsageProvider = (*Store)(nil)

// usages is the store as driver.Usages.
type usages Store

// Rows implements driver.Usages.
func (u *usages) Rows(ctx context.Context, q driver.PageQuery) (page driver.Page[cairn.UsageRow], err error) {
	after, err := driver.NumberCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	err = (*Store)(u).try(ctx, "list usage", reads, func(ctx context.Context, c *conn) error {
		page = driver.Page[cairn.UsageRow]{}
		numbers, list, err := c.usageRows(ctx, sqlUsageRows, after, q.Size())
		if page.Items = list; len(list) == q.Size() {
			page.Next = strconv.FormatInt(numbers[len(numbers)-1], 10)
		}
		return err
	})
	return page, err
}

// usageRows returns the rows that a statement selects, and their numbers.
func (c *conn) usageRows(ctx context.Context, text string, args ...any) (numbers []int64, list []cairn.UsageRow, err error) {
	err = c.query(ctx, text, func(rows pgx.Rows) error {
		var number int64
		var at time.Time
		var root, user, data string
		if err := rows.Scan(&number, &at, &root, &user, &data); err != nil {
			return err
		}
		r, err := backend.ReadUsageRow(data, at.UTC(), root, user)
		numbers, list = append(numbers, number), append(list, r)
		return err
	}, args...)
	return numbers, list, err
}

// Sums implements driver.Usages.
func (u *usages) Sums(ctx context.Context, days driver.DaySpan, reset func(), visit func(*driver.UsageSum)) error {
	from, before := days.Keys()
	show := func(sum *driver.UsageSum) {
		if days.Has(sum.Day) {
			visit(sum)
		}
	}
	return (*Store)(u).try(ctx, "sum usage", reads, func(ctx context.Context, c *conn) error {
		reset()
		return c.query(ctx, sqlUsageSums, func(rows pgx.Rows) error {
			var at *time.Time
			var root, user, data string
			if err := rows.Scan(&at, &root, &user, &data); err != nil {
				return err
			}
			if at == nil {
				sum, err := backend.DecodeUsageSum(data)
				if err == nil {
					visit(&sum)
				}
				return err
			}
			r, err := backend.ReadUsageRow(data, at.UTC(), root, user)
			if err == nil {
				driver.SumsOf(&r, show)
			}
			return err
		}, from, before)
	})
}

// locked runs do in a transaction that holds the lock of writers of sums.
func (u *usages) locked(ctx context.Context, doing string, do func(*conn) error) error {
	return (*Store)(u).try(ctx, doing, again, func(ctx context.Context, c *conn) error {
		return c.transact(ctx, func(c *conn) error {
			var none string
			if _, err := c.row(ctx, sqlLockSums, []any{&none}, u.opts.Schema+" usage"); err != nil {
				return err
			}
			return do(c)
		})
	})
}

// Fold implements driver.Usages.
func (u *usages) Fold(ctx context.Context, limit int) (n int, err error) {
	err = u.locked(ctx, "fold usage", func(c *conn) error {
		numbers, list, err := c.usageRows(ctx, sqlNewUsage, limit)
		if n = len(list); err != nil || n == 0 {
			return err
		}
		sums := backend.UsageSums{}
		for i := range list {
			sums.AddRow(&list[i])
		}
		if err := c.addSums(ctx, sums); err != nil {
			return err
		}
		_, err = c.exec(ctx, sqlFolded, numbers)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// addSums adds sums to those that the store has. The caller holds the lock.
func (c *conn) addSums(ctx context.Context, sums backend.UsageSums) error {
	keys := slices.Sorted(maps.Keys(sums))
	err := c.query(ctx, sqlSumsByKey, func(rows pgx.Rows) error {
		var data string
		if err := rows.Scan(&data); err != nil {
			return err
		}
		old, err := backend.DecodeUsageSum(data)
		if err == nil {
			sums.Add(&old)
		}
		return err
	}, keys)
	if err != nil {
		return err
	}
	return c.putSums(ctx, sums)
}

func (c *conn) putSums(ctx context.Context, sums backend.UsageSums) error {
	var keys, list []string
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		data, err := backend.EncodeUsageSum(sums[key])
		if err != nil {
			return err
		}
		keys, list = append(keys, key), append(list, data)
	}
	_, err := c.exec(ctx, sqlPutSums, keys, list)
	return err
}

// Trim implements driver.Usages.
func (u *usages) Trim(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	err = (*Store)(u).try(ctx, "trim usage", again, func(ctx context.Context, c *conn) error {
		removed, err := c.exec(ctx, sqlTrimUsage, age, limit)
		n = int(removed)
		return err
	})
	return n, err
}

// Forget implements driver.Usages.
func (u *usages) Forget(ctx context.Context, who driver.Forget) error {
	s := (*Store)(u)
	roots := append([]string{}, who.Roots...)
	var from, last int64
	err := s.try(ctx, "forget usage", reads, func(ctx context.Context, c *conn) error {
		_, err := c.row(ctx, sqlUsageEnds, []any{&from, &last})
		return err
	})
	for ; err == nil && from < last; from += 10 * usageBatch {
		err = s.try(ctx, "forget usage", again, func(ctx context.Context, c *conn) error {
			_, err := c.exec(ctx, sqlForgetUsage, from, from+10*usageBatch, who.UserID, roots)
			return err
		})
	}
	for n := usageBatch; err == nil && who.UserID != "" && n > 0; {
		err = u.locked(ctx, "forget usage", func(c *conn) error {
			n = 0
			sums := backend.UsageSums{}
			err := c.query(ctx, sqlTakeSums, func(rows pgx.Rows) error {
				var data string
				if err := rows.Scan(&data); err != nil {
					return err
				}
				sum, err := backend.DecodeUsageSum(data)
				sum.UserID = ""
				sums.Add(&sum)
				n++
				return err
			}, who.UserID, usageBatch)
			if err != nil || n == 0 {
				return err
			}
			return c.addSums(ctx, sums)
		})
	}
	return err
}

// Put implements driver.Usages.
func (u *usages) Put(ctx context.Context, sums []driver.UsageSum) error {
	byKey := backend.UsageSums{}
	for i := range sums {
		byKey[sums[i].Key()] = &sums[i]
	}
	return u.locked(ctx, "put usage", func(c *conn) error { return c.putSums(ctx, byKey) })
}
