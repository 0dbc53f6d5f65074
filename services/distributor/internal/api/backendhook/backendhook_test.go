// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package backendhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/api/backendhook"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const proof = "secret-of-the-webhooks"

// backends are vault, which takes webhooks, and closed, which does not.
type backends struct {
	mu      sync.Mutex
	asked   int
	hastens []string
	err     error
}

// Hook implements backendhook.Backends.
func (b *backends) Hook(_ context.Context, name string) (string, secret.Text, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	switch name {
	case "vault":
		return "uid-vault", proof, nil
	case "closed":
		return "uid-closed", "", nil
	case "away":
		return "", "", catalog.ErrUnavailable
	}
	return "", "", nil
}

// Hasten implements backendhook.Backends.
func (b *backends) Hasten(_ context.Context, uid, path string, _ time.Time) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	b.hastens = append(b.hastens, uid+" "+path)
	return 3, nil
}

func (b *backends) taken() (asked int, hastens []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked, hastens = b.asked, b.hastens
	b.asked, b.hastens = 0, nil
	return asked, hastens
}

func newHandler(t *testing.T) (*backends, http.Handler) {
	t.Helper()
	b := &backends{}
	h, err := backendhook.New(backendhook.Params{Backends: b, Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(backendhook.Pattern, h)
	return b, mux
}

// delivery is a request. Its headers come in pairs.
func delivery(t *testing.T, name, body string, headers ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/config/"+name, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// signed is a delivery signed at a time.
func signed(t *testing.T, name, body, key string, at time.Time) *http.Request {
	t.Helper()
	stamp := strconv.FormatInt(at.Unix(), 10)
	sum := hmac.New(sha256.New, []byte(key))
	_, _ = sum.Write([]byte(stamp + "." + body))
	return delivery(t, name, body, "X-Leat-Timestamp", stamp, "X-Leat-Signature-256", "sha256="+hex.EncodeToString(sum.Sum(nil)))
}

func answered(h http.Handler, r *http.Request) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestDeliveries sends what counts, in both forms of the proof.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	b, h := newHandler(t)
	for _, test := range []struct {
		name, body, want string
		code             int
	}{
		{"all", "", "uid-vault ", http.StatusAccepted},
		{"none named", "{}", "uid-vault ", http.StatusAccepted},
		{"one path", `{"path": "shop/db"}`, "uid-vault shop/db", http.StatusAccepted},
		{"another field", `{"key": "shop/db"}`, "", http.StatusBadRequest},
		{"no object", `shop/db`, "", http.StatusBadRequest},
		{"two objects", `{"path": "a"} {"path": "b"}`, "", http.StatusBadRequest},
	} {
		for form, r := range map[string]*http.Request{
			"token":     delivery(t, "vault", test.body, "Authorization", "Bearer "+proof),
			"signature": signed(t, "vault", test.body, proof, time.Now()),
		} {
			code, text := answered(h, r)
			_, hastens := b.taken()
			if got := strings.Join(hastens, "|"); code != test.code || got != test.want || code == http.StatusAccepted && text != "{\"entries\":3}\n" {
				t.Errorf("%s by %s: got %d %s and %q, want %d and %q", test.name, form, code, text, got, test.code, test.want)
			}
		}
	}
}

// TestSecHookWithoutProof answers alike whether the back end is known, takes webhooks, or neither.
func TestSecHookWithoutProof(t *testing.T) {
	t.Parallel()
	b, h := newHandler(t)
	now, answers := time.Now(), map[string]bool{}
	for _, name := range []string{"vault", "closed", "unknown"} {
		for form, r := range map[string]*http.Request{
			"nothing":             delivery(t, name, ""),
			"another token":       delivery(t, name, "", "Authorization", "Bearer "+proof+"x"),
			"an empty token":      delivery(t, name, "", "Authorization", "Bearer "),
			"no secret":           delivery(t, name, "", "Authorization", "Bearer stands for the secret of a back end that is not there"),
			"another key":         signed(t, name, "", proof+"x", now),
			"an empty key":        signed(t, name, "", "", now),
			"an old signature":    signed(t, name, "", proof, now.Add(-6*time.Minute)),
			"a future signature":  signed(t, name, "", proof, now.Add(6*time.Minute)),
			"no time":             delivery(t, name, "", "X-Leat-Signature-256", "sha256="+strings.Repeat("0", 64)),
			"a short signature":   delivery(t, name, "", "X-Leat-Timestamp", strconv.FormatInt(now.Unix(), 10), "X-Leat-Signature-256", "sha256="),
			"a moved body":        moved(signed(t, name, "{}", proof, now), `{"path": "x"}`),
			"basic authorization": delivery(t, name, "", "Authorization", "Basic "+proof),
		} {
			code, text := answered(h, r)
			answers[text] = true
			if code != http.StatusUnauthorized {
				t.Errorf("%s, %s: got %d", name, form, code)
			}
		}
	}
	if _, hastens := b.taken(); len(hastens) != 0 || len(answers) != 1 {
		t.Errorf("got %d answers and %v, want one answer and nothing done", len(answers), hastens)
	}
}

func moved(r *http.Request, body string) *http.Request {
	other := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.Path, strings.NewReader(body))
	other.Header = r.Header
	return other
}

// TestSecHookIsReplaySafe sends a signed delivery again, at once and until it is not valid any more.
func TestSecHookIsReplaySafe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, h := newHandler(t)
		at := time.Now()
		for i, want := range []int{http.StatusAccepted, http.StatusAccepted, http.StatusAccepted, http.StatusUnauthorized} {
			code, _ := answered(h, signed(t, "vault", "", proof, at))
			_, hastens := b.taken()
			if code != want || len(hastens) != 0 && i > 0 || i == 0 && len(hastens) != 1 {
				t.Errorf("delivery %d: got %d and %v", i, code, hastens)
			}
			time.Sleep(2 * time.Minute)
		}
		// One that could not be carried out may be sent again.
		again := time.Now()
		b.err = catalog.ErrUnavailable
		if code, _ := answered(h, signed(t, "vault", "", proof, again)); code != http.StatusServiceUnavailable {
			t.Errorf("got %d while the store is away", code)
		}
		b.err = nil
		if code, _ := answered(h, signed(t, "vault", "", proof, again)); code != http.StatusAccepted {
			t.Errorf("got %d for a delivery that is sent again", code)
		}
		if _, hastens := b.taken(); len(hastens) != 1 {
			t.Errorf("got %v, want one", hastens)
		}
		if code, _ := answered(h, signed(t, "away", "", proof, again)); code != http.StatusServiceUnavailable {
			t.Errorf("got %d while the store is away", code)
		}
	})
}

// TestSecHookIsBounded sends much: from one address, from many, about one back end, and in one body.
func TestSecHookIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, h := newHandler(t)
		send := func(n int, from func(int) string, r func() *http.Request) map[int]int {
			codes := map[int]int{}
			for i := range n {
				r := r()
				r.RemoteAddr = from(i)
				code, _ := answered(h, r)
				codes[code]++
			}
			return codes
		}
		guess := func() *http.Request { return delivery(t, "vault", "", "Authorization", "Bearer guess") }
		one := func(int) string { return "192.0.2.1:4711" }
		if codes := send(1000, one, guess); codes[http.StatusUnauthorized] != 100 || codes[http.StatusTooManyRequests] != 900 {
			t.Errorf("one address: got %v, want 100 to be judged", codes)
		}
		if asked, _ := b.taken(); asked != 100 {
			t.Errorf("one address: the store was asked %d times", asked)
		}
		many := func(i int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:4711", i) }
		if codes := send(1000, many, guess); codes[http.StatusUnauthorized] != 100 {
			t.Errorf("many addresses: got %v, want 100 more to be judged", codes)
		}
		time.Sleep(time.Minute)
		b.taken()
		proven := func() *http.Request { return delivery(t, "vault", "", "Authorization", "Bearer "+proof) }
		if codes := send(90, one, proven); codes[http.StatusAccepted] != 60 || codes[http.StatusTooManyRequests] != 30 {
			t.Errorf("one back end: got %v, want 60 to be carried out", codes)
		}
		time.Sleep(time.Minute)
		b.taken()
		large := func() *http.Request {
			return delivery(t, "vault", strings.Repeat("x", 1<<20), "Authorization", "Bearer "+proof)
		}
		codes := send(1, one, large)
		if asked, _ := b.taken(); codes[http.StatusAccepted] != 0 || codes[http.StatusUnauthorized] != 0 || asked != 0 {
			t.Errorf("a large body: got %v, and the store was asked %d times", codes, asked)
		}
	})
}

// TestExampleOfTheDocumentation runs the commands of the page with curl and openssl.
func TestExampleOfTheDocumentation(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"sh", "curl", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is not installed: run `make system`", program)
		}
	}
	page, err := os.ReadFile("../../../../../docs/guides/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "## Webhooks\n")
	b, h := newHandler(t)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	ran := 0
	for ran = 0; ; ran++ {
		_, after, ok := strings.Cut(rest, "```sh\n")
		if !ok {
			break
		}
		script, after, _ := strings.Cut(after, "```")
		rest = after
		script = strings.NewReplacer("https://leat.example.com", server.URL, "vault-prod", "vault").Replace(script)
		command := exec.CommandContext(t.Context(), "sh", "-euc", script)
		command.Env = append(os.Environ(), "SECRET="+proof)
		output, err := command.CombinedOutput()
		if _, hastens := b.taken(); err != nil || !strings.Contains(string(output), `{"entries":3}`) || len(hastens) != 1 || hastens[0] != "uid-vault shop/db" {
			t.Errorf("got %v, %v and %s of %s", hastens, err, output, script)
		}
	}
	if ran != 2 {
		t.Errorf("ran %d examples, want two", ran)
	}
}
