// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package oidclogin

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/leatdev/leat/internal/runtime/dialguard"
)

const (
	// callTimeout bounds one sign-in's calls to a provider together, dialTimeout a connection.
	callTimeout = 10 * time.Second
	dialTimeout = 5 * time.Second
	// maxAnswer and maxHeader bound one answer.
	maxAnswer = 1 << 20
	maxHeader = 64 << 10
	// keysEvery is how often a provider is asked for its keys again because of an unknown one.
	keysEvery = time.Minute
)

var (
	errTooLong  = fmt.Errorf("the provider's answer has more than %d bytes", maxAnswer)
	errRedirect = errors.New("the provider redirects, which is not followed; correct spec.issuer")
)

// newHTTPClient returns the client for one provider.
func newHTTPClient(guard dialguard.Guard, caPEM string) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caPEM != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(caPEM)) {
			return nil, errors.New("spec.ca_pem holds no certificate")
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, Control: guard.Control}
	return &http.Client{
		Timeout: callTimeout,
		Transport: bounded{&http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeader, MaxConnsPerHost: 16, MaxIdleConns: 4, IdleConnTimeout: time.Minute,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}, nil
}

// bounded ends answers that are too long.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = &boundedBody{ReadCloser: res.Body, left: maxAnswer}
	return res, nil
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// There may be nothing more, so one byte is tried.
		var one [1]byte
		n, err := b.ReadCloser.Read(one[:])
		if n > 0 {
			return 0, errTooLong
		}
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// pacedKeys answers for the key set of a provider. Keys are read when they are first needed, and
// again for an unknown one, but only once a minute: tokens with made-up keys cost the provider
// nothing. It is safe for concurrent use.
type pacedKeys struct {
	next  http.RoundTripper
	again *rate.Limiter

	mu   sync.Mutex
	body []byte // the last good answer
}

func newPacedKeys(next http.RoundTripper) *pacedKeys {
	return &pacedKeys{next: next, again: rate.NewLimiter(rate.Every(keysEvery), 1)}
}

// RoundTrip implements http.RoundTripper.
func (k *pacedKeys) RoundTrip(r *http.Request) (*http.Response, error) {
	if body, ok := k.kept(); ok {
		return answer(r, body), nil
	}
	res, err := k.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		k.mu.Lock()
		k.body = body
		k.mu.Unlock()
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// kept returns the last good answer where the provider is not to be asked again yet.
func (k *pacedKeys) kept() ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.body == nil || k.again.Allow() {
		return nil, false
	}
	return k.body, true
}

func answer(r *http.Request, body []byte) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// firstLine returns an error without what the provider wrote below it.
func firstLine(err error) error {
	text, _, more := strings.Cut(err.Error(), "\n")
	if !more && len(text) <= 300 {
		return err
	}
	return errors.New(text[:min(len(text), 300)])
}
