// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package notifysink_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/notify"
	"github.com/leatdev/leat/services/distributor/internal/notify/notifysink"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/notice"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func sinks() *notifysink.Sinks { return sinksWith(notifysink.Pages{}) }

func sinksWith(pages notifysink.Pages) *notifysink.Sinks {
	return notifysink.New(notifysink.Params{Guard: dialguard.Guard{AllowLocal: true}, Source: "/leat", Pages: pages, Now: func() time.Time { return now }})
}

func delivery(sink catalog.Sink, secrets catalog.NotifierSecrets) notify.Delivery {
	return notify.Delivery{
		Notifier: &catalog.Notifier{Spec: catalog.NotifierSpec{Sink: sink}}, Secrets: secrets, Text: "a <text> & more",
		Message: notice.Example(notice.ServiceFailed, "the-id", now),
	}
}

func refused(t *testing.T, err error) *notify.RefusedError {
	t.Helper()
	e, ok := errors.AsType[*notify.RefusedError](err)
	if !ok {
		t.Fatalf("got %v, want a refusal", err)
	}
	return e
}

func TestSlack(t *testing.T) {
	t.Parallel()
	body := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body = string(text)
	}))
	defer server.Close()
	_, err := sinks().Send(t.Context(), delivery(catalog.Sink{Type: catalog.SinkSlack}, catalog.NotifierSecrets{URL: secret.Text(server.URL)}))
	if want := `{"text":"a \u0026lt;text\u0026gt; \u0026amp; more"}`; err != nil || body != want {
		t.Errorf("got %s, %v, want %s", body, err, want)
	}
}

// TestStatuses sets the status of a commit at doubles of the forges.
func TestStatuses(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("ab", 20)
	for provider, want := range map[string]string{
		catalog.ForgeGitHub: "POST /repos/acme/shop/statuses/" + commit + ` Bearer the-token {"context":"leat","description":"2 healthy, 0 failed, 0 in progress","state":"success"}`,
		catalog.ForgeGitea:  "POST /api/v1/repos/acme/shop/statuses/" + commit + ` token the-token {"context":"leat","description":"2 healthy, 0 failed, 0 in progress","state":"success"}`,
		catalog.ForgeGitLab: "POST /api/v4/projects/acme%2Fshop/statuses/" + commit + ` the-token {"description":"2 healthy, 0 failed, 0 in progress","name":"leat","state":"success"}`,
	} {
		got := ""
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = fmt.Sprintf("%s %s %s%s %s", r.Method, r.URL.EscapedPath(), r.Header.Get("Authorization"), r.Header.Get("Private-Token"), body)
		}))
		for _, url := range []string{"https://git.example/acme/shop.git", "git@git.example:acme/shop.git", "ssh://git@git.example:22/acme/shop"} {
			d := delivery(catalog.Sink{Type: catalog.SinkCommitStatus, Commit: &catalog.CommitSink{Provider: provider, URL: server.URL + "/"}}, catalog.NotifierSecrets{Token: "the-token"})
			d.Commit, d.Tally, d.URL = notify.Commit{Repository: "r", ID: commit}, notify.Tally{Healthy: 2}, url
			if _, err := sinks().Send(t.Context(), d); err != nil || got != want {
				t.Errorf("%s of %s: %v\ngot  %s\nwant %s", provider, url, err, got, want)
			}
		}
		server.Close()
	}
}

// TestSecSinksAreBounded: a receiver that redirects, answers without end, repeats secrets or is at
// an address that the hub does not dial gets nothing, and its answer reveals nothing.
func TestSecSinksAreBounded(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	isReached := false
	mux.HandleFunc("/redirect/canary", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/target", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/target", func(http.ResponseWriter, *http.Request) { isReached = true })
	mux.HandleFunc("/endless/canary", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/echo/canary", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "\x1b[31m bad request for "+r.URL.String()+" by the-hmac-key")
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	send := func(s *notifysink.Sinks, url string) (string, error) {
		return s.Send(t.Context(), delivery(catalog.Sink{Type: catalog.SinkWebhook}, catalog.NotifierSecrets{URL: secret.Text(url), HMACKey: "the-hmac-key"}))
	}
	if _, err := send(sinks(), server.URL+"/redirect/canary"); isReached || !refused(t, err).Permanent {
		t.Errorf("a redirect was followed: %t, %v", isReached, err)
	}
	if answer, err := send(sinks(), server.URL+"/endless/canary"); err != nil || len(answer) > 2<<10 {
		t.Errorf("got an answer of %d bytes, %v", len(answer), err)
	}
	_, err := send(sinks(), server.URL+"/echo/canary?token=canary")
	if text := refused(t, err).Error(); strings.Contains(text, "canary") || strings.Contains(text, "the-hmac-key") || strings.Contains(text, "\x1b") {
		t.Errorf("got %q", text)
	}
	if _, err := send(sinks(), "http://127.0.0.1:1/canary"); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("a receiver that is away: got %v", err)
	}
	guarded := notifysink.New(notifysink.Params{})
	if _, err := send(guarded, server.URL+"/target"); isReached || !refused(t, err).Permanent {
		t.Errorf("the hub's own machine was dialled: %t, %v", isReached, err)
	}
}

// TestSecPrivateReceiversShowTheirStatusAlone: people never see the answer of a receiver in a
// private network, nor the words after its status. Of others, people see the beginning.
func TestSecPrivateReceiversShowTheirStatusAlone(t *testing.T) {
	t.Parallel()
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d hunter2-phrase\r\nContent-Length: 12\r\n\r\nhunter2-body", code)
		_ = conn.Close()
	}))
	defer server.Close()
	for _, isPrivate := range []bool{true, false} {
		s := notifysink.New(notifysink.Params{Guard: dialguard.Guard{AllowLocal: true}, IsPrivate: func(netip.Addr) bool { return isPrivate }})
		for _, sink := range []catalog.Sink{
			{Type: catalog.SinkWebhook},
			{Type: catalog.SinkSlack},
			{Type: catalog.SinkCommitStatus, Commit: &catalog.CommitSink{Provider: catalog.ForgeGitHub, URL: server.URL + "/"}},
		} {
			for _, code = range []int{http.StatusOK, http.StatusForbidden, http.StatusTemporaryRedirect} {
				d := delivery(sink, catalog.NotifierSecrets{URL: secret.Text(server.URL), Token: "t"})
				d.Commit, d.Tally, d.URL = notify.Commit{Repository: "r", ID: strings.Repeat("ab", 20)}, notify.Tally{Healthy: 2}, "https://git.example/acme/shop.git"
				answer, err := s.Send(t.Context(), d)
				text := answer + fmt.Sprint(err)
				if strings.Contains(text, "hunter2") == isPrivate || !strings.Contains(text, fmt.Sprint(code)) {
					t.Errorf("%s, private %t: got %q with the code %d", sink.Type, isPrivate, text, code)
				}
			}
		}
	}
}
