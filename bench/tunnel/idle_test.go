// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"crypto/tls"
	"flag"
	"testing"
	"time"
)

var (
	agents   = flag.Int("tunnel.agents", 10_000, "agents of BenchmarkIdle")
	idleFor  = flag.Duration("tunnel.idle", time.Minute, "how long BenchmarkIdle looks at idle agents")
	settling = flag.Duration("tunnel.settle", 20*time.Second, "how long agents that have connected are left alone before anything counts")
)

// BenchmarkIdle connects many agents to one replica, and measures what they cost it while there are
// no requests: only pings and heartbeats. "Per operation" is the cost of connecting one. Run it
// with -benchtime 1x.
func BenchmarkIdle(b *testing.B) {
	shared := newBench(b)
	b.Run("tls=on", func(b *testing.B) { shared.measureIdle(b, true) })
	b.Run("tls=off", func(b *testing.B) { shared.measureIdle(b, false) })
}

func (s *bench) measureIdle(b *testing.B, encrypted bool) {
	d := startDistributor(b)
	hub := s.hub(b, d, encrypted, "")
	empty, _ := hub.Memory(b)
	begun := time.Now()
	answers := lightHandler()
	connectAll(b, *agents, func(i int) *light {
		a := &light{
			cluster: clusterName(i), token: d.token(b, clusterIdentity(clusterName(i))), replicas: func() []string { return []string{hub.address} },
			handler: answers,
		}
		if encrypted {
			a.tls = s.agentTLS()
		}
		return a
	})
	took := time.Since(begun)
	b.ReportMetric(float64(took)/float64(*agents), "ns/op")
	b.ReportMetric(took.Seconds(), "all-connected-s")
	<-time.After(*settling)
	spent, begun := hub.CPU(b), time.Now()
	<-time.After(*idleFor)
	b.ReportMetric((hub.CPU(b)-spent).Seconds()/time.Since(begun).Seconds(), "hub-cores")
	now, highest := hub.Memory(b)
	b.ReportMetric(float64(now)/MiB, "hub-MiB")
	b.ReportMetric(float64(highest)/MiB, "hub-peak-MiB")
	b.ReportMetric(float64(now-empty)/float64(*agents)/1024, "KiB/agent")
}

// agentTLS returns the TLS settings of an agent: HTTP/1.1 only.
func (s *bench) agentTLS() *tls.Config {
	config := s.trusted.Clone()
	config.ServerName, config.NextProtos = "127.0.0.1", []string{"http/1.1"}
	return config
}
