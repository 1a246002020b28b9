package driver

import "time"

// Migration is one numbered change of the schema in which a store keeps its data.
type Migration struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
	// Fingerprint identifies the migration's content, so that a migration that was changed under its number is detected;
	// empty if the store does not have one.
	Fingerprint string `json:"fingerprint,omitempty"`
	// MinBuild is the lowest version that a build must know to use the store once this migration is applied; 0 means
	// Version. A lower number lets processes of the build before run on during a rolling deployment.
	MinBuild int `json:"min_build,omitempty"`
	// AppliedAt is zero if the migration is not applied, or the store does not record when it was.
	AppliedAt time.Time `json:"applied_at,omitzero"`
}
