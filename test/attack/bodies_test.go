// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// largestMessage is slightly less than the largest body that any procedure reads. The attacks never
// send its end.
const largestMessage = 8<<20 - 1<<10

// unfinished uploads bodies without a token, and never sends their ends.
func unfinished(overHTTP2 bool) func(context.Context, *victim) {
	return func(ctx context.Context, v *victim) {
		v.uploads(ctx, overHTTP2, func(ctx context.Context) io.Reader { return &stalled{ctx: ctx, left: largestMessage} })
	}
}

// dripped uploads bodies one byte at a time.
func dripped(overHTTP2 bool) func(context.Context, *victim) {
	return func(ctx context.Context, v *victim) {
		v.uploads(ctx, overHTTP2, func(ctx context.Context) io.Reader { return &dripping{ctx: ctx, every: time.Second} })
	}
}

// uploads runs one upload at a time in each goroutine. Over HTTP/2 the goroutines share
// connections.
func (v *victim) uploads(ctx context.Context, overHTTP2 bool, body func(context.Context) io.Reader) {
	procedures := everyProcedure(v)
	shared := v.client(ctx, overHTTP2)
	defer shared.CloseIdleConnections()
	v.each(ctx, func(ctx context.Context) error {
		path := procedures[rand.IntN(len(procedures))].path
		err := v.post(ctx, shared, path, http.Header{"Content-Type": {"application/proto"}}, body(ctx), 8<<20)
		if err == nil {
			err = errClosed // the server answered before the body's end: pause before the next one
		}
		return err
	})
}

// webhooks uploads deliveries with made-up signatures, and never sends their ends.
func webhooks(ctx context.Context, v *victim) {
	const size = 5 << 20
	head := "POST /webhooks/github HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\n" +
		"X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958\r\nX-Hub-Signature-256: sha256=" + strings.Repeat("0a", 32) + "\r\n"
	chunk := strings.Repeat(" ", 64<<10)
	v.each(ctx, func(ctx context.Context) error {
		conn, err := v.http1(ctx, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", size))
		if err != nil {
			return err
		}
		defer conn.Close()
		for range size/len(chunk) - 1 {
			if _, err := io.WriteString(conn, chunk); err != nil {
				return err
			}
		}
		return heldOpen(ctx, conn)
	})
}
