// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

const (
	signInCall   = "/" + fleetv1connect.SessionServiceName + "/SignIn"
	exchangeCall = "/" + fleetv1connect.SessionServiceName + "/CreateAccessToken"
	signOutCall  = "/" + fleetv1connect.SessionServiceName + "/SignOut"
)

// pageAnswer is the answer to a call of a page.
type pageAnswer struct {
	status  int
	body    string
	cookies []*http.Cookie
	header  http.Header
}

// page makes a call as a page of the hub's own does, unless the headers say otherwise.
func (h *hub) page(t *testing.T, call, body string, headers ...string) pageAnswer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+call, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return pageAnswer{response.StatusCode, string(content), response.Cookies(), response.Header}
}

// code makes a code with an API token.
func (h *hub) code(t *testing.T, token string) string {
	t.Helper()
	made, err := h.sessions(t, token).CreateSignInCode(t.Context(), &fleetv1.CreateSignInCodeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(made.GetExpireTime().AsTime()); left > time.Minute {
		t.Errorf("got a code for %v, want a minute at most", left)
	}
	return made.GetCode()
}

func codeProof(code string) string { return `{"code": "` + code + `"}` }

// signInBy signs a browser in, and returns its cookie as it sends it.
func (h *hub) signInBy(t *testing.T, proof string) string {
	t.Helper()
	got := h.page(t, signInCall, proof)
	if got.status != http.StatusOK || len(got.cookies) != 1 {
		t.Fatalf("got %d %s %v, want a cookie", got.status, got.body, got.cookies)
	}
	c := got.cookies[0]
	if c.Name != "__Host-leat-session" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.MaxAge <= 0 || c.MaxAge > 12*3600 {
		t.Errorf("got %+v, want a strict cookie that no script reads, for 12 h at most", c)
	}
	if _, token, _ := strings.Cut(c.Value, "."); strings.Contains(got.body, token) || token == "" {
		t.Errorf("got %s, want the token to be in the cookie alone", got.body)
	}
	return c.Name + "=" + c.Value
}

// accessOf returns the access token that a browser gets; empty if it is refused.
func (h *hub) accessOf(t *testing.T, cookie string) string {
	t.Helper()
	got := h.page(t, exchangeCall, `{}`, "Cookie", cookie)
	var answer struct {
		AccessToken string    `json:"accessToken"`
		ExpireTime  time.Time `json:"expireTime"`
	}
	if got.status == http.StatusOK {
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil || time.Until(answer.ExpireTime) > 5*time.Minute {
			t.Errorf("got %s, %v, want a token for five minutes at most", got.body, err)
		}
	} else if got.status != http.StatusUnauthorized {
		t.Errorf("got %d %s, want 200 or 401", got.status, got.body)
	}
	return answer.AccessToken
}

// TestUserSignsInInABrowser follows a code from the command line to the end of the sign-in.
func TestUserSignsInInABrowser(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	cookie := h.signInBy(t, codeProof(h.code(t, adminToken)))
	access := h.accessOf(t, cookie)
	info, err := h.fleet(t, access).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{})
	if err != nil || info.GetSubject() != "user:admin" {
		t.Fatalf("got %v, %v, want the admin", info, err)
	}
	tokens, err := h.fleet(t, adminToken).ListTokens(t.Context(), &fleetv1.ListTokensRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var browsers int
	for _, token := range tokens.GetTokens() {
		if token.GetLabel() == "browser" {
			browsers++
			if token.GetMadeWith() == "" || token.GetCreatedBy() != "user:admin" {
				t.Errorf("got %v, want it to name the token that it was made with", token)
			}
		}
	}
	if browsers != 1 {
		t.Errorf("got %d tokens of browsers, want 1", browsers)
	}
	out := h.page(t, signOutCall, `{}`, "Cookie", cookie)
	if out.status != http.StatusOK || out.header.Get("Clear-Site-Data") == "" || len(out.cookies) != 1 || out.cookies[0].MaxAge >= 0 {
		t.Errorf("sign-out: got %d %v", out.status, out.header)
	}
	if h.accessOf(t, cookie) != "" {
		t.Error("got a token after the sign-out")
	}
	if _, err := h.fleet(t, access).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{}); err == nil {
		t.Error("an access token outlives the sign-out")
	}
	if again := h.page(t, signOutCall, `{}`, "Cookie", cookie); again.status != http.StatusOK {
		t.Errorf("a second sign-out: got %d", again.status)
	}
}

// TestSecCodeOfABrowser redeems codes twice, at once, late, and where they do not count.
func TestSecCodeOfABrowser(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	code := h.code(t, adminToken)
	for name, headers := range map[string][]string{
		"another site": {"Sec-Fetch-Site", "cross-site"}, "another host": {"Sec-Fetch-Site", "same-site"}, "typed": {"Sec-Fetch-Site", "none"},
		"no browser": {"Sec-Fetch-Site", ""},
	} {
		if got := h.page(t, signInCall, codeProof(code), headers...); got.status != http.StatusForbidden || len(got.cookies) > 0 {
			t.Errorf("%s: got %d %v, want 403", name, got.status, got.cookies)
		}
	}
	cookie := h.signInBy(t, codeProof(code))
	if got := h.page(t, signInCall, codeProof(code)); got.status != http.StatusUnauthorized || !strings.Contains(got.body, "used twice") || len(got.cookies) > 0 {
		t.Errorf("a second use: got %d %s, want 401", got.status, got.body)
	}
	if h.accessOf(t, cookie) != "" {
		t.Error("the sign-in of a code that was used twice lasts")
	}
	for _, body := range []string{codeProof("guessed"), codeProof(""), codeProof(strings.Repeat("A", 4000)), codeProof(code[:len(code)-4] + "AAAA"), `{"apiToken": "leat_guessed"}`, `{"apiToken": ""}`} {
		if got := h.page(t, signInCall, body); got.status != http.StatusUnauthorized || len(got.cookies) > 0 {
			t.Errorf("%.40s: got %d %s, want 401", body, got.status, got.body)
		}
	}
	if got := h.page(t, signInCall, `{}`); got.status != http.StatusBadRequest {
		t.Errorf("no proof: got %d", got.status)
	}
	if got := h.page(t, signInCall, codeProof(code)); got.status != http.StatusUnauthorized {
		t.Errorf("a third use: got %d %s, want 401", got.status, got.body)
	}
	// A sign-out does not give the code back.
	left := h.code(t, adminToken)
	h.page(t, signOutCall, `{}`, "Cookie", h.signInBy(t, codeProof(left)))
	if got := h.page(t, signInCall, codeProof(left)); got.status != http.StatusUnauthorized {
		t.Errorf("a use after the sign-out: got %d %s, want 401", got.status, got.body)
	}
	// The codes of command lines and of browsers do not stand for one another.
	other := h.code(t, adminToken)
	_, err := h.sessions(t, "").CreateSession(t.Context(), &fleetv1.CreateSessionRequest{
		Proof: &fleetv1.CreateSessionRequest_Code{Code: other}, CodeVerifier: "x", TokenHash: sum("x"),
	})
	wantReason(t, err, "TOKEN_INVALID")
	var all sync.WaitGroup
	statuses := make(chan int, 8)
	for range cap(statuses) {
		all.Go(func() { statuses <- h.page(t, signInCall, codeProof(other)).status })
	}
	all.Wait()
	close(statuses)
	signedIn := 0
	for status := range statuses {
		if status == http.StatusOK {
			signedIn++
		}
	}
	if signedIn > 1 {
		t.Errorf("got %d sign-ins by one code", signedIn)
	}
}

// TestSecTokenOfABrowser uses what the cookie holds elsewhere, and ends the token behind it.
func TestSecTokenOfABrowser(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	admin := h.fleet(t, adminToken)
	if _, err := admin.Apply(t.Context(), &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{
		{Object: &fleetv1.Document_User{User: &fleetv1.User{Metadata: &typev1.Metadata{Name: "ada"}, Spec: &fleetv1.UserSpec{}}}},
	}}); err != nil {
		t.Fatal(err)
	}
	ends := time.Now().Add(time.Hour)
	made, err := admin.CreateToken(t.Context(), &fleetv1.CreateTokenRequest{
		User: "ada", Label: "laptop", ExpireTime: timestamppb.New(ends), Limit: &fleetv1.TokenLimit{Role: typev1.AccessRole_ACCESS_ROLE_VIEWER, Hub: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	cookie := h.signInBy(t, `{"apiToken": "`+made.GetSecret()+`"}`)
	access := h.accessOf(t, cookie)
	if access == "" {
		t.Fatal("got no access token")
	}
	_, token, _ := strings.Cut(cookie, "=")
	if got := h.page(t, exchangeCall, `{"sessionToken": "`+token+`", "nextTokenHash": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`); got.status != http.StatusUnauthorized {
		t.Errorf("the token of a cookie in a request: got %d %s, want 401", got.status, got.body)
	}
	for name, headers := range map[string][]string{"another site": {"Sec-Fetch-Site", "cross-site"}, "no browser": {"Sec-Fetch-Site", ""}} {
		if got := h.page(t, exchangeCall, `{}`, append(headers, "Cookie", cookie)...); got.status != http.StatusForbidden {
			t.Errorf("%s: got %d %s, want 403", name, got.status, got.body)
		}
	}
	tokens, err := h.fleet(t, adminToken).ListTokens(t.Context(), &fleetv1.ListTokensRequest{User: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range tokens.GetTokens() {
		if kept.GetLabel() == "browser" && (kept.GetLimit().GetRole() != typev1.AccessRole_ACCESS_ROLE_VIEWER || kept.GetExpireTime().AsTime().After(ends.Add(time.Second)) || kept.GetMadeWith() != made.GetToken().GetId()) {
			t.Errorf("got %v, want no more than the token that it was made with", kept)
		}
	}
	code := h.code(t, made.GetSecret())
	if _, err := admin.DeleteToken(t.Context(), &fleetv1.DeleteTokenRequest{Id: made.GetToken().GetId()}); err != nil {
		t.Fatal(err)
	}
	if h.accessOf(t, cookie) != "" {
		t.Error("a browser outlives the token that signed it in")
	}
	if got := h.page(t, signInCall, codeProof(code)); got.status != http.StatusUnauthorized {
		t.Errorf("a code of a token that has ended: got %d", got.status)
	}
	if _, err := h.fleet(t, access).GetServerInfo(t.Context(), &fleetv1.GetServerInfoRequest{}); err == nil {
		t.Error("an access token outlives the token behind it")
	}
}

// TestIdleBrowserIsSignedOut finds a browser's sign-in that nobody used for an hour. The hub's records
// name the hub, which ended it, and the token behind it goes on.
func TestIdleBrowserIsSignedOut(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	cookie := h.signInBy(t, codeProof(h.code(t, adminToken)))
	ago := func(idle time.Duration) {
		t.Helper()
		h.stop(t)
		db, err := sql.Open("sqlite", strings.TrimPrefix(h.cfg.DatabaseURL, "sqlite://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		at := time.Now().Add(-idle).UnixMicro()
		if _, err := db.ExecContext(t.Context(), "UPDATE api_tokens SET created_at = ?, last_used_at = ? WHERE label = 'browser'", at-1, at); err != nil {
			t.Fatal(err)
		}
		h.start(t)
	}
	ago(30 * time.Minute)
	began := time.Now().Truncate(time.Microsecond) // as the store keeps times
	if h.accessOf(t, cookie) == "" {
		t.Error("a sign-in ended after half an hour without use")
	}
	listed := func() (browsers []*fleetv1.Token) {
		t.Helper()
		tokens, err := h.fleet(t, adminToken).ListTokens(t.Context(), &fleetv1.ListTokensRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(tokens.GetTokens(), func(token *fleetv1.Token) bool { return token.GetLabel() != "browser" })
	}
	if got := listed(); len(got) != 1 || got[0].GetLastUsedTime().AsTime().Before(began) {
		t.Errorf("got %v, want the use of the browser", got)
	}
	ago(61 * time.Minute)
	if h.accessOf(t, cookie) != "" {
		t.Error("a sign-in outlives an hour without use")
	}
	if got := listed(); len(got) != 0 {
		t.Errorf("got %v, want the token to be gone", got)
	}
	records := auditOf(t, h.fleet(t, adminToken), &fleetv1.ListAuditRecordsRequest{Kind: "Token"})
	if len(records) == 0 || records[0].GetVerb() != "delete" || records[0].GetSubject() != "service:distributor" ||
		!strings.HasSuffix(records[0].GetProcedure(), "/CreateAccessToken") {
		t.Errorf("got %v, want the hub to have ended the token", records)
	}
}

// TestBrowserEndsWithTheAdminToken replaces the token that the hub's settings name.
func TestBrowserEndsWithTheAdminToken(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	cookie := h.signInBy(t, codeProof(h.code(t, adminToken)))
	h.stop(t)
	h.cfg.AdminToken = "leat_another-admin-token-of-this-test"
	h.start(t)
	if h.accessOf(t, cookie) != "" {
		t.Error("a browser outlives the admin's token")
	}
}
