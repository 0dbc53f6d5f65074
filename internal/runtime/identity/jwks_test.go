// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/rpctest"
)

// hub publishes a key set that tests change, and counts the requests.
type hub struct {
	mu     sync.Mutex
	asked  int
	status int
	body   []byte
	delay  time.Duration
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked++
	status, body, delay := h.status, h.body, h.delay
	h.mu.Unlock()
	ctx, cancel := context.WithDeadline(r.Context(), time.Now().Add(delay))
	defer cancel()
	<-ctx.Done()
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (h *hub) set(status int, body []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.body = status, body
}

func (h *hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// fixture is a verifier for a hub, in virtual time.
type fixture struct {
	*testing.T
	hub    *hub
	issuer *identity.Issuer
	jwks   *identity.JWKS
	log    *bytes.Buffer
}

func inBubble(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, hub: new(hub), issuer: identity.NewIssuer(privateKey(1)), log: new(bytes.Buffer)}
		f.publish(f.issuer)
		server := rpctest.Start(f.hub)
		f.jwks = identity.NewJWKS(identity.JWKSParams{
			Audience: identity.ServiceTunnel,
			URL:      rpctest.BaseURL + "/.well-known/jwks.json", HTTPClient: server.Client(),
			Logger: slog.New(slog.NewTextHandler(f.log, nil)),
		})
		test(f)
		if err := server.Close(); err != nil {
			t.Errorf("close hub: %v", err)
		}
	})
}

func (f *fixture) publish(issuer *identity.Issuer) {
	f.Helper()
	content, err := issuer.JWKS()
	if err != nil {
		f.Fatalf("JWKS: %v", err)
	}
	f.hub.set(http.StatusOK, content)
}

func (f *fixture) token(issuer *identity.Issuer) string {
	f.Helper()
	token, _, err := issuer.Issue(user(), identity.ServiceTunnel, 24*time.Hour)
	if err != nil {
		f.Fatalf("issue: %v", err)
	}
	return token
}

// verify checks the result, and the number of requests to the hub since the test began.
func (f *fixture) verify(when, token string, want error, asked int) {
	f.Helper()
	_, err := f.jwks.Verify(f.Context(), token)
	if !errors.Is(err, want) {
		f.Errorf("%s: got %v, want %v", when, err, want)
	}
	synctest.Wait() // for a refresh in the background
	if got := f.hub.count(); got != asked {
		f.Errorf("%s: the hub was asked %d times, want %d", when, got, asked)
	}
}

func TestJWKSAsksOnceForEverybody(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *fixture) {
		f.hub.delay = time.Second
		token := f.token(f.issuer)
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				if id, err := f.jwks.Verify(f.Context(), token); err != nil || id.Subject() != "user:ada" {
					f.Errorf("got %v, %v, want the user", id, err)
				}
			})
		}
		group.Wait()
		f.verify("later", token, nil, 1)
	})
}

func TestJWKSGoesOnWhileTheHubIsDown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *fixture) {
		token := f.token(f.issuer)
		f.verify("up", token, nil, 1)
		f.hub.set(http.StatusBadGateway, nil)
		for range 3 {
			<-time.After(7 * time.Minute)
			if _, err := f.jwks.Verify(f.Context(), token); err != nil {
				f.Errorf("down: got %v, want the known key used", err)
			}
			synctest.Wait()
		}
		if got := f.hub.count(); got != 4 {
			f.Errorf("the hub was asked %d times, want once for each stale use", got)
		}
		if warned := strings.Count(f.log.String(), "key set unreachable"); warned != 1 {
			f.Errorf("got %d warnings, want one for the whole outage: %s", warned, f.log)
		}
		f.publish(f.issuer)
		<-time.After(7 * time.Minute)
		f.verify("up again", token, nil, 5)
		if !strings.Contains(f.log.String(), "key set reachable again") {
			f.Errorf("got log %s, want the end of the outage in it", f.log)
		}
		<-time.After(18 * time.Hour)
		f.verify("long after", token, nil, 6)
	})
}

func TestJWKSWithoutAnyKeyIsUnavailable(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *fixture) {
		token := f.token(f.issuer)
		f.hub.set(http.StatusServiceUnavailable, nil)
		f.verify("down", token, identity.ErrUnavailable, 1)
		f.verify("asked just now", token, identity.ErrUnavailable, 1)
		f.publish(f.issuer)
		f.verify("up, but asked just now", token, identity.ErrUnavailable, 1)
		<-time.After(time.Second)
		f.verify("a second later", token, nil, 2)
	})
}

func TestJWKSFetchesForAnUnknownKeyButNotOften(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *fixture) {
		f.verify("first", f.token(f.issuer), nil, 1)
		rotated := identity.NewIssuer(privateKey(2), publicKey(1))
		f.publish(rotated)
		f.verify("rotated, asked just now", f.token(rotated), identity.ErrTokenInvalid, 1)
		<-time.After(10 * time.Second)
		f.verify("rotated, ten seconds later", f.token(rotated), nil, 2)
		f.verify("the retired key", f.token(f.issuer), nil, 2)
		stranger := f.token(identity.NewIssuer(privateKey(9)))
		for range 5 {
			f.verify("a stranger's key, at once", stranger, identity.ErrTokenInvalid, 2)
		}
		<-time.After(10 * time.Second)
		f.verify("a stranger's key, later", stranger, identity.ErrTokenInvalid, 3)
		f.hub.set(http.StatusBadGateway, nil)
		<-time.After(10 * time.Second)
		f.verify("unknown key while down", stranger, identity.ErrUnavailable, 4)
		f.verify("unknown key while down, at once", stranger, identity.ErrUnavailable, 4)
		f.verify("known key while down", f.token(rotated), nil, 4)
	})
}

func TestJWKSForgetsAWithdrawnKey(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *fixture) {
		token := f.token(f.issuer)
		f.verify("first", token, nil, 1)
		f.publish(identity.NewIssuer(privateKey(2)))
		<-time.After(3 * time.Minute)
		f.verify("not old enough to ask", token, nil, 1)
		<-time.After(4 * time.Minute)
		f.verify("asks in the background", token, nil, 2)
		f.verify("withdrawn", token, identity.ErrTokenInvalid, 2)
	})
}

func TestJWKSOfNoUseIsAnOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *fixture) {
		token, asked := f.token(f.issuer), 0
		for name, body := range map[string]string{
			"not JSON":      "<html>",
			"no key":        `{"keys":[]}`,
			"a symmetric":   `{"keys":[{"kty":"oct","kid":"x","k":"AAAA"}]}`,
			"no key id":     `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
			"for something": `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"x","use":"enc","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
			"too large":     strings.Repeat(" ", 1<<20) + "{}",
		} {
			f.hub.set(http.StatusOK, []byte(body))
			asked++
			f.verify(name, token, identity.ErrUnavailable, asked)
			<-time.After(time.Second)
		}
	})
}

func TestJWKSFetchOutlivesTheCallerWhoAsked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *fixture) {
		f.hub.delay = 2 * time.Second
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		token := f.token(f.issuer)
		_, err := f.jwks.Verify(ctx, token)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, identity.ErrTokenInvalid) {
			f.Errorf("got %v, want the caller's own deadline", err)
		}
		<-time.After(2 * time.Second)
		f.verify("after the fetch went on alone", token, nil, 1)
	})
}

func TestJWKSGivesUpOnASlowHub(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *fixture) {
		f.hub.delay = time.Hour
		f.verify("slow", f.token(f.issuer), identity.ErrUnavailable, 1)
	})
}

func TestJWKSRemembersNoVerdict(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *fixture) {
		token, _, err := f.issuer.Issue(user(), identity.ServiceTunnel, time.Minute)
		if err != nil {
			f.Fatalf("issue: %v", err)
		}
		f.verify("fresh", token, nil, 1)
		<-time.After(2 * time.Minute)
		f.verify("ended", token, identity.ErrTokenInvalid, 1)
	})
}

func TestJWKSRefusesOtherTokensWithoutAsking(t *testing.T) {
	t.Parallel()
	inBubble(t, func(f *fixture) {
		service, err := serviceKey(f.T, sharedSecret, "gitcache").For(identity.ServiceTunnel).Token(f.Context())
		if err != nil {
			f.Fatalf("token: %v", err)
		}
		f.verify("a service token", service, identity.ErrTokenInvalid, 0)
		f.verify("an API token", "leat_abc", identity.ErrTokenInvalid, 0)
	})
}

func TestJWKSBadURLIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"://", "http://127.0.0.1:1/"} {
		jwks := identity.NewJWKS(identity.JWKSParams{Audience: identity.ServiceTunnel, URL: url, HTTPClient: new(http.Client), Logger: slog.New(slog.DiscardHandler)})
		token, _, err := identity.NewIssuer(privateKey(1)).Issue(user(), identity.ServiceTunnel, time.Hour)
		if err != nil {
			t.Fatalf("issue: %v", err)
		}
		if _, err := jwks.Verify(t.Context(), token); !errors.Is(err, identity.ErrUnavailable) {
			t.Errorf("%s: got %v, want %v", url, err, identity.ErrUnavailable)
		}
	}
}
