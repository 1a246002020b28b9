package pgstore

import (
	"context"

	"github.com/cairn-agents/cairn/store/driver"
)

// Migrate brings a schema up to date and changes nothing else. It is for programs that then open the schema with
// NoMigrate under an account that may not create tables.
func Migrate(ctx context.Context, url string, opts *Options) error {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.NoMigrate = false
	s, err := Open(ctx, url, &o)
	if err != nil {
		return err
	}
	return s.Close()
}

// Migrations reports which migrations are applied to the schema in the database at url, and changes nothing. A schema
// that does not exist has none applied. For a database that cannot be used, it returns the errors of Open.
func Migrations(ctx context.Context, url string, opts *Options) ([]driver.Migration, error) {
	s, err := connect(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	schema, err := migrations()
	if err != nil {
		return nil, err
	}
	c := &conn{db: &s.database, q: s.pool}
	at, err := c.inspect(ctx)
	if err != nil {
		return nil, fault("open", err)
	}
	if _, err := at.pending(s.opts.Schema, schema); err != nil {
		return nil, err
	}
	return schema.Status(at.applied), nil
}

// SchemaVersion returns the number of the last migration applied to the schema.
func (s *Store) SchemaVersion(ctx context.Context) (version int, err error) {
	err = s.try(ctx, "read the schema's version", reads, func(ctx context.Context, c *conn) error {
		_, err := c.row(ctx, sqlVersion, []any{&version})
		return err
	})
	return version, err
}
