// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rpctest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/testkit/rpctest"
)

// echo answers with the protocol and the body, and flushes as streams do.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = io.WriteString(w, r.Proto+" ")
	_ = http.NewResponseController(w).Flush()
	_, _ = w.Write(body)
}

func post(t *testing.T, client *http.Client, url, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	return string(answer)
}

func TestServeSpeaksHTTP2(t *testing.T) {
	t.Parallel()
	url, client := rpctest.Serve(t, http.HandlerFunc(echo))
	body := strings.Repeat("x", 1<<20) // more than one flow-control window
	if got, want := post(t, client, url, body), "HTTP/2.0 "+body; got != want {
		t.Errorf("got %d bytes beginning %.20q, want %d beginning %.20q", len(got), got, len(want), want)
	}
}

func TestTimeIsVirtualInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rpctest.Start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
			}
			echo(w, r)
		}))
		began := time.Now()
		if got, want := post(t, server.Client(), rpctest.BaseURL, "hi"), "HTTP/2.0 hi"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if took := time.Since(began); took != time.Hour {
			t.Errorf("got an answer after %s, want an hour of virtual time", took)
		}
		if err := server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func TestClosedServerRefuses(t *testing.T) {
	t.Parallel()
	server := rpctest.Start(http.HandlerFunc(echo))
	if err := server.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rpctest.BaseURL, nil)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	response, err := server.Client().Do(request)
	if err == nil {
		_ = response.Body.Close()
		t.Error("got an answer of a closed server, want an error")
	}
}
