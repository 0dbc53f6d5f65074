// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// readAhead is the size of one read, and block that of an allocation for several reads.
	readAhead = 256 << 10
	block     = 4 * readAhead
	// inFlight bounds the reads in transit on one connection in one direction: far more than the
	// fastest sender needs.
	inFlight = 1 << 16
)

// serveLink forwards TCP connections to address to target. Every byte takes half the round-trip
// time in each direction and stays in order. The rate is not limited. Only bytes are delayed:
// connections are opened as fast as the machine can.
func serveLink(ctx context.Context, address, target string, rtt time.Duration) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		near, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go carry(ctx, near, target, rtt/2)
	}
}

// carry returns when both directions have ended.
func carry(ctx context.Context, near net.Conn, target string, delay time.Duration) {
	defer near.Close()
	far, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		return // the closed connection shows the error
	}
	defer far.Close()
	var directions sync.WaitGroup
	directions.Go(func() { delayed(far, near, delay) })
	directions.Go(func() { delayed(near, far, delay) })
	directions.Wait()
}

// late is some bytes and their time of arrival.
type late struct {
	due   time.Time
	bytes []byte
	// whole is the block whose last part the bytes are; nil: more bytes of it follow.
	whole *[block]byte
}

// delayed copies until one side ends, and then closes the other's half.
func delayed(to, from net.Conn, delay time.Duration) {
	queue := make(chan late, inFlight)
	var blocks sync.Pool // of *[block]byte
	go func() {
		defer close(queue)
		var whole *[block]byte
		var room []byte
		for {
			if len(room) < readAhead {
				var used bool
				if whole, used = blocks.Get().(*[block]byte); !used {
					whole = new([block]byte)
				}
				room = whole[:]
			}
			n, err := from.Read(room[:readAhead])
			next := late{due: time.Now().Add(delay), bytes: room[:n]}
			if room = room[n:]; len(room) < readAhead {
				next.whole = whole
			}
			queue <- next
			if err != nil {
				return
			}
		}
	}()
	for next := range queue {
		if wait := time.Until(next.due); wait > 0 {
			<-time.After(wait)
		}
		if _, err := to.Write(next.bytes); err != nil {
			_ = from.Close() // ends the reader
			for range queue {
				continue
			}
			return
		}
		if next.whole != nil {
			blocks.Put(next.whole)
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the peer may be gone
	}
}
