// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// readAhead is what is read at once, and block what is allocated for several reads.
	readAhead = 256 << 10
	block     = 4 * readAhead
	// inFlight is how many reads may be under way on one connection in one direction: far more than
	// the fastest sender has.
	inFlight = 1 << 16
)

// ServeLink passes TCP connections to address on to target. Every byte takes half the round trip's
// time in each direction and stays in order; how many bytes pass is not limited. Only the bytes are
// late: connections are still opened as fast as the machine can.
func ServeLink(ctx context.Context, address, target string, rtt time.Duration) error {
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
		return // the connection that ends tells it
	}
	defer far.Close()
	var directions sync.WaitGroup
	directions.Go(func() { delayed(far, near, delay) })
	directions.Go(func() { delayed(near, far, delay) })
	directions.Wait()
}

// late is what was read, and when it is to arrive.
type late struct {
	due   time.Time
	bytes []byte
	// whole is the block that the bytes are the last part of; nil: others follow.
	whole *[block]byte
}

// delayed copies until one side ends, and then ends the other's half.
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
