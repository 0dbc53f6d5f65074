// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube/keys"
)

// object is a decoded Kubernetes object.
type object map[string]any

// client is the part of a Kubernetes client that starting a control plane needs.
type client struct {
	host string
	http *http.Client
}

func newClient(host string, files keys.Dir) (*client, error) {
	cert, err := tls.LoadX509KeyPair(files.Path(keys.AdminCert), files.Path(keys.AdminKey))
	if err != nil {
		return nil, fmt.Errorf("read admin certificate: %w", err)
	}
	ca, err := os.ReadFile(files.Path(keys.CACert))
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{
		// No proxy, whatever the environment sets: this is the loopback interface.
		TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
		IdleConnTimeout:   time.Minute,
	}
	return &client{host: host, http: &http.Client{Transport: transport}}, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// ready returns nil once the API server reports that it is ready.
func (c *client) ready(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/readyz", nil, nil)
}

// statusError is an answer other than 2xx.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.code, http.StatusText(e.code), e.message)
}

// do sends in, if any, as JSON, and decodes the answer into out, if any.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	text, err := c.send(ctx, method, path, http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// callTimeout bounds one call. Only a server that hangs reaches it: a busy machine needs seconds.
const callTimeout = time.Minute

// send returns the body of the answer, or a statusError.
func (c *client) send(ctx context.Context, method, path string, header http.Header, body io.Reader) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.host+path, body)
	if err != nil {
		return nil, err
	}
	request.Header = header
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		return nil, &statusError{code: response.StatusCode, message: strings.TrimSpace(string(text))}
	}
	return text, nil
}

// create makes an object unless one with that name exists.
func (c *client) create(ctx context.Context, path string, o object) error {
	err := c.do(ctx, http.MethodPost, path, o, nil)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusConflict {
		return nil
	}
	return err
}
