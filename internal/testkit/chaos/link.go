// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// largestChunk is the most that is read at once.
	largestChunk = 32 << 10
	// The bytes in transit in one direction are bounded. A link without delay holds few of them, so
	// that a reader that stops is noticed.
	room      = 64 << 10
	roomDelay = 8 << 20
)

// link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	silent         atomic.Bool // bytes vanish
	done           chan struct{}
	end            sync.Once

	mu       sync.Mutex
	lastByte time.Time
}

func newLink(p *Proxy, client, server net.Conn) *link {
	return &link{proxy: p, client: client, server: server, done: make(chan struct{}), lastByte: time.Now()}
}

// run forwards bytes until both directions have ended.
func (l *link) run() {
	var group sync.WaitGroup
	for _, d := range []*direction{newDirection(l, l.client, l.server), newDirection(l, l.server, l.client)} {
		group.Go(d.read)
		group.Go(d.write)
	}
	l.proxy.running.Go(l.watchIdle)
	group.Wait()
	l.close()
}

func (l *link) close() {
	l.end.Do(func() {
		close(l.done)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

func (l *link) reset() {
	l.end.Do(func() {
		close(l.done)
		reset(l.client)
		reset(l.server)
	})
}

// reset closes with RST if the connection supports it.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (l *link) touch() {
	l.mu.Lock()
	l.lastByte = time.Now()
	l.mu.Unlock()
}

func (l *link) quietSince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastByte
}

// watchIdle closes the link when it has been idle for too long.
func (l *link) watchIdle() {
	for {
		f, changed := l.proxy.now()
		left := time.Until(l.quietSince().Add(f.idle))
		if f.idle > 0 && left <= 0 {
			l.close()
			return
		}
		timer := time.NewTimer(left)
		due := timer.C
		if f.idle == 0 {
			due = nil
		}
		select {
		case <-due:
		case <-changed:
		case <-l.done:
		}
		timer.Stop()
		select {
		case <-l.done:
			return
		default:
		}
	}
}

// pass blocks while the proxy is frozen. It returns false when the link is over.
func (l *link) pass() (faults, bool) {
	for {
		f, changed := l.proxy.now()
		if !f.frozen {
			return f, true
		}
		select {
		case <-changed:
		case <-l.done:
			return f, false
		}
	}
}

// direction carries bytes one way: read accepts them, write delivers them when they are due.
type direction struct {
	link     *link
	from, to net.Conn
	frames   framer
	transit  transit
	free     time.Time // when the line can accept the next byte
	lastDue  time.Time
}

func newDirection(l *link, from, to net.Conn) *direction {
	d := &direction{link: l, from: from, to: to}
	d.transit.arrived.L = &d.transit.mu
	return d
}

func (d *direction) read() {
	defer d.transit.finish()
	buffer := make([]byte, largestChunk)
	for {
		f, ok := d.link.pass()
		if !ok {
			return
		}
		n, err := d.from.Read(buffer[:chunkSize(f.rate)])
		f, ok = d.link.pass() // the faults may have changed during the read
		if !ok {
			return
		}
		if out := d.frames.feed(buffer[:n], f.eatPings); len(out) > 0 && !d.link.silent.Load() {
			d.link.touch()
			d.transit.put(chunk{data: out, due: d.due(len(out), f)}, f)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
			return
		case err != nil:
			d.broken()
			return
		}
	}
}

// broken forwards that a party is gone, unless the link is silent.
func (d *direction) broken() {
	if !d.link.silent.Load() {
		d.link.reset()
	}
}

// chunkSize limits chunks so that a slow line does not move in bursts.
func chunkSize(rate int) int {
	if rate == 0 {
		return largestChunk
	}
	return min(largestChunk, max(512, rate/50))
}

// due returns when n bytes that leave now arrive.
func (d *direction) due(n int, f faults) time.Time {
	now := time.Now()
	if d.free.Before(now) {
		d.free = now
	}
	if f.rate > 0 {
		d.free = d.free.Add(time.Duration(n) * time.Second / time.Duration(f.rate))
	}
	due := d.free.Add(f.rtt / 2)
	if due.Before(d.lastDue) {
		due = d.lastDue
	}
	d.lastDue = due
	return due
}

func (d *direction) write() {
	for {
		c, ok := d.transit.take()
		if !ok {
			d.leave()
			return
		}
		if !d.wait(c.due) {
			d.transit.abandon()
			return
		}
		if _, ok := d.link.pass(); !ok {
			d.transit.abandon()
			return
		}
		if d.link.silent.Load() {
			continue
		}
		if _, err := d.to.Write(c.data); err != nil {
			d.broken()
			d.transit.abandon()
			return
		}
	}
}

// leave forwards the end of one direction. A connection without half-close, such as net.Pipe,
// closes as a whole.
func (d *direction) leave() {
	if d.link.silent.Load() {
		<-d.link.done // a silent link does not forward it
		return
	}
	if half, ok := d.to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = d.to.Close()
}

// wait blocks until due. It returns false if the link ends first.
func (d *direction) wait(due time.Time) bool {
	left := time.Until(due)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.link.done:
		return false
	}
}

// chunk is some bytes and their time of arrival.
type chunk struct {
	data []byte
	due  time.Time
}

// transit is the queue of bytes in transit in one direction.
type transit struct {
	mu       sync.Mutex
	arrived  sync.Cond // a chunk was put or taken, or the end came
	chunks   []chunk
	bytes    int
	finished bool // nothing more comes
	deaf     bool // nothing more is taken
}

// put blocks until there is room.
func (t *transit) put(c chunk, f faults) {
	limit := room
	if f.rtt > 0 {
		limit = roomDelay
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.bytes > 0 && t.bytes+len(c.data) > limit && !t.deaf {
		t.arrived.Wait()
	}
	t.chunks, t.bytes = append(t.chunks, c), t.bytes+len(c.data)
	t.arrived.Broadcast()
}

// take blocks until there is a chunk. It returns false at the end.
func (t *transit) take() (chunk, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.chunks) == 0 {
		if t.finished {
			return chunk{}, false
		}
		t.arrived.Wait()
	}
	c := t.chunks[0]
	t.chunks, t.bytes = t.chunks[1:], t.bytes-len(c.data)
	t.arrived.Broadcast()
	return c, true
}

func (t *transit) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finished = true
	t.arrived.Broadcast()
}

func (t *transit) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaf = true
	t.arrived.Broadcast()
}
