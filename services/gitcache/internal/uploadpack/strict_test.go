// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package uploadpack_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// strictFront is a proxy before a real server and lets only those requests for packs through that
// judge finds nothing wrong with. It sees the request's body.
func strictFront(t *testing.T, repo *gittest.Repo, judge func(body string) (fault string)) string {
	t.Helper()
	path := pathOf(t, repo.URL())
	server := front(t, strings.TrimSuffix(repo.URL(), path), func(w http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Git-Protocol") // such servers know the first version only
		if r.Method != http.MethodPost {
			return false
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		fault := judge(string(body))
		if fault == "" {
			return false
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = fmt.Fprintf(w, "%04xERR %s\n", len(fault)+9, fault)
		return true
	})
	server.Start()
	t.Cleanup(server.Close)
	return server.URL + path
}

// followHistory makes every kind of change, and wants the mirror to follow.
func followHistory(t *testing.T, f *fixture, repo *gittest.Repo) {
	t.Helper()
	first := repo.Commit(t, "main", map[string]string{"a": "1"})
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": first})
	for i := range 3 {
		next := repo.Commit(t, "main", map[string]string{"a": fmt.Sprint("next", i)})
		f.fetch(t)
		f.wantRefs(t, map[string]string{"heads/main": next})
	}
	orphan := repo.Commit(t, "orphan", map[string]string{"b": "1"})
	rewritten := repo.ForcePush(t, "main", map[string]gittest.File{"c": gittest.Text("1")})
	f.fetch(t)
	f.wantRefs(t, map[string]string{"heads/main": rewritten, "heads/orphan": orphan})
	fsck(t, f)
}

// TestStrictMultiAck is a server that refuses clients without multi_ack, as Azure DevOps does.
func TestStrictMultiAck(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	var judged atomic.Int64
	f := newFixture(t, strictFront(t, repo, func(body string) string {
		judged.Add(1)
		first, _, _ := strings.Cut(body, "\n")
		if !strings.Contains(first, " multi_ack_detailed") && !strings.Contains(first, " multi_ack ") {
			return "multi_ack is required"
		}
		return ""
	}))
	followHistory(t, f, repo)
	if judged.Load() == 0 {
		t.Error("the strict server was passed by")
	}
}

// TestStrictRounds is a server that wants to hear haves before it is told that there are no more.
func TestStrictRounds(t *testing.T) {
	t.Parallel()
	repo := gittest.New(t).Repo(t, "demo")
	var rounds, packs atomic.Int64
	acknowledged := false // the server's requests come one after the other
	f := newFixture(t, strictFront(t, repo, func(body string) string {
		haves, done := strings.Contains(body, "have "), strings.HasSuffix(body, "0009done\n")
		switch {
		case !haves && done: // a clone, or nothing in common
			packs.Add(1)
		case haves && !done:
			rounds.Add(1)
			acknowledged = true
		case haves && done && !acknowledged:
			return "negotiate first"
		default:
			packs.Add(1)
			acknowledged = false
		}
		return ""
	}))
	followHistory(t, f, repo)
	if rounds.Load() == 0 || packs.Load() == 0 {
		t.Errorf("got %d rounds and %d packs, want both", rounds.Load(), packs.Load())
	}
}

// TestOldServers is servers without some of the capabilities of today.
func TestOldServers(t *testing.T) {
	t.Parallel()
	for _, without := range [][]string{
		{" no-done"},
		{" multi_ack_detailed"},
		{" multi_ack_detailed", " multi_ack"},
		{" side-band-64k"},
		{" side-band-64k", " side-band"},
		{" no-done", " multi_ack_detailed", " multi_ack", " side-band-64k", " side-band", " ofs-delta"},
	} {
		t.Run(strings.Join(without, ""), func(t *testing.T) {
			t.Parallel()
			repo := gittest.New(t).Repo(t, "demo")
			path := pathOf(t, repo.URL())
			server := front(t, strings.TrimSuffix(repo.URL(), path), func(w http.ResponseWriter, r *http.Request) bool {
				return r.Method == http.MethodGet && hideCapabilities(t, w, repo, without)
			})
			server.Start()
			t.Cleanup(server.Close)
			followHistory(t, newFixture(t, server.URL+path), repo)
		})
	}
}

// hideCapabilities answers with the real server's advertisement, in which capabilities read "x-…".
func hideCapabilities(t *testing.T, w http.ResponseWriter, repo *gittest.Repo, hide []string) bool {
	resp, err := http.Get(repo.URL() + "/info/refs?service=git-upload-pack")
	if err != nil {
		t.Error(err)
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	text := string(body)
	for _, name := range hide { // as long as before, or the length of the line would be wrong
		text = strings.Replace(text, name+" ", " "+strings.Repeat("x", len(name)-1)+" ", 1)
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	_, _ = io.WriteString(w, text)
	return true
}

func TestAnswersThatAreNotGit(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	repo.Commit(t, "main", map[string]string{"a": "1"})
	for name, test := range map[string]struct {
		kind, body, want string
	}{
		"login": {"text/html; charset=utf-8", "<!doctype html><title>Sign in</title>", "web page"},
		"dumb":  {"text/plain", strings.Repeat("a", 40) + "\trefs/heads/main\n", "dumb HTTP"},
		"other": {"application/json", "{}", `"application/json"`},
	} {
		server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", test.kind)
			_, _ = io.WriteString(w, test.body)
			return true
		})
		err := wantReason(t, newFixture(t, repo.URL()).try(t.Context()), reason.UpstreamProtocol)
		if !strings.Contains(err.Message, test.want) {
			t.Errorf("%s: got %q, want it to say %q", name, err.Message, test.want)
		}
	}
}

// TestUpstreamsOwnWords wants messages to repeat what the upstream sent: bounded, on one line, and
// without credentials.
func TestUpstreamsOwnWords(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	commit := repo.Commit(t, "main", map[string]string{"a": "1"})
	advertise := func(line string) string {
		return fmt.Sprintf("001e# service=git-upload-pack\n0000%04x%s0000", len(line)+4, line)
	}
	const plain, git = "text/plain; charset=utf-8", "application/x-git-upload-pack-advertisement"
	for name, test := range map[string]struct {
		status     int
		kind, body string
		reason     reason.Reason
		want, not  []string
	}{
		"gone for good": {
			http.StatusNotFound, plain, "project moved to\x1b[31m\r\nnew/place\n", reason.RepositoryNotFound, []string{"check the URL", "project moved to [31m new/place"}, []string{"\x1b", "\n"},
		},
		"own credential":     {http.StatusForbidden, plain, "leat:sesame may not", reason.UpstreamAuthRejected, []string{"leat:*** may not"}, []string{"sesame"}},
		"credential in URL":  {http.StatusBadRequest, plain, "see https://u:hunter2@git.example/x", reason.UpstreamProtocol, []string{"https://***@git.example/x"}, []string{"hunter2"}},
		"a person's words":   {http.StatusForbidden, plain, "HTTP Basic: Access denied. The password or token is wrong", reason.UpstreamAuthRejected, []string{"HTTP Basic: Access denied. The password or token is wrong"}, nil},
		"assigned":           {http.StatusForbidden, plain, `see ?token=hunter2&x=1 or {"password": "hunter3"}`, reason.UpstreamAuthRejected, []string{"?token=***&x=1"}, []string{"hunter2", "hunter3"}},
		"named credential":   {http.StatusForbidden, plain, "bad header Authorization: Basic bGVhdA==", reason.UpstreamAuthRejected, []string{"bad header"}, []string{"bGVhdA"}},
		"token":              {http.StatusForbidden, plain, "ghp_0123456789abcdefghij is revoked at " + commit, reason.UpstreamAuthRejected, []string{"*** is revoked at " + commit}, []string{"ghp_"}},
		"endless":            {http.StatusForbidden, plain, strings.Repeat("word ", 10000), reason.UpstreamAuthRejected, []string{"word word"}, []string{strings.Repeat("word ", 100)}},
		"page":               {http.StatusForbidden, "text/html", "<html>no</html>", reason.UpstreamAuthRejected, nil, []string{"html"}},
		"error line":         {http.StatusOK, git, advertise("ERR quota of acme is used up\n"), reason.UpstreamProtocol, []string{"refused to serve", "quota of acme is used up"}, nil},
		"error line of auth": {http.StatusOK, git, advertise("ERR access denied: ask ada\n"), reason.UpstreamAuthRejected, []string{"access denied: ask ada"}, nil},
	} {
		server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", test.kind)
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
			return true
		})
		f := newFixture(t, repo.URL())
		f.def.Credential = upstream.Credential{Method: upstream.MethodBasic, Username: "leat", Password: "sesame", AllowPlainHTTP: true}
		err := wantReason(t, f.try(t.Context()), test.reason)
		for _, want := range test.want {
			if !strings.Contains(err.Message, want) {
				t.Errorf("%s: got %q, want it to say %q", name, err.Message, want)
			}
		}
		for _, not := range test.not {
			if strings.Contains(err.Message, not) {
				t.Errorf("%s: got %q, want it not to say %q", name, err.Message, not)
			}
		}
	}
}

// TestUnreachableUpstreams expects messages that name the host and the way in which it cannot be
// reached. Resolvers do not ask DNS for names below onion (RFC 7686).
func TestUnreachableUpstreams(t *testing.T) {
	t.Parallel()
	closed := loopback.Addr(t)
	for address, want := range map[string][]string{
		"http://" + closed + "/x.git":       {closed + " refuses the connection"},
		"http://nowhere.onion:8080/x.git":   {"host nowhere.onion", "DNS"},
		"https://nowhere.onion/demo/x.git/": {"host nowhere.onion", "DNS"},
	} {
		f := newFixture(t, address)
		err := wantReason(t, f.try(t.Context()), reason.UpstreamUnreachable)
		for _, part := range want {
			if !strings.Contains(err.Message, part) {
				t.Errorf("%s: got %q, want it to say %q", address, err.Message, part)
			}
		}
	}
}

// TestSHA256 asks a real repository with SHA-256 object names. An empty one tells nothing of them,
// and is mirrored as empty.
func TestSHA256(t *testing.T) {
	t.Parallel()
	server := gittest.New(t)
	repo := server.Repo(t, "demo")
	if err := exec.CommandContext(t.Context(), "rm", "-rf", repo.Dir()).Run(); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + t.TempDir()}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "--quiet", "--bare", "--object-format=sha256", "--initial-branch=main", repo.Dir())
	work := filepath.Join(t.TempDir(), "work")
	git("init", "--quiet", "--object-format=sha256", work)
	git("-C", work, "-c", "user.name=a", "-c", "user.email=a@leat.invalid", "commit", "--quiet", "--allow-empty", "-m", "x")
	git("-C", work, "push", "--quiet", repo.Dir(), "HEAD:refs/heads/main")
	for _, def := range []mirror.Definition{{Name: "demo", UID: "uid-1", Definition: upstream.Definition{URL: repo.URL()}}, sshDefinition(server, repo)} {
		f := newFixture(t, "")
		f.def = def
		err := wantReason(t, f.try(t.Context()), reason.UpstreamProtocol)
		if !strings.Contains(err.Message, "SHA-256") || !strings.Contains(err.Message, "cannot mirror") {
			t.Errorf("got %q, want it to speak of SHA-256", err.Message)
		}
	}
}

// TestRefusalQuietsTheHost lets one repository's 429 speak for all of its host, and for no other
// host.
func TestRefusalQuietsTheHost(t *testing.T) {
	t.Parallel()
	server, other := gittest.New(t), gittest.New(t)
	repo, sibling, elsewhere := server.Repo(t, "demo"), server.Repo(t, "sibling"), other.Repo(t, "demo")
	for _, r := range []*gittest.Repo{repo, sibling, elsewhere} {
		r.Commit(t, "main", map[string]string{"a": "1"})
	}
	var asked atomic.Int64
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		asked.Add(1)
		w.Header().Set("Retry-After", "1800")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	f := newFixture(t, repo.URL())
	if err := wantReason(t, f.try(t.Context()), reason.UpstreamRateLimited); err.RetryAfter != 30*time.Minute {
		t.Errorf("got retry after %s, want 30m", err.RetryAfter)
	}
	f.def = mirror.Definition{Name: "sibling", UID: "uid-2", Definition: upstream.Definition{URL: sibling.URL()}}
	_, err := f.Enter(t.Context(), f.def)
	quiet, ok := errors.AsType[*mirror.QuietError](err)
	if !ok || time.Until(quiet.Until) < 29*time.Minute {
		t.Errorf("got %v for its sibling, want quiet for half an hour", err)
	}
	if _, ok := errors.AsType[*mirror.QuietError](f.try(t.Context())); !ok || asked.Load() != 1 {
		t.Errorf("got %d requests, want the sibling to send none", asked.Load())
	}
	f.def = mirror.Definition{Name: "elsewhere", UID: "uid-3", Definition: upstream.Definition{URL: elsewhere.URL()}}
	leave, err := f.Enter(t.Context(), f.def)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	f.fetch(t)
}
