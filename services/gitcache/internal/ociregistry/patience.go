// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// mirrorPatience is how long a mirror may take to begin an answer. One that is frozen must leave
	// time for the registry.
	mirrorPatience = 10 * time.Second
	// mirrorPause is how long a mirror is not asked after it failed.
	mirrorPause = time.Minute
	// rememberMirrors is of how many mirrors that is known.
	rememberMirrors = 1000
)

var errPatience = errors.New("the mirror does not begin to answer")

// impatient carries requests whose answers begin within a time.
type impatient struct {
	below http.RoundTripper
	limit time.Duration
}

// RoundTrip implements http.RoundTripper.
func (i impatient) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(i.limit, func() { cancel(errPatience) })
	resp, err := i.below.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &ending{ReadCloser: resp.Body, end: func() { cancel(nil) }}
	return resp, nil
}

// CloseIdleConnections closes the connections that carry no request now.
func (i impatient) CloseIdleConnections() {
	if c, ok := i.below.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// ending is a body whose request ends with it.
type ending struct {
	io.ReadCloser

	end func()
}

// Close implements io.Closer.
func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}
