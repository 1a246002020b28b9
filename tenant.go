package cairn

import "github.com/cairn-agents/cairn/internal/ids"

// InTenant returns the id of a session, thread or user of a tenant: tenant::name. Without a tenant it is the name, and an
// empty name stays empty. Ids of different tenants are different, so each tenant has sessions, threads, users, inboxes,
// records and logs of its own, also under equal names. It does not check its arguments: see [CheckTenant] and
// [CheckSessionID].
func InTenant(tenant, name string) string { return ids.In(tenant, name) }

// SplitTenant returns the tenant of an id that InTenant has made, and the name there. The tenant is empty for an id without
// one.
func SplitTenant(id string) (tenant, name string) { return ids.Split(id) }

// CheckTenant returns an ErrInvalid error unless a text can be the name of a tenant: 1 to 64 ASCII letters, digits, dots,
// underscores or hyphens. The first is a letter or digit.
func CheckTenant(name string) error {
	if problem := ids.CheckTenant(name); problem != "" {
		return Invalid("tenant", "%s", problem)
	}
	return nil
}

// User returns the name of the session's user without the tenant, for systems that know the user by that name; empty for
// none.
func (s *Session) User() string {
	_, name := ids.Split(s.UserID)
	return name
}

// Tenant returns the tenant of the session, see [InTenant]; empty for none.
func (s *Step) Tenant() string {
	tenant, _ := ids.Split(s.SessionID)
	return tenant
}

// User returns the name of the session's user without the tenant, for systems that know the user by that name; empty for
// none. UserID is the user's id, which is unique among all tenants.
func (s *Step) User() string {
	_, name := ids.Split(s.UserID)
	return name
}
