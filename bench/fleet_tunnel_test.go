// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"
)

// pingAfter is the silence after which an agent pings the tunnel, and the tunnel the agent.
const pingAfter = 20 * time.Second

// measureTunnel holds a connection of each agent open to a tunnel without callers. The agents'
// plans are not watched in the meantime, because one process may not have so many connections.
func (h *hub) measureTunnel(b *testing.B) {
	h.disconnect()
	tunnel := startService(b, "tunnel", "LEAT_DISTRIBUTOR_URL="+h.distributor.url, "LEAT_LOG_LEVEL=error")
	conns := make([]net.Conn, len(h.agents))
	var group errgroup.Group
	group.SetLimit(joining)
	for i, a := range h.agents {
		group.Go(func() (err error) {
			conns[i], err = a.serveTunnel(b, strings.TrimPrefix(tunnel.url, "http://"))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	<-time.After(settle)
	b.ResetTimer()
	spent, begun := tunnel.CPU(b), time.Now()
	<-time.After(*fleetIdle)
	b.ReportMetric((tunnel.CPU(b)-spent).Seconds()/time.Since(begun).Seconds(), "tunnel-cores")
	now, highest := tunnel.Memory(b)
	b.ReportMetric(float64(now>>20), "tunnel-MiB")
	b.ReportMetric(float64(highest>>20), "tunnel-peak-MiB")
}

// serveTunnel connects and serves HTTP/2 on the connection until that is closed.
func (a *agent) serveTunnel(b *testing.B, address string) (net.Conn, error) {
	b.Helper()
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "GET /tunnel/v1/connect HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: leat-tunnel/1\r\n"+
		"Authorization: Bearer %s\r\nLeat-Connection-Id: %s\r\n\r\n", a.tunnelToken, a.cluster)
	if err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("connect to the tunnel: %s", response.Status)
	}
	server := &http2.Server{ReadIdleTimeout: pingAfter, PingTimeout: pingAfter}
	go server.ServeConn(&buffered{Conn: conn, reader: reader}, &http2.ServeConnOpts{Handler: http.NotFoundHandler()})
	return conn, nil
}

// buffered is a connection from which some bytes were already read.
type buffered struct {
	net.Conn

	reader *bufio.Reader
}

// Read implements net.Conn.
func (c *buffered) Read(p []byte) (int, error) { return c.reader.Read(p) }
