// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// sqlProxy is a proxy between a distributor and PostgreSQL and cuts connections in the middle of
// commits.
type sqlProxy struct {
	target string
	url    string
	// before and after are how many of a hundred commits are cut before they reach the database,
	// and before the answer leaves it.
	before, after atomic.Int32
	cuts          atomic.Int32
}

func startSQLProxy(t *testing.T, database string) *sqlProxy {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &sqlProxy{target: u.Host}
	u.Host = listener.Addr().String()
	p.url = u.String()
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		conns.Wait()
	})
	return p
}

// serve carries one connection until either side ends it or a commit is cut.
func (p *sqlProxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	var dropping atomic.Bool
	var done sync.WaitGroup
	done.Go(func() {
		defer client.Close()
		_, _ = io.Copy(answers{client, &dropping}, server)
	})
	defer done.Wait()
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if isCommit(buffer[:n]) {
			before, after := p.before.Load(), p.after.Load()
			switch roll := rand.Int32N(100); {
			case roll < before:
				p.cuts.Add(1)
				return
			case roll < before+after:
				p.cuts.Add(1)
				dropping.Store(true)
			}
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// answers drops the answer to a commit that is cut after it, and the connection with it.
type answers struct {
	io.Writer

	dropping *atomic.Bool
}

func (a answers) Write(b []byte) (int, error) {
	if a.dropping.Load() {
		return 0, io.ErrClosedPipe
	}
	return a.Writer.Write(b)
}

// isCommit knows a simple query that ends a transaction well.
func isCommit(message []byte) bool {
	return len(message) > 5 && message[0] == 'Q' && strings.EqualFold(string(bytes.TrimRight(message[5:], "\x00")), "commit")
}
