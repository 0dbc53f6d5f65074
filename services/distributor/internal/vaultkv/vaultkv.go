// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package vaultkv reads the key-value engines, version 1 and 2, of a Vault or an OpenBao.
//
// It follows no redirect, reads a bounded number of bytes, and repeats nothing that a server says
// beyond its status. A session that it began is renewed at half of its life.
package vaultkv

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/dialguard"
	"github.com/leatdev/leat/internal/secret"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/configs"
)

const (
	// callTimeout bounds one call, and dialTimeout a connection.
	callTimeout = 10 * time.Second
	dialTimeout = 5 * time.Second
	// maxAnswer bounds an answer: an entry as JSON, in which characters may take six bytes.
	maxAnswer = 6*configs.MaxEntryBytes + 64<<10
	maxHeader = 64 << 10
	// maxProof bounds the file of the hub's own token.
	maxProof = 16 << 10
	// loginEvery is the least time between two attempts to sign in after a failure.
	loginEvery = 5 * time.Second
)

// Params are what a Backend needs beside its document.
type Params struct {
	// TokenFile holds the token that the hub shows to sign in by the Kubernetes or the JWT method.
	// It is read for each sign-in. Empty: the hub's operator allows neither method.
	TokenFile string
	// Guard decides which addresses are dialled.
	Guard dialguard.Guard
}

// Backend is a key-value engine.
type Backend struct {
	vault      catalog.VaultBackend
	credential secret.Text
	tokenFile  string
	mount      string
	client     *http.Client

	// signingIn lets one call sign in at a time. It guards the fields below.
	signingIn sync.Mutex
	session   session
	failure   error
	failedAt  time.Time
}

// session is a token that the hub has obtained.
type session struct {
	token secret.Text
	// renewAt and endsAt are zero for a token that does not end.
	renewAt, endsAt time.Time
	isRenewable     bool
}

var _ configs.Backend = (*Backend)(nil)

// Open returns the engine that a document describes. It calls nothing yet.
func Open(backend *catalog.ConfigBackend, p Params) (*Backend, error) {
	v := backend.Spec.Vault
	if v == nil {
		return nil, errors.New("the back end is no Vault")
	}
	if (v.Auth == catalog.VaultByKubernetes || v.Auth == catalog.VaultByJWT) && p.TokenFile == "" {
		return nil, errors.New("the operator of the hub has named no token for this method: --distributor-config-token-file")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if v.CAPEM != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(v.CAPEM)) {
			return nil, errors.New("spec.vault.ca_pem holds no certificate")
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, Control: p.Guard.Control}
	mount := strings.Trim(v.Mount, "/")
	if mount == "" {
		mount = "secret"
	}
	return &Backend{
		vault: *v, credential: backend.Spec.Credential, tokenFile: p.TokenFile, mount: mount,
		client: &http.Client{
			Timeout: callTimeout,
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout,
				ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeader, MaxConnsPerHost: 2 * configs.MaxReads, IdleConnTimeout: time.Minute,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close implements configs.Backend. Sessions end on their own.
func (b *Backend) Close() error {
	b.client.CloseIdleConnections()
	return nil
}

// Check implements configs.Backend: it signs in, or looks the token up.
func (b *Backend) Check(ctx context.Context) error {
	token, err := b.token(ctx)
	if err != nil || b.vault.Auth != catalog.VaultByToken {
		return err
	}
	_, err = b.call(ctx, http.MethodGet, "auth/token/lookup-self", token, nil)
	if _, isDenied := errors.AsType[*configs.DeniedError](err); isDenied {
		return errors.New("the token is not valid, or may not look itself up as the policy default allows")
	}
	return err
}

// Read implements configs.Backend.
func (b *Backend) Read(ctx context.Context, path string) (configs.Entry, error) {
	place := b.mount + "/" + escaped(path)
	if b.vault.Version != 1 {
		place = b.mount + "/data/" + escaped(path)
	}
	token, err := b.token(ctx)
	if err != nil {
		return configs.Entry{}, err
	}
	content, err := b.call(ctx, http.MethodGet, place, token, nil)
	if _, isDenied := errors.AsType[*configs.DeniedError](err); isDenied && b.forget(token) {
		// The session may have been ended at the server, so a new one is asked, once.
		if token, err = b.token(ctx); err != nil {
			return configs.Entry{}, err
		}
		content, err = b.call(ctx, http.MethodGet, place, token, nil)
	}
	if err != nil {
		return configs.Entry{}, err
	}
	var a answer
	if err := json.Unmarshal(content, &a); err != nil {
		return configs.Entry{}, errors.New("the answer is not readable")
	}
	if a.LeaseID != "" {
		b.release(ctx, token, a.LeaseID)
		return configs.Entry{}, &configs.DeniedError{
			Detail: "it is a dynamic credential, with a lease for each reader; have it read in the cluster that uses it",
		}
	}
	return b.entry(a)
}

// answer is what a server says, as far as it is used.
type answer struct {
	LeaseID       string          `json:"lease_id"`
	LeaseDuration int64           `json:"lease_duration"`
	Data          json.RawMessage `json:"data"`
	Auth          *struct {
		ClientToken   string `json:"client_token"`
		LeaseDuration int64  `json:"lease_duration"`
		Renewable     bool   `json:"renewable"`
	} `json:"auth"`
}

// entry reads the entry in an answer.
func (b *Backend) entry(a answer) (configs.Entry, error) {
	if b.vault.Version == 1 {
		fields, err := configs.FieldsOfJSON(a.Data)
		return configs.Entry{Fields: fields, TTL: seconds(a.LeaseDuration)}, err
	}
	var versioned struct {
		Data     json.RawMessage `json:"data"`
		Metadata struct {
			Version int64 `json:"version"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(a.Data, &versioned); err != nil {
		return configs.Entry{}, errors.New("the answer is not that of a key-value engine of version 2")
	}
	if len(versioned.Data) == 0 || string(versioned.Data) == "null" {
		return configs.Entry{}, &configs.NotFoundError{Detail: "its latest version is deleted"}
	}
	fields, err := configs.FieldsOfJSON(versioned.Data)
	return configs.Entry{Fields: fields, Version: strconv.FormatInt(versioned.Metadata.Version, 10)}, err
}

// seconds returns a duration of a server, without overflow.
func seconds(n int64) time.Duration {
	return time.Duration(max(0, min(n, int64(100*365*24*time.Hour/time.Second)))) * time.Second
}

// release ends the lease of a credential that nobody uses. Without it, the lease ends on its own.
func (b *Backend) release(ctx context.Context, token secret.Text, lease string) {
	_, _ = b.call(ctx, http.MethodPut, "sys/leases/revoke", token, map[string]string{"lease_id": lease})
}

// token returns a token that is valid as far as the hub knows.
func (b *Backend) token(ctx context.Context) (secret.Text, error) {
	if b.vault.Auth == catalog.VaultByToken {
		return b.credential, nil
	}
	b.signingIn.Lock()
	defer b.signingIn.Unlock()
	now := time.Now()
	s := b.session
	if s.token != "" && (s.renewAt.IsZero() || now.Before(s.renewAt)) {
		return s.token, nil
	}
	if b.failure != nil && now.Sub(b.failedAt) < loginEvery {
		return b.standing(now, b.failure)
	}
	if s.token != "" && s.isRenewable && now.Before(s.endsAt) {
		if next, err := b.signIn(ctx, "auth/token/renew-self", s.token, map[string]string{}); err == nil && next.endsAt.After(s.endsAt) {
			b.session, b.failure = next, nil
			return next.token, nil
		}
	}
	next, err := b.logIn(ctx)
	if err != nil {
		b.failure, b.failedAt = err, now
		return b.standing(now, err)
	}
	b.session, b.failure = next, nil
	return next.token, nil
}

// standing returns the token of a session that could not be renewed and has not ended yet.
func (b *Backend) standing(now time.Time, err error) (secret.Text, error) {
	if b.session.token != "" && now.Before(b.session.endsAt) {
		return b.session.token, nil
	}
	return "", err
}

// forget drops a session that the server refuses. It reports whether a new one may be obtained.
func (b *Backend) forget(token secret.Text) bool {
	b.signingIn.Lock()
	defer b.signingIn.Unlock()
	if b.session.token == token {
		b.session = session{}
	}
	return b.vault.Auth != catalog.VaultByToken
}

func (b *Backend) logIn(ctx context.Context) (session, error) {
	mount, body := strings.Trim(b.vault.AuthMount, "/"), map[string]string{"role_id": b.vault.Role, "secret_id": b.credential.Reveal()}
	if mount == "" {
		mount = string(b.vault.Auth)
	}
	if b.vault.Auth != catalog.VaultByAppRole {
		proof, err := readProof(b.tokenFile)
		if err != nil {
			return session{}, err
		}
		body = map[string]string{"role": b.vault.Role, "jwt": proof.Reveal()}
	}
	s, err := b.signIn(ctx, "auth/"+mount+"/login", "", body)
	if err != nil {
		if isRefusal(err) {
			err = errors.New("the server refuses the credential of the back end, or does not know the role or the method")
		}
		return session{}, fmt.Errorf("sign in by %s: %w", b.vault.Auth, err)
	}
	return s, nil
}

func isRefusal(err error) bool {
	_, isDenied := errors.AsType[*configs.DeniedError](err)
	_, isMissing := errors.AsType[*configs.NotFoundError](err)
	e, hasStatus := errors.AsType[*statusError](err)
	return isDenied || isMissing || hasStatus && e.code == http.StatusBadRequest
}

// signIn makes a call that answers with a session.
func (b *Backend) signIn(ctx context.Context, path string, token secret.Text, body map[string]string) (session, error) {
	at := time.Now()
	content, err := b.call(ctx, http.MethodPost, path, token, body)
	if err != nil {
		return session{}, err
	}
	var a answer
	if err := json.Unmarshal(content, &a); err != nil || a.Auth == nil || a.Auth.ClientToken == "" || strings.ContainsAny(a.Auth.ClientToken, "\r\n") {
		return session{}, errors.New("the answer holds no token")
	}
	s := session{token: secret.Text(a.Auth.ClientToken), isRenewable: a.Auth.Renewable}
	if life := seconds(a.Auth.LeaseDuration); life > 0 {
		s.renewAt, s.endsAt = at.Add(life/2), at.Add(life)
	}
	return s, nil
}

// readProof reads the token of the hub's pod.
func readProof(path string) (secret.Text, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", errors.New("the token file that the operator of the hub names cannot be opened")
	}
	defer func() { _ = file.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(file, maxProof+1))
	token := strings.TrimSpace(string(content))
	if err != nil || token == "" || len(content) > maxProof || strings.ContainsAny(token, "\r\n") {
		return "", errors.New("the token file that the operator of the hub names does not hold one token")
	}
	return secret.Text(token), nil
}

// statusError is an answer that says nothing of an entry.
type statusError struct{ code int }

// Error implements error.
func (e *statusError) Error() string {
	switch {
	case e.code >= 300 && e.code < 400:
		return fmt.Sprintf("the server redirects (%d), which is not followed; correct spec.vault.url", e.code)
	case e.code == http.StatusServiceUnavailable:
		return "the server is sealed or not ready (503)"
	}
	return fmt.Sprintf("the server answered with status %d", e.code)
}

// call makes one call and returns the body of its answer. Its error holds neither the request nor
// the answer.
func (b *Backend) call(ctx context.Context, method, path string, token secret.Text, body any) ([]byte, error) {
	reader := io.Reader(http.NoBody)
	if body != nil {
		content, err := json.Marshal(body)
		if err != nil {
			return nil, errors.New("encode request")
		}
		reader = bytes.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.vault.URL+"/v1/"+path, reader)
	if err != nil {
		return nil, errors.New("the path makes no URL")
	}
	req.Header.Set("X-Vault-Request", "true")
	if token != "" {
		req.Header.Set("X-Vault-Token", token.Reveal())
	}
	if b.vault.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", b.vault.Namespace)
	}
	res, err := b.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL
		}
		return nil, fmt.Errorf("the server does not answer: %w", err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	switch res.StatusCode {
	case http.StatusOK, http.StatusNoContent:
	case http.StatusNotFound:
		return nil, &configs.NotFoundError{}
	case http.StatusForbidden:
		return nil, &configs.DeniedError{}
	case http.StatusTooManyRequests:
		return nil, &configs.ThrottledError{After: retryAfter(res.Header.Get("Retry-After"))}
	default:
		return nil, &statusError{code: res.StatusCode}
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, errors.New("the answer ended early")
	}
	if len(content) > maxAnswer {
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return content, nil
}

func retryAfter(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return seconds(n)
}

// escaped returns a path whose elements stay what they are in a URL.
func escaped(path string) string {
	elements := strings.Split(path, "/")
	for i, element := range elements {
		elements[i] = url.PathEscape(element)
	}
	return strings.Join(elements, "/")
}
