// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// heldOpen keeps a connection open until the attack ends or the server closes it.
func heldOpen(ctx context.Context, conn net.Conn) error {
	_, err := io.Copy(io.Discard, conn)
	switch {
	case ctx.Err() != nil: // the attack closes every connection at its end
		return ctx.Err()
	case err == nil:
		return errClosed
	}
	return err
}

// connections opens connections and sends nothing.
func connections(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		conn, err := v.dial(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return heldOpen(ctx, conn)
	})
}

// comings opens connections and closes them at once.
func comings(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		conn, err := v.dial(ctx)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// slowloris sends heads one line at a time, and never ends them.
func slowloris(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		conn, err := v.http1(ctx, "GET "+trivial+" HTTP/1.1\r\nHost: hub\r\n")
		if err != nil {
			return err
		}
		defer conn.Close()
		for {
			wait(ctx, 500*time.Millisecond)
			if _, err := io.WriteString(conn, "X-Slow: 1\r\n"); err != nil {
				return err
			}
		}
	})
}

// handshakes makes the server sign repeatedly.
func handshakes(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		conn, err := v.open(ctx, "h2")
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// halfHandshakes begins TLS handshakes and does not complete them.
func halfHandshakes(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		conn, err := v.dial(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		const head = "\x16\x03\x01\x3f\xff\x01\x00\x3f\xfb" // a record of 16,383 bytes with a ClientHello, of which only part is sent
		if _, err := io.WriteString(conn, head+strings.Repeat("\x03", 8<<10)); err != nil {
			return err
		}
		return heldOpen(ctx, conn)
	})
}

// upgrades requests WebSockets: half of the requests are never finished, and the others send
// nothing after the upgrade.
func upgrades(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		for _, path := range []string{"/tunnel/v1/connect", "/clusters/probe/api/v1/namespaces/default/pods/x/exec?command=sh"} {
			for _, end := range []string{"\r\n", ""} {
				conn, err := v.http1(ctx, "GET "+path+" HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
					"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"+end)
				if err != nil {
					return err
				}
				defer conn.Close()
			}
		}
		<-ctx.Done()
		return nil
	})
}

// connects repeatedly requests an agent's tunnel with an invalid token.
func connects(ctx context.Context, v *victim) {
	request := strings.Repeat("GET /tunnel/v1/connect HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n"+
		"Leat-Connection-Id: x\r\nAuthorization: Bearer made.up.token\r\n\r\n", 20)
	v.each(ctx, func(ctx context.Context) error {
		conn, err := v.http1(ctx, request)
		if err != nil {
			return err
		}
		defer conn.Close()
		ended := make(chan error, 1)
		go func() { ended <- heldOpen(ctx, conn) }()
		for {
			select {
			case err := <-ended:
				return err
			default:
			}
			if _, err := io.WriteString(conn, request); err != nil {
				return err
			}
			wait(ctx, 100*time.Millisecond)
		}
	})
}

// guesses tries random join tokens.
func guesses(ctx context.Context, v *victim) {
	shared := v.client(ctx, true)
	defer shared.CloseIdleConnections()
	v.each(ctx, func(ctx context.Context) error {
		body := `{"joinToken": "leat_join_` + rand.Text() + rand.Text() + `", "publicKey": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`
		return v.post(ctx, shared, "/leat.distributor.v1.DistributorService/Enroll",
			http.Header{"Content-Type": {"application/json"}}, strings.NewReader(body), int64(len(body)))
	})
}
