package pgstore

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/released"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// Schemas that releases have written are used by this build.
func TestReleased(t *testing.T) {
	released.Run(t, released.Store{
		Name:   "pgstore",
		File:   "rows.sql",
		Schema: must(migrations()).Status(nil),
		Open: func(tb testing.TB) driver.Store {
			return openAt(tb, testenv.FastPostgres(tb), &Options{Schema: emptySchema(tb)})
		},
		Save: func(tb testing.TB, st driver.Store) []byte { return saveRows(tb, st.(*Store).opts.Schema) },
		Restore: func(tb testing.TB, data []byte, schema []driver.Migration) driver.Store {
			name := newSchema()
			// Migrations do not change once they are released, so these make the tables as they were.
			if err := migrateAs(tb, name, must(migrations())[:len(schema)]); err != nil {
				tb.Fatal(err)
			}
			restoreRows(tb, name, data)
			return openAt(tb, testenv.FastPostgres(tb), &Options{Schema: name})
		},
	})
}

// plainConnect returns a connection whose texts do not depend on the server's settings.
func plainConnect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn := must(pgx.Connect(tb.Context(), testenv.FastPostgres(tb)))
	tb.Cleanup(func() { conn.PgConn().Conn().Close() })
	for _, set := range []string{"timezone = 'UTC'", "datestyle = 'ISO, YMD'", "intervalstyle = 'postgres'", "bytea_output = 'hex'", "extra_float_digits = 3"} {
		must(conn.Exec(tb.Context(), "SET "+set))
	}
	return conn
}

// saveRows returns the rows of all tables of a schema and the positions of its sequences, as statements for psql that
// any version of PostgreSQL understands. {schema} stands for the schema's name. Each table must have a row.
func saveRows(tb testing.TB, schema string) []byte {
	tb.Helper()
	conn := plainConnect(tb)
	var out bytes.Buffer
	for _, table := range firstColumn(tb, conn, `SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename <> 'cairn_migrations' ORDER BY 1`, schema) {
		columns := strings.Join(firstColumn(tb, conn, `SELECT column_name FROM information_schema.columns
			WHERE table_schema = $1 AND table_name = $2 AND is_generated = 'NEVER' ORDER BY ordinal_position`, schema, table), ", ")
		fmt.Fprintf(&out, "COPY {schema}.%s (%s) FROM STDIN;\n", table, columns)
		tag := must(conn.PgConn().CopyTo(tb.Context(), &out, fmt.Sprintf("COPY %s.%s (%s) TO STDOUT", schema, table, columns)))
		if tag.RowsAffected() == 0 {
			tb.Errorf("the fixture has no row of table %s", table)
		}
		out.WriteString("\\.\n")
	}
	for _, set := range firstColumn(tb, conn, `SELECT 'SELECT setval(''{schema}.' || sequencename || ''', ' || last_value || ');'
		FROM pg_sequences WHERE schemaname = $1 AND last_value IS NOT NULL ORDER BY 1`, schema) {
		out.WriteString(set + "\n")
	}
	return out.Bytes()
}

// restoreRows adds what saveRows returned to a schema with empty tables.
func restoreRows(tb testing.TB, schema string, data []byte) {
	tb.Helper()
	conn := plainConnect(tb)
	lines := bufio.NewReader(bytes.NewReader(data))
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return
		}
		statement := strings.ReplaceAll(line, "{schema}", schema)
		if !strings.HasPrefix(line, "COPY ") {
			must(conn.Exec(tb.Context(), statement))
			continue
		}
		var rows bytes.Buffer
		for line := ""; line != "\\.\n"; line = must(lines.ReadString('\n')) {
			rows.WriteString(line)
		}
		must(conn.PgConn().CopyFrom(tb.Context(), &rows, statement))
	}
}

// firstColumn returns the first column of a query.
func firstColumn(tb testing.TB, conn *pgx.Conn, query string, args ...any) []string {
	tb.Helper()
	rows := must(conn.Query(tb.Context(), query, args...))
	return must(pgx.CollectRows(rows, pgx.RowTo[string]))
}
