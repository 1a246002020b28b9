package sqlitestore

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

const (
	sqlInsertUsage = `INSERT INTO usage_rows (at, root_id, user_id, data) VALUES (?1, ?2, ?3, ?4)`

	sqlUsageRows = `SELECT number, at, root_id, user_id, data FROM usage_rows WHERE number > ?1 ORDER BY number LIMIT ?2`

	sqlFolded = `SELECT number FROM usage_folds`
	sqlFoldTo = `UPDATE usage_folds SET number = ?1`

	sqlUsageSums  = `SELECT data FROM usage_sums WHERE key >= ?1 AND key < ?2`
	sqlUsageSum   = `SELECT data FROM usage_sums WHERE key = ?1`
	sqlPutSum     = `INSERT INTO usage_sums (key, data) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET data = excluded.data`
	sqlDeleteSum  = `DELETE FROM usage_sums WHERE key = ?1`
	sqlSumsOfUser = `SELECT key, data FROM usage_sums WHERE key > ?1 AND data ->> '$.user_id' = ?2 ORDER BY key LIMIT ?3`

	// The last row stays, for its number.
	sqlTrimUsage = `
		DELETE FROM usage_rows WHERE number IN (
			SELECT number FROM usage_rows
			WHERE number <= (SELECT number FROM usage_folds) AND number < (SELECT max(number) FROM usage_rows) AND at < ?1
			ORDER BY number LIMIT ?2)`

	sqlForgetUsage = `
		UPDATE usage_rows
		SET root_id = '', user_id = CASE user_id WHEN ?3 THEN '' ELSE user_id END, data = json_remove(data, '$.s', '$.r')
		WHERE number > ?1 AND number <= ?2
			AND (root_id IN (SELECT value FROM json_each(?4)) AND root_id <> '' OR user_id = ?3 AND ?3 <> '')`

	sqlLastUsage = `SELECT coalesce(max(number), 0) FROM usage_rows`
)

// usageBatch is how many rows one write reads or changes at most.
const usageBatch = 1000

// Usages returns the store's usage rows.
func (s *Store) Usages() driver.Usages { return (*usages)(s) }

var _ driver.UsageProvider = (*Store)(nil)

// usages is the store as driver.Usages.
type usages Store

// insertUsage writes the usage row of a commit.
func insertUsage(c *conn, r *cairn.UsageRow) error {
	data, err := backend.UsageRowText(r, false)
	if err != nil {
		return err
	}
	_, err = c.exec(sqlInsertUsage, micros(r.At), r.RootID, r.UserID, data)
	return err
}

// usageRows reads up to limit rows after a number, and returns the last one's number.
func (c *conn) usageRows(ctx context.Context, after int64, limit int, each func(*cairn.UsageRow)) (last int64, err error) {
	var bad error
	err = c.query(ctx, sqlUsageRows, func(cols *columns) bool {
		last = cols.int64()
		at, root, user := cols.time(), cols.text(), cols.text()
		var r cairn.UsageRow
		if r, bad = backend.ReadUsageRow(cols.text(), at, root, user); bad != nil {
			return false
		}
		each(&r)
		return true
	}, after, limit)
	if bad != nil {
		err = bad
	}
	return last, err
}

// Rows implements driver.Usages.
func (u *usages) Rows(ctx context.Context, q driver.PageQuery) (page driver.Page[cairn.UsageRow], err error) {
	after, err := driver.NumberCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	err = u.readers.view(ctx, func(c *conn) error {
		page = driver.Page[cairn.UsageRow]{}
		last, err := c.usageRows(ctx, after, q.Size(), func(r *cairn.UsageRow) { page.Items = append(page.Items, *r) })
		if len(page.Items) == q.Size() {
			page.Next = strconv.FormatInt(last, 10)
		}
		return err
	})
	return page, err
}

// Sums implements driver.Usages.
func (u *usages) Sums(ctx context.Context, days driver.DaySpan, reset func(), visit func(*driver.UsageSum)) error {
	from, before := days.Keys()
	show := func(sum *driver.UsageSum) {
		if days.Has(sum.Day) {
			visit(sum)
		}
	}
	return u.readers.view(ctx, func(c *conn) error {
		reset()
		var bad error
		err := c.query(ctx, sqlUsageSums, func(cols *columns) bool {
			var sum driver.UsageSum
			if sum, bad = backend.DecodeUsageSum(cols.text()); bad == nil {
				visit(&sum)
			}
			return bad == nil
		}, from, before)
		if bad != nil || err != nil {
			return firstOf(bad, err)
		}
		after, err := c.folded()
		if err != nil {
			return err
		}
		_, err = c.usageRows(ctx, after, -1, func(r *cairn.UsageRow) { driver.SumsOf(r, show) })
		return err
	})
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// folded returns the number up to which rows are in the sums.
func (c *conn) folded() (number int64, err error) {
	_, err = c.row(sqlFolded, func(cols *columns) { number = cols.int64() })
	return number, err
}

// Fold implements driver.Usages.
func (u *usages) Fold(ctx context.Context, limit int) (n int, err error) {
	err = u.writer.write(ctx, true, func(c *conn) error {
		n = 0
		after, err := c.folded()
		if err != nil {
			return err
		}
		sums := backend.UsageSums{}
		last, err := c.usageRows(ctx, after, limit, func(r *cairn.UsageRow) { sums.AddRow(r); n++ })
		if err != nil || n == 0 {
			return err
		}
		if err := c.addSums(sums); err != nil {
			return err
		}
		_, err = c.exec(sqlFoldTo, last)
		return err
	})
	if err != nil {
		return 0, fault("fold usage", err)
	}
	return n, nil
}

// addSums adds sums to those that the store has.
func (c *conn) addSums(sums backend.UsageSums) error {
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[key]
		text, there := "", false
		there, err := c.row(sqlUsageSum, func(cols *columns) { text = cols.text() }, key)
		if err != nil {
			return err
		}
		if there {
			old, err := backend.DecodeUsageSum(text)
			if err != nil {
				return err
			}
			sum.Add(&old)
		}
		if err := c.putSum(sum); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) putSum(sum *driver.UsageSum) error {
	data, err := backend.EncodeUsageSum(sum)
	if err != nil {
		return err
	}
	_, err = c.exec(sqlPutSum, sum.Key(), data)
	return err
}

// Trim implements driver.Usages.
func (u *usages) Trim(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	s := (*Store)(u)
	err = s.writer.write(ctx, false, func(c *conn) error {
		removed, err := c.exec(sqlTrimUsage, micros(s.clock().Add(-age)), limit)
		n = int(removed)
		return err
	})
	if err != nil {
		return 0, fault("trim usage", err)
	}
	return n, nil
}

// Forget implements driver.Usages.
func (u *usages) Forget(ctx context.Context, who driver.Forget) error {
	roots, err := json.Marshal(append([]string{}, who.Roots...))
	if err != nil {
		return cairn.Errorf(cairn.ErrInternal, "%w", err)
	}
	var last int64
	err = u.readers.view(ctx, func(c *conn) error {
		_, err := c.row(sqlLastUsage, func(cols *columns) { last = cols.int64() })
		return err
	})
	for from := int64(0); err == nil && from < last; from += 10 * usageBatch {
		err = u.writer.write(ctx, true, func(c *conn) error {
			_, err := c.exec(sqlForgetUsage, from, from+10*usageBatch, who.UserID, string(roots))
			return err
		})
	}
	for done, after := who.UserID == "", ""; err == nil && !done; {
		err = u.writer.write(ctx, true, func(c *conn) (err error) {
			done, after, err = c.forgetSums(ctx, who.UserID, after)
			return err
		})
	}
	return fault("forget usage", err)
}

// forgetSums moves some sums of a user, after a key, to those without a user.
func (c *conn) forgetSums(ctx context.Context, user, after string) (done bool, last string, err error) {
	var found []string
	sums := backend.UsageSums{}
	var bad error
	err = c.query(ctx, sqlSumsOfUser, func(cols *columns) bool {
		last = cols.text()
		found = append(found, last)
		var sum driver.UsageSum
		if sum, bad = backend.DecodeUsageSum(cols.text()); bad == nil {
			sum.UserID = ""
			sums.Add(&sum)
		}
		return bad == nil
	}, after, user, usageBatch)
	if err = firstOf(bad, err); err != nil {
		return false, "", err
	}
	for _, key := range found {
		if _, err := c.exec(sqlDeleteSum, key); err != nil {
			return false, "", err
		}
	}
	return len(found) < usageBatch, last, c.addSums(sums)
}

// Put implements driver.Usages.
func (u *usages) Put(ctx context.Context, sums []driver.UsageSum) error {
	return fault("put usage", u.writer.write(ctx, true, func(c *conn) error {
		for i := range sums {
			if err := c.putSum(&sums[i]); err != nil {
				return err
			}
		}
		return nil
	}))
}
