// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package forge_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/forge"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

const token = "canary-0815"

// api answers each request with the next of its answers, and remembers what it was asked.
type api struct {
	*httptest.Server

	mu      sync.Mutex
	answers []answer
	calls   []string
	headers []http.Header
}

type answer struct {
	status int
	body   string
}

func newAPI(t *testing.T, answers ...answer) *api {
	t.Helper()
	a := &api{answers: answers}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// asked returns the requests so far, and their headers.
func (a *api) asked() (calls []string, headers []http.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls, a.headers
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	a.headers = append(a.headers, r.Header.Clone())
	next := answer{http.StatusTeapot, ""}
	if len(a.answers) > 0 {
		next, a.answers = a.answers[0], a.answers[1:]
	}
	if next.status/100 == 3 {
		w.Header().Set("Location", next.body)
	}
	w.WriteHeader(next.status)
	_, _ = io.WriteString(w, next.body)
}

func definition(url string, kind upstream.Forge) mirror.Definition {
	return mirror.Definition{Name: "shop", UID: "uid", Definition: upstream.Definition{
		URL: url, Push: upstream.Push{Branches: upstream.NewList([]string{"leat/*"}), Forge: kind},
		Credential: upstream.Credential{Method: upstream.MethodBasic, Username: "leat", Password: token, AllowPlainHTTP: true},
	}}
}

// request has a body whose second line GitLab would run.
var request = forge.PullRequest{Head: "leat/image/shop/web", Base: "main", Title: "Update web", Body: "To 1.2.3.\n/merge"}

func open(t *testing.T, def mirror.Definition) (string, error) {
	t.Helper()
	client := forge.New(uploadpack.New(uploadpack.Config{Dir: t.TempDir(), Guard: dialguard.Guard{AllowLocal: true}}))
	return client.Open(t.Context(), mirror.OwnerTask{Definition: def, Guard: func() error { return nil }}, request)
}

// encode returns JSON.
func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// githubPull is a pull request as GitHub and Gitea have it, in the fields that matter.
func githubPull(repo, title, body string) map[string]any {
	side := func(ref string) map[string]any {
		return map[string]any{"ref": ref, "sha": strings.Repeat("a", 40), "repo": map[string]any{"full_name": repo}}
	}
	return map[string]any{
		"number": 7, "state": "open", "title": title, "body": body, "html_url": "https://git.example/team/shop/pull/7", "url": "https://api.invalid/7",
		"head": side("leat/image/shop/web"), "base": side("main"),
	}
}

func gitlabPull(source int, title, description string) map[string]any {
	return map[string]any{
		"iid": 7, "id": 70, "state": "opened", "title": title, "description": description, "web_url": "https://git.example/team/sub/shop/-/merge_requests/7",
		"source_branch": "leat/image/shop/web", "target_branch": "main", "source_project_id": source, "target_project_id": 3,
	}
}

// TestForges opens, leaves and updates pull requests of the three APIs, as their documentation has
// them. What belongs to a fork is another's.
func TestForges(t *testing.T) {
	t.Parallel()
	const (
		github     = "/api/v3/repos/team/shop/pulls"
		githubFind = "GET " + github + "?base=main&head=team%3Aleat%2Fimage%2Fshop%2Fweb&per_page=10&state=open"
		githubBody = `{"base":"main","body":"To 1.2.3.\n/merge","head":"leat/image/shop/web","title":"Update web"}`
		gitea      = "/api/v1/repos/team/shop/pulls"
		giteaFind  = "GET " + gitea + "?limit=50&page=1&sort=recentupdate&state=open"
		gitlab     = "/api/v4/projects/team%2Fsub%2Fshop/merge_requests"
		gitlabFind = "GET " + gitlab + "?per_page=20&source_branch=leat%2Fimage%2Fshop%2Fweb&state=opened&target_branch=main"
		gitlabBody = `{"description":"To 1.2.3.\n\\/merge","source_branch":"leat/image/shop/web","target_branch":"main","title":"Update web"}`
	)
	own, fork := githubPull("Team/Shop", "Update web", "To 1.2.3.\r\n/merge"), githubPull("mallory/shop", "x", "y")
	own["body"] = "To 1.2.3.\n/merge\n"
	outdated := githubPull("team/shop", "Update", "")
	for name, test := range map[string]struct {
		kind    upstream.Forge
		answers []answer
		want    []string
	}{
		"github opens":  {upstream.ForgeGitHub, []answer{{200, encode(t, []any{fork})}, {201, encode(t, own)}}, []string{githubFind, "POST " + github + " " + githubBody}},
		"github leaves": {upstream.ForgeGitHub, []answer{{200, encode(t, []any{fork, own})}}, []string{githubFind}},
		"github updates": {
			upstream.ForgeGitHub,
			[]answer{{200, encode(t, []any{outdated})}, {200, encode(t, own)}},
			[]string{githubFind, "PATCH " + github + `/7 {"body":"To 1.2.3.\n/merge","title":"Update web"}`},
		},
		"github, another was faster": {
			upstream.ForgeGitHub,
			[]answer{{200, "[]"}, {422, `{"message": "Validation Failed"}`}, {200, encode(t, []any{own})}},
			[]string{githubFind, "POST " + github + " " + githubBody, githubFind},
		},
		"gitea opens": {
			upstream.ForgeGitea,
			[]answer{{200, encode(t, []any{fork})}, {200, "[]"}, {201, encode(t, own)}},
			[]string{giteaFind, strings.Replace(giteaFind, "page=1", "page=2", 1), "POST " + gitea + " " + githubBody},
		},
		"gitea updates": {
			upstream.ForgeGitea,
			[]answer{{200, encode(t, []any{outdated})}, {201, encode(t, own)}},
			[]string{giteaFind, "PATCH " + gitea + `/7 {"body":"To 1.2.3.\n/merge","title":"Update web"}`},
		},
		"gitlab opens": {
			upstream.ForgeGitLab,
			[]answer{{200, encode(t, []any{gitlabPull(9, "x", "y")})}, {201, encode(t, gitlabPull(3, "Update web", "To 1.2.3.\n\\/merge"))}},
			[]string{gitlabFind, "POST " + gitlab + " " + gitlabBody},
		},
		"gitlab leaves": {upstream.ForgeGitLab, []answer{{200, encode(t, []any{gitlabPull(3, "Update web", "To 1.2.3.\n\\/merge")})}}, []string{gitlabFind}},
		"gitlab updates": {
			upstream.ForgeGitLab,
			[]answer{{200, encode(t, []any{gitlabPull(3, "Update", "")})}, {200, "{}"}},
			[]string{gitlabFind, "PUT " + gitlab + `/7 {"description":"To 1.2.3.\n\\/merge","title":"Update web"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAPI(t, test.answers...)
			path, want := "/team/shop.git", "https://git.example/team/shop/pull/7"
			if test.kind == upstream.ForgeGitLab {
				path, want = "/team/sub/shop", "https://git.example/team/sub/shop/-/merge_requests/7"
			}
			got, err := open(t, definition(server.URL+path, test.kind))
			if err != nil || got != want {
				t.Errorf("got %q (%v), want %q", got, err, want)
			}
			calls, headers := server.asked()
			if diff := cmp.Diff(test.want, calls); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			authorization := "Bearer " + token
			if test.kind == upstream.ForgeGitea {
				authorization = "Basic bGVhdDpjYW5hcnktMDgxNQ=="
			}
			for _, header := range headers {
				if header.Get("Authorization") != authorization {
					t.Errorf("got %q, want %q", header.Get("Authorization"), authorization)
				}
			}
		})
	}
}

// TestSecForgesThatLie answers with redirects, words with the credential, nonsense and too much.
func TestSecForgesThatLie(t *testing.T) {
	t.Parallel()
	elsewhere := newAPI(t)
	t.Cleanup(func() {
		if calls, _ := elsewhere.asked(); len(calls) != 0 {
			t.Errorf("got the requests %q elsewhere, want none", calls)
		}
	})
	for name, test := range map[string]struct {
		answers []answer
		words   string
	}{
		"a redirect":          {[]answer{{302, elsewhere.URL + "/api"}}, "redirects"},
		"a redirected change": {[]answer{{200, "[]"}, {307, elsewhere.URL + "/api"}}, "redirects"},
		"words":               {[]answer{{403, `{"message": "no scope for ` + token + `"}`}}, "no scope"},
		"a list of words":     {[]answer{{200, "[]"}, {409, `{"message": ["Branch is locked"]}`}, {200, "[]"}}, "Branch is locked"},
		"nothing there":       {[]answer{{404, "<html>"}}, "push.forge"},
		"a web page":          {[]answer{{200, "<html>"}}, "push.forge"},
		"an object":           {[]answer{{200, "{}"}}, "push.forge"},
		"too much":            {[]answer{{200, "[" + strings.Repeat(" ", 9<<20) + "]"}}, "push.forge"},
		"endless words":       {[]answer{{500, strings.Repeat("w", 1<<20)}}, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := open(t, definition(newAPI(t, test.answers...).URL+"/team/shop", upstream.ForgeGitHub))
			failed, ok := errors.AsType[*mirror.UpstreamError](err)
			if !ok || failed.Reason != reason.PullRequestFailed {
				t.Fatalf("got %v, want %s", err, reason.PullRequestFailed)
			}
			if !strings.Contains(failed.Message, test.words) || strings.Contains(failed.Message, token) || len(failed.Message) > 600 {
				t.Errorf("got %q, want %q without the credential", failed.Message, test.words)
			}
		})
	}
	for _, address := range []string{"javascript:alert(1)", "https://u:p@git.example/x", "/x", "https://git.example/" + strings.Repeat("a", 3000), ""} {
		pull := githubPull("team/shop", request.Title, request.Body)
		pull["html_url"] = address
		got, err := open(t, definition(newAPI(t, answer{200, encode(t, []any{pull})}).URL+"/team/shop", upstream.ForgeGitHub))
		if err != nil || got != "" {
			t.Errorf("got %q (%v) for the address %q, want none", got, err, address)
		}
	}
}

// TestSecForgesAreConfined keeps requests of a definition that is confined to public addresses from
// a private API, and those of any from one over plain HTTP.
func TestSecForgesAreConfined(t *testing.T) {
	t.Parallel()
	server := newAPI(t)
	client := forge.New(uploadpack.New(uploadpack.Config{Dir: t.TempDir()}))
	confined := definition("https://github.com/team/shop", "")
	confined.Push.APIURL, confined.PublicOnly = server.URL, true
	_, err := client.Open(t.Context(), mirror.OwnerTask{Definition: confined, Guard: func() error { return nil }}, request)
	failed, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok || failed.Reason != reason.PullRequestFailed || !strings.Contains(failed.Message, "gitcache-allow-networks") {
		t.Errorf("got %v, want the address refused", err)
	}
	plain := definition("https://github.com/team/shop", "")
	plain.Push.APIURL, plain.Credential.AllowPlainHTTP = server.URL, false
	_, err = client.Open(t.Context(), mirror.OwnerTask{Definition: plain, Guard: func() error { return nil }}, request)
	if failed, ok := errors.AsType[*mirror.UpstreamError](err); !ok || failed.Reason != reason.PushNotAllowed {
		t.Errorf("got %v, want plain HTTP refused", err)
	}
	errGone := errors.New("lease lost")
	guarded := definition(server.URL+"/team/shop", upstream.ForgeGitHub)
	_, err = client.Open(t.Context(), mirror.OwnerTask{Definition: guarded, Guard: func() error { return errGone }}, request)
	if !errors.Is(err, errGone) {
		t.Errorf("got %v, want the guard's error", err)
	}
	if calls, _ := server.asked(); len(calls) != 0 {
		t.Errorf("got the requests %q, want none", calls)
	}
}

// TestPlaces finds the API and the project of a repository, by its URL alone.
func TestPlaces(t *testing.T) {
	t.Parallel()
	app := upstream.Credential{Method: upstream.MethodGitHubApp, APIURL: "https://ghe.example/api/v3"}
	for _, test := range []struct {
		url        string
		kind       upstream.Forge
		api        string
		credential *upstream.Credential
		want       string // kind, API and project; empty: it is refused
	}{
		{"https://github.com/team/shop.git", "", "", nil, "github https://api.github.com team/shop"},
		{"https://GitHub.com/team/shop/", "", "", nil, "github https://api.github.com team/shop"},
		{"https://gitlab.com/team/sub/shop.git", "", "", nil, "gitlab https://gitlab.com/api/v4 team/sub/shop"},
		{"https://codeberg.org/team/shop", "", "", nil, "gitea https://codeberg.org/api/v1 team/shop"},
		{"https://git.example:3000/team/shop", upstream.ForgeGitea, "", nil, "gitea https://git.example:3000/api/v1 team/shop"},
		{"https://ghe.example/team/shop", upstream.ForgeGitHub, "", nil, "github https://ghe.example/api/v3 team/shop"},
		{"https://ghe.example/team/shop", upstream.ForgeGitHub, "", &app, "github https://ghe.example/api/v3 team/shop"},
		{"https://git.example/lab/team/shop", upstream.ForgeGitLab, "https://git.example/lab/api/v4/", nil, "gitlab https://git.example/lab/api/v4 team/shop"},
		{"https://git.example/tea/team/shop", upstream.ForgeGitea, "https://git.example/tea/api/v1", nil, "gitea https://git.example/tea/api/v1 team/shop"},
		{"https://git.example/team/shop", "", "", nil, ""},
		{"https://git.example/shop", upstream.ForgeGitea, "", nil, ""},
		{"https://git.example/a/b/shop", upstream.ForgeGitHub, "", nil, ""},
		{"https://git.example/a/../shop", upstream.ForgeGitLab, "", nil, ""},
		{"ssh://git@github.com/team/shop", "", "", &upstream.Credential{Method: upstream.MethodSSH}, ""},
		{"git@github.com:team/shop", "", "", &upstream.Credential{Method: upstream.MethodSSH}, ""},
		{"https://github.com/team/shop", "", "", &upstream.Credential{}, ""},
	} {
		def := definition(test.url, test.kind)
		def.Push.APIURL = test.api
		if test.credential != nil {
			def.Credential = *test.credential
		}
		at, err := forge.At(def)
		got := ""
		if err == nil {
			got = string(at.Forge) + " " + at.API.String() + " " + at.Project
		}
		if got != test.want {
			t.Errorf("%s: got %q (%v), want %q", test.url, got, err, test.want)
		}
	}
}
