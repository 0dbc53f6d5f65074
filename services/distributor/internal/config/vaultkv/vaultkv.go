// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package vaultkv reads the key-value engines, version 1 and 2, of a Vault or an OpenBao.
//
// It calls as package backendcall does. A session, or a token of the document that ends, is renewed at half of
// its life.
package vaultkv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/config/backendcall"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// signInEvery is the least time between two attempts to sign in after a failure.
const signInEvery = 5 * time.Second

// Params are the parts of a Backend besides its document.
type Params struct {
	// HubToken is the token that the hub shows to sign in by the Kubernetes or the JWT method.
	HubToken backendcall.HubToken
	// Guard decides which addresses are dialled.
	Guard dialguard.Guard
}

// Backend is a key-value engine.
type Backend struct {
	vault      catalog.VaultBackend
	credential secret.Text
	hubToken   backendcall.HubToken
	mount      string
	client     *backendcall.Client

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
		return nil, errors.New("the back end is not a Vault")
	}
	client, err := backendcall.New(backendcall.Params{Control: p.Guard.Control, CAPEM: v.CAPEM})
	if err != nil {
		return nil, err
	}
	mount := strings.Trim(v.Mount, "/")
	if mount == "" {
		mount = "secret"
	}
	return &Backend{vault: *v, credential: backend.Spec.Credential, hubToken: p.HubToken, mount: mount, client: client}, nil
}

// Close implements configs.Backend. Sessions end on their own.
func (b *Backend) Close() error {
	b.client.Close()
	return nil
}

// Check implements configs.Backend: it signs in, or looks the token up.
func (b *Backend) Check(ctx context.Context) error {
	if b.vault.Auth == catalog.VaultByToken {
		_, err := b.lookUp(ctx)
		return err
	}
	_, err := b.token(ctx)
	return err
}

// Read implements configs.Backend.
func (b *Backend) Read(ctx context.Context, path string) (configs.Entry, error) {
	place := b.mount + "/" + backendcall.Escaped(path)
	if b.vault.Version != 1 {
		place = b.mount + "/data/" + backendcall.Escaped(path)
	}
	token, err := b.token(ctx)
	if err != nil {
		return configs.Entry{}, err
	}
	content, err := b.call(ctx, http.MethodGet, place, token, nil)
	if _, isDenied := errors.AsType[*configs.DeniedError](err); isDenied {
		// The session may have been ended at the server, so a new one is asked, once. If there is none,
		// the refusal was not about the entry.
		b.forget(token)
		next, failure := b.token(ctx)
		if failure != nil {
			return configs.Entry{}, failure
		}
		if token != next {
			token = next
			content, err = b.call(ctx, http.MethodGet, place, token, nil)
		}
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

// answer holds the used fields of a server's answer.
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
		return configs.Entry{Fields: fields, TTL: backendcall.Seconds(a.LeaseDuration)}, err
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

// release ends the lease of an unused credential. Without it, the lease ends on its own.
func (b *Backend) release(ctx context.Context, token secret.Text, lease string) {
	_, _ = b.call(ctx, http.MethodPut, "sys/leases/revoke", token, map[string]string{"lease_id": lease})
}

// token returns a token that is valid as far as the hub knows.
func (b *Backend) token(ctx context.Context) (secret.Text, error) {
	b.signingIn.Lock()
	defer b.signingIn.Unlock()
	now := time.Now()
	s := b.session
	if s.token != "" && (s.renewAt.IsZero() || now.Before(s.renewAt)) {
		return s.token, nil
	}
	if b.failure != nil && now.Sub(b.failedAt) < signInEvery {
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

// errToken means that the server does not know the document's token.
var errToken = errors.New("the token of the back end is not valid any more, or may not look itself up as the policy default allows")

// standing returns the token of a session that could not be renewed and has not ended yet, or the
// document's unless the server has refused it.
func (b *Backend) standing(now time.Time, err error) (secret.Text, error) {
	if b.vault.Auth == catalog.VaultByToken && !errors.Is(err, errToken) {
		return b.credential, nil
	}
	if b.session.token != "" && now.Before(b.session.endsAt) {
		return b.session.token, nil
	}
	return "", err
}

// forget drops a session that the server refuses.
func (b *Backend) forget(token secret.Text) {
	b.signingIn.Lock()
	defer b.signingIn.Unlock()
	if b.session.token == token {
		b.session = session{}
	}
}

// lookUp begins a session with the token of the document. The hub renews the token if it ends.
func (b *Backend) lookUp(ctx context.Context) (session, error) {
	at := time.Now()
	content, err := b.call(ctx, http.MethodGet, "auth/token/lookup-self", b.credential, nil)
	if _, isDenied := errors.AsType[*configs.DeniedError](err); isDenied {
		return session{}, errToken
	}
	if err != nil {
		return session{}, err
	}
	var a struct {
		Data struct {
			TTL       int64 `json:"ttl"`
			Renewable bool  `json:"renewable"`
		} `json:"data"`
	}
	if err := json.Unmarshal(content, &a); err != nil {
		return session{}, errors.New("the answer about the token is not readable")
	}
	s := session{token: b.credential, isRenewable: a.Data.Renewable}
	if life := backendcall.Seconds(a.Data.TTL); life > 0 {
		s.endsAt = at.Add(life)
		if s.isRenewable {
			s.renewAt = at.Add(max(life/2, signInEvery))
		}
	}
	return s, nil
}

func (b *Backend) logIn(ctx context.Context) (session, error) {
	if b.vault.Auth == catalog.VaultByToken {
		return b.lookUp(ctx)
	}
	mount, body := strings.Trim(b.vault.AuthMount, "/"), map[string]string{"role_id": b.vault.Role, "secret_id": b.credential.Reveal()}
	if mount == "" {
		mount = string(b.vault.Auth)
	}
	if b.vault.Auth != catalog.VaultByAppRole {
		proof, err := b.hubToken.For(b.vault.URL)
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
	e, hasStatus := errors.AsType[*backendcall.StatusError](err)
	return isDenied || isMissing || hasStatus && e.Code == http.StatusBadRequest
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
	if life := backendcall.Seconds(a.Auth.LeaseDuration); life > 0 {
		s.renewAt, s.endsAt = at.Add(life/2), at.Add(life)
	}
	return s, nil
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
	content, _, err := b.client.Do(req)
	if status, ok := errors.AsType[*backendcall.StatusError](err); ok && status.Code == http.StatusServiceUnavailable {
		err = errors.New("the server is sealed or not ready (503)")
	}
	return content, err
}
