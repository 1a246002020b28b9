package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// asked makes a request to a handler, with headers as pairs of names and values.
func asked(t *testing.T, h http.Handler, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://cairn.internal:8080"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	newContract(t).around(h).ServeHTTP(rec, r)
	return rec.Result()
}

// signedInAs signs in with a token and returns the value of the Cookie header.
func signedInAs(t *testing.T, h http.Handler, token string, headers ...string) string {
	t.Helper()
	res := asked(t, h, "POST", "/console/session", "", append(headers, "Authorization", "Bearer "+token)...)
	list := res.Cookies()
	if res.StatusCode != 201 || len(list) != 1 {
		t.Fatalf("sign-in: status %d, cookies %v", res.StatusCode, list)
	}
	c := list[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.MaxAge < 1 || c.Domain != "" || len(c.Value) < 26 ||
		c.Secure != slices.Contains(headers, "https") {
		t.Errorf("cookie %+v", c)
	}
	return c.Name + "=" + c.Value
}

func identity(t *testing.T, h http.Handler, headers ...string) (who client.Identity, status int) {
	t.Helper()
	res := asked(t, h, "GET", "/console/session", "", headers...)
	if err := json.NewDecoder(res.Body).Decode(&who); err != nil {
		t.Fatal(err)
	}
	return who, res.StatusCode
}

// A sign-in stands for the principal whose credentials it was exchanged for, in each process on the store and in no other,
// until it expires or is ended.
func TestSignIn(t *testing.T) {
	w := newTenants(t)
	cookie := signedInAs(t, w.h, "acme:a")
	signedInAs(t, w.h, "x", "X-Forwarded-Proto", "https")
	who, status := identity(t, w.h, "Cookie", cookie)
	if left := time.Until(who.Expires); status != 200 || who.User != "alice" || who.Tenant != "acme" || !slices.Equal(who.Roles, []string{"user"}) || left < 7*time.Hour || left > 8*time.Hour {
		t.Errorf("status %d: %+v", status, who)
	}
	for record, err := range store.All(func(cursor string) (store.Page[store.Record], error) {
		return w.eng.Records().List(t.Context(), store.RecordQuery{Namespace: store.UserRecords, Cursor: cursor})
	}) {
		_, id, _ := strings.Cut(cookie, "=")
		if err != nil || strings.Contains(record.Key+string(record.Value), id) || strings.Contains(string(record.Value), "acme:a") {
			t.Errorf("the store keeps the cookie or the token: %+v, %v", record, err)
		}
	}

	w.same("acme::s")
	w.same("s")
	other := anotherProcess(t, w.st)
	for _, h := range []http.Handler{w.h, other} {
		res := asked(t, h, "GET", "/sessions", "", "Cookie", cookie)
		var page pageBody[cairn.Session]
		if err := json.NewDecoder(res.Body).Decode(&page); err != nil || len(page.Items) != 1 || page.Items[0].Tenant != "acme" || page.Items[0].ID != "s" {
			t.Errorf("status %d: %+v, %v", res.StatusCode, page.Items, err)
		}
	}
	if _, status := identity(t, anotherProcess(t, memstore.New(nil)), "Cookie", cookie); status != 401 {
		t.Errorf("on another store: %d", status)
	}
	if _, status := identity(t, w.h, "Cookie", cookie+"x"); status != 401 {
		t.Errorf("another cookie: %d", status)
	}
	w.ahead.Store(int64(8*time.Hour - time.Minute))
	if _, status := identity(t, other, "Cookie", cookie); status != 200 {
		t.Errorf("before it expires: %d", status)
	}
	w.ahead.Store(int64(8 * time.Hour))
	if _, status := identity(t, w.h, "Cookie", cookie); status != 401 {
		t.Errorf("after it has expired: %d", status)
	}
}

// anotherProcess returns the handler of another engine on a store.
func anotherProcess(t *testing.T, st *memstore.Store) *Handler {
	t.Helper()
	eng, err := engine.New(st, []*cairn.Agent{newBot()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	h, err := New(eng, &Options{SignIn: &SignIn{}, Authenticate: Tokens(nil)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A request with a cookie that changes anything comes from a page of the server's own origin; reading is permitted, and
// a cookie is not enough for another sign-in.
func TestSignInIsForOwnPages(t *testing.T) {
	w := newWorld(t, &Options{URL: "https://agents.example/cairn", RequestsPerMinute: -1, Origins: []string{"https://app.example"}})
	cookie := signedInAs(t, w.h, "a", "X-Forwarded-Proto", "https")
	for _, test := range []struct {
		headers []string
		status  int
	}{
		{nil, 403},
		{[]string{"Sec-Fetch-Site", "same-origin"}, 201},
		{[]string{"Sec-Fetch-Site", "same-origin", "Origin", "https://agents.example"}, 201},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "none"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://app.example"}, 403}, // which may call the server with a token
		{[]string{"Origin", "http://cairn.internal:8080"}, 201},
		{[]string{"Origin", "https://agents.example"}, 201},
		{[]string{"Origin", "http://agents.example"}, 403},
		{[]string{"Origin", "http://cairn.internal"}, 403},
		{[]string{"Origin", "null"}, 403},
	} {
		res := asked(t, w.h, "POST", "/sessions", `{"agent":"bot"}`, append(test.headers, "Cookie", cookie)...)
		if res.StatusCode != test.status {
			t.Errorf("%v: status %d, want %d", test.headers, res.StatusCode, test.status)
		}
		if res := asked(t, w.h, "GET", "/sessions", "", append(test.headers, "Cookie", cookie)...); res.StatusCode != 200 {
			t.Errorf("%v: reading: status %d", test.headers, res.StatusCode)
		}
	}
	own := []string{"Cookie", cookie, "Sec-Fetch-Site", "same-origin"}
	if res := asked(t, w.h, "POST", "/console/session", "", own...); res.StatusCode != 401 {
		t.Errorf("a sign-in by a cookie: %d", res.StatusCode)
	}
	if res := asked(t, w.h, "GET", "/console/session", "", append(own, "Authorization", "Bearer wrong")...); res.StatusCode != 401 {
		t.Errorf("a wrong token with a cookie: %d", res.StatusCode)
	}
	if res := asked(t, w.h, "DELETE", "/console/session", "", "Cookie", cookie); res.StatusCode != 403 {
		t.Errorf("a foreign sign-out: %d", res.StatusCode)
	}
	res := asked(t, w.h, "DELETE", "/console/session", "", own...)
	if list := res.Cookies(); res.StatusCode != 204 || len(list) != 1 || list[0].MaxAge >= 0 {
		t.Errorf("sign-out: %d, %v", res.StatusCode, list)
	}
	if _, status := identity(t, w.h, "Cookie", cookie); status != 401 {
		t.Errorf("after the sign-out: %d", status)
	}
}

// All sign-ins of a user end at once, by the user, by an administrator of the tenant, and when the user is erased.
func TestRevokedSignIns(t *testing.T) {
	w := newTenants(t)
	signed := func(cookies ...string) (n int) {
		for _, cookie := range cookies {
			if _, status := identity(t, w.h, "Cookie", cookie); status == 200 {
				n++
			}
		}
		return n
	}
	end := func(token string) int {
		return asked(t, w.h, "DELETE", "/console/session?user_id=alice", "", "Authorization", "Bearer "+token).StatusCode
	}
	first, second := signedInAs(t, w.h, "acme:a"), signedInAs(t, w.h, "acme:a")
	foreign, eve := signedInAs(t, w.h, "a"), signedInAs(t, w.h, "acme:e")
	if end("acme:e") != 400 || end("other:x") != 204 || end("x") != 204 || signed(first, second, eve) != 3 || signed(foreign) != 0 {
		t.Errorf("%d of the tenant's and %d of the other sign-ins are left", signed(first, second, eve), signed(foreign))
	}
	if end("acme:x") != 204 || signed(first, second) != 0 || signed(eve) != 1 {
		t.Errorf("after the administrator: %d and %d are left", signed(first, second), signed(eve))
	}
	again := signedInAs(t, w.h, "acme:a")
	if end("acme:a") != 204 || signed(again) != 0 {
		t.Errorf("after the user: %d are left", signed(again))
	}
	if _, err := w.eng.EraseUser(t.Context(), "acme::eve"); err != nil || signed(eve) != 0 {
		t.Errorf("after the erasure: %d are left; %v", signed(eve), err)
	}
}

// Failed sign-ins of an address are bounded, and its sign-ins with it; other addresses are not affected.
func TestFailedSignIns(t *testing.T) {
	w := newWorld(t, nil)
	try := func(address, token string) int {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/console/session", nil)
		r.RemoteAddr = address
		r.Header.Set("Authorization", "Bearer "+token)
		rec := httptest.NewRecorder()
		w.h.ServeHTTP(rec, r)
		return rec.Code
	}
	for range 5 {
		if got := try("[2001:db8::1]:1", "a"); got != 201 { // a success does not count
			t.Fatalf("status %d", got)
		}
	}
	codes := map[int]int{}
	for range 20 {
		codes[try("[2001:db8::1]:1", "wrong")]++
	}
	if codes[429] < 10 || codes[401] < 6 {
		t.Errorf("statuses %v", codes)
	}
	if try("[2001:db8::2]:1", "a") != 429 || try("[2001:db8:0:1::1]:1", "a") != 201 || try("192.0.2.1:1", "a") != 201 {
		t.Error("the limit is not that of one network")
	}
}

// Credentials that expire bound their sign-in, and a handler without the option has none.
func TestSignInOptions(t *testing.T) {
	soon := time.Now().Add(time.Minute)
	w := newWorld(t, &Options{SignIn: &SignIn{Lifetime: time.Hour}, Authenticate: Tokens(map[string]*Principal{
		"soon": {User: "ann", Name: "Ann Lee", Roles: []Role{RoleUser}, Expires: soon}, "over": {User: "ann", Expires: time.Now()}, "long": {User: "ann"}})})
	for token, left := range map[string]time.Duration{"soon": time.Minute, "long": time.Hour} {
		if who, _ := identity(t, w.h, "Cookie", signedInAs(t, w.h, token)); time.Until(who.Expires) > left || time.Until(who.Expires) < left/2 || token == "soon" && who.Name != "Ann Lee" {
			t.Errorf("%s: %+v", token, who)
		}
	}
	if res := asked(t, w.h, "POST", "/console/session", "", "Authorization", "Bearer over"); res.StatusCode != 401 || len(res.Cookies()) > 0 {
		t.Errorf("expired credentials: %d", res.StatusCode)
	}
	without, err := New(w.eng, &Options{Authenticate: w.h.opts.Authenticate})
	if err != nil {
		t.Fatal(err)
	}
	cookie := signedInAs(t, w.h, "long")
	if res := asked(t, without, "POST", "/console/session", "", "Authorization", "Bearer long"); res.StatusCode != 404 {
		t.Errorf("without the option: %d", res.StatusCode)
	}
	if _, status := identity(t, without, "Cookie", cookie); status != 401 {
		t.Errorf("a cookie without the option: %d", status)
	}
	for _, o := range []*Options{{AllowUnauthenticated: true, SignIn: &SignIn{}}, {Authenticate: Tokens(nil), SignIn: &SignIn{Lifetime: -1}}} {
		if _, err := New(w.eng, o); err == nil || cairn.AsError(err).Field != "SignIn" {
			t.Errorf("options %+v: %v", o.SignIn, err)
		}
	}
}
