package released

import (
	"fmt"

	"github.com/cairn-agents/cairn/store/driver"
)

// Unchanged returns an error if a migration that a version has released is gone or has another fingerprint in this
// build: stores with the released one would be refused. Migrations may follow those that are released. Those without a
// fingerprint, such as the layout of keys in Redis, are not compared.
func Unchanged(version string, released, known []driver.Migration) error {
	for i, was := range released {
		switch {
		case was.Fingerprint == "":
		case i >= len(known):
			return fmt.Errorf("migration %d (%s), which %s has released, is gone: put it back", was.Version, was.Name, version)
		case known[i].Version != was.Version || known[i].Fingerprint != was.Fingerprint:
			return fmt.Errorf("migration %d (%s) is not the one that %s has released (fingerprint %s, was %s): put that back, and make the change in a migration %d",
				was.Version, was.Name, version, known[i].Fingerprint, was.Fingerprint, len(released)+1)
		}
	}
	return nil
}
