// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package ociregistry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// mirrorPatience is how long a mirror may take to begin an answer. One that is frozen must leave
	// time for the registry.
	mirrorPatience = 10 * time.Second
	// patienceOfBodies is how much longer a mirror may take to send leastRate bytes for each second of
	// that time: 30 s. One that trickles would hold a download for as long as the registry may.
	patienceOfBodies = 3
	leastRate        = 1 << 10
	// mirrorPause is how long a mirror is not asked after it failed.
	mirrorPause = time.Minute
	// rememberMirrors is of how many mirrors that is known.
	rememberMirrors = 1000
)

var (
	errPatience = errors.New("the mirror does not begin to answer")
	errTrickle  = errors.New("the mirror sends less than 1 KiB a second")
)

// impatient carries requests whose answers begin within a limit, and then continue at leastRate.
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
	resp.Body = &measured{ReadCloser: resp.Body, window: patienceOfBodies * i.limit, end: cancel}
	return resp, nil
}

// CloseIdleConnections closes the connections that carry no request now.
func (i impatient) CloseIdleConnections() {
	if c, ok := i.below.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// measured is a body that must arrive at leastRate, over each window of time in which a reader
// waits for it. It ends its request when it is too slow, and when it is closed. As with other
// bodies, only one goroutine may read.
type measured struct {
	io.ReadCloser

	window time.Duration
	end    context.CancelCauseFunc // ends the request
	waited time.Duration           // in the current window
	bytes  int                     // in the current window
	isLate atomic.Bool             // the request was ended
}

// Read implements io.Reader. A call that blocks ends with the window if too few bytes came in it, and
// otherwise with the next one.
func (m *measured) Read(p []byte) (int, error) {
	left := m.window - m.waited
	if m.isFastEnough() {
		left += m.window
	}
	began := time.Now()
	timer := time.AfterFunc(left, func() {
		m.isLate.Store(true)
		m.end(errTrickle)
	})
	n, err := m.ReadCloser.Read(p)
	timer.Stop()
	if err != nil && m.isLate.Load() {
		err = errTrickle // some transports report the end of their request only
	}
	m.waited += time.Since(began)
	m.bytes += n
	if m.waited >= m.window {
		m.waited, m.bytes = 0, 0
	}
	return n, err
}

// isFastEnough reports whether enough bytes came in the current window, all of it considered.
func (m *measured) isFastEnough() bool { return float64(m.bytes) >= leastRate*m.window.Seconds() }

// Close implements io.Closer.
func (m *measured) Close() error {
	defer m.end(nil)
	return m.ReadCloser.Close()
}
