// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
)

// signInTimeout is how long a person may take in the browser.
const signInTimeout = 10 * time.Minute

// run signs a person in, and returns the session and its first token.
func (i *signIn) run(ctx context.Context, device bool) (*fleetv1.Session, string, error) {
	ctx, cancel := context.WithTimeout(ctx, signInTimeout)
	defer cancel()
	if i.provider != "" && !slices.ContainsFunc(i.methods.GetMethods(), func(m *fleetv1.SignInMethod) bool { return m.GetName() == i.provider }) {
		return nil, "", failure.New(fmt.Sprintf("the hub has no identity provider %q", i.provider), "It has: "+strings.Join(i.names(), ", ")+".")
	}
	if device || !HasDisplay(i.session.LookupEnv) {
		return i.byDevice(ctx)
	}
	return i.byBrowser(ctx)
}

func (i *signIn) names() []string {
	var names []string
	for _, method := range i.methods.GetMethods() {
		names = append(names, method.GetName())
	}
	return names
}

// byBrowser opens the hub's page, and waits at a loopback address for the code (RFC 8252).
func (i *signIn) byBrowser(ctx context.Context) (*fleetv1.Session, string, error) {
	page, err := i.page(i.methods.GetLoginUrl())
	if err != nil {
		return nil, "", err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", failure.New("cannot listen at 127.0.0.1: "+err.Error(), "Sign in with leat login --device.")
	}
	c := newCallback(*page, listener.Addr().String(), i.provider)
	server := &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer func() { _ = server.Close() }()
	if _, err := fmt.Fprintf(i.session.Err, "Sign in with your browser. If none opens, open this address on this machine:\n\n  %s\n\n", c.url); err != nil {
		return nil, "", err
	}
	OpenBrowser(ctx, i.session.LookupEnv, c.url)
	select {
	case <-ctx.Done():
		return nil, "", failure.New("nobody signed in in time", "Try again, or on a machine without a browser: leat login --device.")
	case code := <-c.code:
		token, hash := client.NewSessionToken()
		res, err := i.hub.CreateSession(ctx, &fleetv1.CreateSessionRequest{
			Proof: &fleetv1.CreateSessionRequest_Code{Code: code}, CodeVerifier: c.verifier, TokenHash: hash,
		})
		return res.GetSession(), token, err
	}
}

// callback receives the code of a sign-in.
type callback struct {
	url, state, verifier string
	code                 chan string // has room for one
}

func newCallback(page url.URL, address, provider string) *callback {
	c := &callback{state: rand.Text(), verifier: rand.Text() + rand.Text(), code: make(chan string, 1)}
	challenge := sha256.Sum256([]byte(c.verifier))
	query := url.Values{
		"redirect_uri": {"http://" + address + "/callback"}, "state": {c.state},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	if provider != "" {
		query.Set("provider", provider)
	}
	page.RawQuery, page.Fragment = query.Encode(), ""
	c.url = page.String()
	return c
}

// ServeHTTP implements http.Handler. Pages of other sites may send anything here, so that only the
// answer with this sign-in's state counts.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if r.URL.Path != "/callback" || r.Method != http.MethodGet || query.Get("state") != c.state || query.Get("code") == "" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("<!doctype html><title>Leat</title><p>This is not an answer that leat login waits for.</p>"))
		return
	}
	_, _ = w.Write([]byte("<!doctype html><title>Leat</title><p>You are signed in. You can close this page and go back to your terminal.</p>"))
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
	select {
	case c.code <- query.Get("code"):
	default: // it came twice
	}
}

// byDevice shows a code, and asks the hub until a person has typed it there.
func (i *signIn) byDevice(ctx context.Context) (*fleetv1.Session, string, error) {
	device, err := i.hub.StartDeviceSignIn(ctx, &fleetv1.StartDeviceSignInRequest{})
	if err != nil {
		return nil, "", err
	}
	page, err := i.page(device.GetVerificationUrl())
	if err != nil {
		return nil, "", err
	}
	if _, err := fmt.Fprintf(i.session.Err, "Open this address in a browser, on any machine, and type the code:\n\n  %s\n  %s\n\n",
		page, device.GetUserCode()); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithDeadline(ctx, device.GetExpireTime().AsTime())
	defer cancel()
	token, hash := client.NewSessionToken()
	for {
		res, err := i.hub.CreateSession(ctx, &fleetv1.CreateSessionRequest{
			Proof: &fleetv1.CreateSessionRequest_DeviceCode{DeviceCode: device.GetDeviceCode()}, TokenHash: hash,
		})
		if err != nil && !isPassing(err) || res.GetSession() != nil {
			return res.GetSession(), token, err
		}
		if backoff.Wait(ctx, max(device.GetInterval().AsDuration(), 100*time.Millisecond)) != nil {
			return nil, "", failure.New("nobody typed the code in time", "Try again with leat login --device.")
		}
	}
}

// HasDisplay reports whether a browser that is opened here would be seen by the person.
func HasDisplay(lookupEnv func(string) (string, bool)) bool {
	isSet := func(name string) bool {
		value, ok := lookupEnv(name)
		return ok && value != ""
	}
	switch {
	case isSet("BROWSER"):
		return true
	case isSet("SSH_CONNECTION"), isSet("SSH_TTY"):
		return false
	case runtime.GOOS == "darwin", runtime.GOOS == "windows":
		return true
	}
	return isSet("DISPLAY") || isSet("WAYLAND_DISPLAY")
}

// OpenBrowser opens an address that page has checked: it begins with http. A failure is not reported, because the address was printed.
func OpenBrowser(ctx context.Context, lookupEnv func(string) (string, bool), address string) {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	if browser, ok := lookupEnv("BROWSER"); ok && browser != "" {
		command = strings.Fields(browser)
	}
	opener := exec.CommandContext(context.WithoutCancel(ctx), command[0], append(command[1:], address)...)
	if opener.Start() == nil {
		go func() { _ = opener.Wait() }()
	}
}

// isPassing reports whether the hub may answer better in a moment.
func isPassing(err error) bool {
	code := connect.CodeOf(err)
	return code == connect.CodeUnavailable || code == connect.CodeResourceExhausted
}
