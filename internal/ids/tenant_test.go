package ids

import (
	"strings"
	"testing"
)

func TestTenantOfID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string][2]string{
		"acme::order-42": {"acme", "order-42"}, "order-42": {"", "order-42"}, "a.b_c-1::x:y": {"a.b_c-1", "x:y"},
		"acme:::x": {"acme", ":x"}, "acme::x:": {"acme", "x:"}, "a:b": {"", "a:b"}, "acme::a/b": {"acme", "a/b"}, "": {"", ""},
	} {
		tenant, name := Split(id)
		if tenant != want[0] || name != want[1] {
			t.Errorf("%q is %q of %q", id, name, tenant)
		}
		if In(tenant, name) != id {
			t.Errorf("%q of %q is %q, not %q", name, tenant, In(tenant, name), id)
		}
		if problem := CheckSession(id); problem != "" && id != "" {
			t.Errorf("%q %s", id, problem)
		}
		if problem := CheckUser(id); problem != "" && id != "" {
			t.Errorf("user %q %s", id, problem)
		}
	}
}

func TestImpossibleTenants(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"::", "::x", "x::", "a::b::c", "a::::b", "-a::b", ".a::b", "a b::c", "ä::b", "a/b::c", "*::b", "a:: b", "a::b ", " a::b",
		"a::\n", strings.Repeat("a", 65) + "::b", "a::" + strings.Repeat("b", MaxLength)} {
		if CheckSession(id) == "" {
			t.Errorf("session %q is accepted", id)
		}
		if CheckUser(id) == "" {
			t.Errorf("user %q is accepted", id)
		}
	}
	for _, id := range []string{"a::.", "a::..", "a::/b", "a::b/", "a::b//c", "a::../b"} {
		if CheckSession(id) == "" {
			t.Errorf("session %q is accepted", id)
		}
	}
	if problem := CheckSession(strings.Repeat("a", 64) + "::" + strings.Repeat("b", MaxLength-66)); problem != "" {
		t.Errorf("the longest id %s", problem)
	}
}

func TestQualify(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ session, name, want string }{
		{"acme::s", "ann", "acme::ann"}, {"acme::s", "acme::ann", "acme::ann"}, {"s", "ann", "ann"}, {"s", "", ""}, {"acme::s", "", ""},
		{"acme::s", "other::ann", ""}, {"s", "acme::ann", ""}, {"acme::s", "acme::", ""}, {"acme::s", "acme::a::b", ""}, {"acme::s", "::ann", ""},
	} {
		got, problem := Qualify(test.session, test.name)
		if got != test.want || (problem != "") != (test.want == "" && test.name != "") {
			t.Errorf("%q beside %q: %q, %q", test.name, test.session, got, problem)
		}
	}
}
