// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpvalues reads entries that a web server has as JSON objects. It calls as package
// backendcall does.
package httpvalues

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/runtime/dialguard"
	"github.com/leatdev/leat/services/distributor/internal/config/backendcall"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// maxETag bounds an ETag that is a version as it is. A longer one is hashed.
const maxETag = 128

// Backend is a web server.
type Backend struct {
	url    string
	bearer secret.Text
	client *backendcall.Client
}

var _ configs.Backend = (*Backend)(nil)

// Open returns the server that a document describes. It calls nothing yet.
func Open(backend *catalog.ConfigBackend, guard dialguard.Guard) (*Backend, error) {
	h := backend.Spec.HTTP
	if h == nil {
		return nil, errors.New("the back end is not a web server")
	}
	b, p := &Backend{url: h.URL}, backendcall.Params{Control: guard.Control, CAPEM: h.CAPEM}
	switch h.Auth {
	case catalog.HTTPByNothing:
	case catalog.HTTPByBearer:
		b.bearer = backend.Spec.Credential
	case catalog.HTTPByCertificate:
		pair, err := tls.X509KeyPair([]byte(h.CertificatePEM), []byte(backend.Spec.Credential.Reveal()))
		if err != nil {
			return nil, errors.New("client_certificate is not a certificate with its private key")
		}
		p.Certificate = &pair
	default:
		return nil, errors.New("this version of the hub does not know how to sign in to the back end")
	}
	var err error
	b.client, err = backendcall.New(p)
	return b, err
}

// Close implements configs.Backend.
func (b *Backend) Close() error {
	b.client.Close()
	return nil
}

// Check implements configs.Backend: it asks for the base URL. The content there does not matter,
// but the server has to answer and to accept the credential.
func (b *Backend) Check(ctx context.Context) error {
	_, _, err := b.get(ctx, b.url+"/")
	_, isAbsent := errors.AsType[*configs.NotFoundError](err)
	_, isDenied := errors.AsType[*configs.DeniedError](err)
	status, hasStatus := errors.AsType[*backendcall.StatusError](err)
	if isAbsent || isDenied || hasStatus && status.Code == http.StatusMethodNotAllowed {
		return nil
	}
	return err
}

// Read implements configs.Backend.
func (b *Backend) Read(ctx context.Context, path string) (configs.Entry, error) {
	content, header, err := b.get(ctx, b.url+"/"+backendcall.Escaped(path))
	if err != nil {
		return configs.Entry{}, err
	}
	fields, err := configs.FieldsOfJSON(content)
	return configs.Entry{Fields: fields, Version: versionOf(header.Get("ETag")), TTL: lifeOf(header.Get("Cache-Control"))}, err
}

func (b *Backend) get(ctx context.Context, to string) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, http.NoBody)
	if err != nil {
		return nil, nil, errors.New("the path makes no URL")
	}
	req.Header.Set("Accept", "application/json")
	if b.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+b.bearer.Reveal())
	}
	content, header, err := b.client.Do(req)
	if status, ok := errors.AsType[*backendcall.StatusError](err); ok && status.Code == http.StatusUnauthorized {
		err = errors.New("the server does not accept the credential of the back end (401)")
	}
	return content, header, err
}

// versionOf returns a version for an ETag. It is shown, so it holds nothing but what ETags consist
// of.
func versionOf(tag string) string {
	tag = strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
	isPlain := !strings.ContainsFunc(tag, func(r rune) bool { return r <= ' ' || r >= 0x7f })
	if len(tag) <= maxETag && isPlain {
		return tag
	}
	sum := sha256.Sum256([]byte(tag))
	return hex.EncodeToString(sum[:])
}

// lifeOf returns how long an answer holds; zero: unknown. The Reader bounds it.
func lifeOf(control string) time.Duration {
	for directive := range strings.SplitSeq(control, ",") {
		text, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(directive)), "max-age=")
		if n, err := strconv.ParseInt(text, 10, 64); ok && err == nil {
			return backendcall.Seconds(n)
		}
	}
	return 0
}
