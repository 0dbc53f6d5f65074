// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package receivepack_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/receivepack"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

const (
	branch = "refs/heads/main"
	secret = "canary-0815"
)

var before, after = strings.Repeat("a", 40), strings.Repeat("b", 40)

func line(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// advertised is what a server lists: its branch, other things, and its capabilities.
func advertised(capabilities string) string {
	return line("# service=git-receive-pack\n") + "0000" + line(strings.Repeat("c", 40)+" .have\x00"+capabilities+"\n") +
		line(before+" "+branch+"\n") + line("shallow "+after+"\n") + "0000"
}

func band(channel byte, text string) string { return line(string(channel) + text) }

// report is a report in a sideband.
func report(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(line(l + "\n"))
	}
	return band(1, b.String()+"0000") + "0000"
}

// server answers with given texts, and remembers what it received.
type server struct {
	*httptest.Server
	listed, answer string
	status         int
	hang           chan struct{} // not nil: the push is not answered before it is closed

	mu       *sync.Mutex
	received []string
}

// requests returns the requests so far.
func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.received)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.received = append(s.received, r.Method+" "+string(body))
	s.mu.Unlock()
	kind, text := "advertisement", s.listed
	if r.Method == http.MethodPost {
		kind, text = "result", s.answer
		if s.hang != nil {
			<-s.hang
		}
	}
	w.Header().Set("Content-Type", "application/x-git-receive-pack-"+kind)
	if s.status != 0 {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(s.status)
	}
	_, _ = io.WriteString(w, text)
}

// push pushes to a server, whose words and reason the error has.
func push(t *testing.T, s *server, guard func() error) error {
	t.Helper()
	if s.mu == nil {
		s.mu = new(sync.Mutex)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return pushTo(t.Context(), t, s.URL, guard, &receivepack.Update{New: after, Pack: []byte("PACK")})
}

func pushTo(ctx context.Context, t *testing.T, url string, guard func() error, update *receivepack.Update) error {
	t.Helper()
	client := uploadpack.New(uploadpack.Config{Dir: t.TempDir(), Guard: dialguard.Guard{AllowLocal: true}})
	def := mirror.Definition{Name: "demo", UID: "uid", Definition: upstream.Definition{URL: url + "/demo.git", Credential: upstream.Credential{
		Method: upstream.MethodBasic, Username: "leat", Password: secret, AllowPlainHTTP: true,
	}}}
	if guard == nil {
		guard = func() error { return nil }
	}
	return receivepack.Push(ctx, client, mirror.FetchParams{Definition: def, Guard: guard}, branch, nil,
		func(refs map[string]string) (*receivepack.Update, error) {
			if refs[branch] != before {
				return nil, receivepack.Outdated(branch, nil)
			}
			return update, nil
		})
}

// TestWhatIsSent pushes to a server that takes it.
func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	s := &server{listed: advertised("report-status side-band-64k"), answer: band(2, "hello\n") + report("unpack ok", "ok "+branch)}
	if err := push(t, s, nil); err != nil {
		t.Fatal(err)
	}
	want := "POST " + line(before+" "+after+" "+branch+"\x00 report-status side-band-64k agent=git/2.0-(leat)") + "0000PACK"
	if got := s.requests(); len(got) != 2 || got[1] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	plain := &server{listed: advertised("report-status"), answer: line("unpack ok\n") + line("ok "+branch+"\n") + "0000"}
	if err := push(t, plain, nil); err != nil {
		t.Errorf("got %v without a sideband", err)
	}
}

// TestSecServersThatLie pushes to servers that claim success for something else, break off, break
// the protocol or never come to an end.
func TestSecServersThatLie(t *testing.T) {
	t.Parallel()
	const full = "report-status side-band-64k"
	for name, test := range map[string]struct {
		server server
		want   reason.Reason
		words  string
	}{
		"another branch":        {server{answer: report("unpack ok", "ok refs/heads/other")}, reason.UpstreamProtocol, ""},
		"no branch":             {server{answer: report("unpack ok")}, reason.UpstreamProtocol, ""},
		"ok without unpacking":  {server{answer: report("ok " + branch)}, reason.UpstreamProtocol, ""},
		"ok after a failure":    {server{answer: report("unpack disk quota", "ok "+branch)}, reason.PushRefused, "disk quota"},
		"refused, then ok":      {server{answer: report("unpack ok", "ng "+branch+" hook declined", "ok "+branch)}, reason.PushRefused, "hook declined"},
		"nothing":               {server{answer: ""}, reason.UpstreamProtocol, ""},
		"an empty report":       {server{answer: report()}, reason.UpstreamProtocol, ""},
		"a report that ends":    {server{answer: band(1, line("unpack ok\n"))}, reason.UpstreamProtocol, ""},
		"a web page":            {server{answer: "<html>"}, reason.UpstreamProtocol, ""},
		"an error":              {server{answer: band(3, "fatal: no space, password="+secret+"\n")}, reason.UpstreamProtocol, "no space"},
		"a refusal with words":  {server{answer: band(2, "remote: GH006: Protected branch, "+secret+"\n") + report("unpack ok", "ng "+branch+" declined")}, reason.PushRefused, "GH006"},
		"endless words":         {server{answer: strings.Repeat(band(2, strings.Repeat("w", 60000)), 40)}, reason.UpstreamProtocol, ""},
		"endless lines":         {server{answer: strings.Repeat(band(1, strings.Repeat(line("ok refs/heads/x\n"), 3000)), 30)}, reason.UpstreamProtocol, ""},
		"no report":             {server{listed: advertised("side-band-64k")}, reason.UpstreamProtocol, ""},
		"another hash":          {server{listed: advertised(full + " object-format=sha256")}, reason.UpstreamProtocol, ""},
		"a list that ends":      {server{listed: line("# service=git-receive-pack\n") + "0000" + line(before+" "+branch)}, reason.UpstreamProtocol, ""},
		"a list of nonsense":    {server{listed: line("nonsense") + "0000"}, reason.UpstreamProtocol, ""},
		"a length of nonsense":  {server{listed: "zzzz"}, reason.UpstreamProtocol, ""},
		"a branch that moved":   {server{listed: strings.ReplaceAll(advertised(full), before, after)}, reason.PushOutdated, ""},
		"no right to write":     {server{status: http.StatusForbidden, listed: "Write access to repository not granted."}, reason.PushRefused, "not granted"},
		"a repository it hides": {server{status: http.StatusNotFound}, reason.PushRefused, ""},
		"a failure":             {server{status: http.StatusBadGateway}, reason.UpstreamUnreachable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := test.server
			if s.listed == "" && s.status == 0 {
				s.listed = advertised(full)
			}
			err := push(t, &s, nil)
			failed, ok := errors.AsType[*mirror.UpstreamError](err)
			if !ok || failed.Reason != test.want {
				t.Fatalf("got %v, want the reason %s", err, test.want)
			}
			if !strings.Contains(failed.Message, test.words) || strings.Contains(failed.Message, secret) || len(failed.Message) > 600 {
				t.Errorf("got %q, want it to quote %q without the credential", failed.Message, test.words)
			}
		})
	}
}

// TestSecPushesAskTheGuard loses the right to push before anything is sent, and after the refs have
// come.
func TestSecPushesAskTheGuard(t *testing.T) {
	t.Parallel()
	errGone := errors.New("lease lost")
	s := &server{listed: advertised("report-status")}
	if err := push(t, s, func() error { return errGone }); !errors.Is(err, errGone) || len(s.requests()) != 0 {
		t.Errorf("got %v after the requests %q, want nothing sent", err, s.requests())
	}
	late := &server{listed: advertised("report-status"), mu: new(sync.Mutex)}
	err := push(t, late, func() error {
		if len(late.requests()) > 0 {
			return errGone
		}
		return nil
	})
	if !errors.Is(err, errGone) || len(late.requests()) != 1 {
		t.Errorf("got %v after the requests %q, want no push sent", err, late.requests())
	}
}

// TestAServerThatHangs is left when the caller's time is over.
func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	s := &server{listed: advertised("report-status"), hang: make(chan struct{}), mu: new(sync.Mutex)}
	ctx, cancel := context.WithCancel(t.Context())
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			cancel()
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(s.hang) })
	if err := pushTo(ctx, t, s.URL, nil, &receivepack.Update{New: after}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}
