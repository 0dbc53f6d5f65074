// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
)

const (
	masterName = "mymaster"
	replicas   = 2
	sentinels  = 3
	groupPass  = "password-of-a-test"
)

// SentinelGroup is a master with two replicas, watched by three Sentinels. The servers require a
// password.
type SentinelGroup struct {
	servers, sentinels []*Server
}

// Sentinel starts a group and waits until its replicas are in sync and its Sentinels know one
// another, so that a fail-over at any later moment finds a quorum and a replica with all data.
func Sentinel(t testing.TB) *SentinelGroup {
	t.Helper()
	common := []string{"--masterauth", groupPass, "--repl-diskless-sync-delay", "0"}
	master := start(t, groupPass, common...)
	host, port, err := net.SplitHostPort(master.addr)
	if err != nil {
		t.Fatal(err)
	}
	g := &SentinelGroup{servers: []*Server{master}}
	for range replicas {
		g.servers = append(g.servers, start(t, groupPass, append(common, "--replicaof", host+" "+port)...))
	}
	master.awaitInfo(t, "replication", "state=online", replicas)
	for range sentinels {
		g.sentinels = append(g.sentinels, startSentinel(t, host, port))
	}
	for _, s := range g.sentinels {
		s.awaitInfo(t, "sentinel", fmt.Sprintf("slaves=%d,sentinels=%d", replicas, sentinels), 1)
	}
	return g
}

func startSentinel(t testing.TB, host, port string) *Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf") // Sentinel writes its state to it
	lines := []string{
		fmt.Sprintf("sentinel monitor %s %s %s 2", masterName, host, port),
		"sentinel auth-pass " + masterName + " " + groupPass,
		"sentinel down-after-milliseconds " + masterName + " 1000",
		"sentinel failover-timeout " + masterName + " 3000",
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, "", file, "--sentinel")
}

// URL returns the group in the form of LEAT_REDIS_URL.
func (g *SentinelGroup) URL() string {
	url := fmt.Sprintf("redis+sentinel://%s/0?master_name=%s&password=%s", g.sentinels[0].addr, masterName, groupPass)
	for _, s := range g.sentinels[1:] {
		url += "&addr=" + s.addr
	}
	return url
}

// KillMaster kills the current master, and returns when the Sentinels have elected another one.
func (g *SentinelGroup) KillMaster(t testing.TB) {
	t.Helper()
	before := g.master(t.Context(), t)
	for _, s := range g.servers {
		if s.addr == before {
			s.Kill(t)
		}
	}
	await.True(t, "another master", func() bool {
		after := g.master(t.Context(), t)
		return after != "" && after != before
	})
}

// master returns the address that a Sentinel names, or "" while it does not answer.
func (g *SentinelGroup) master(ctx context.Context, t testing.TB) string {
	t.Helper()
	at, err := g.sentinels[0].Client(t).Do(ctx, "SENTINEL", "get-master-addr-by-name", masterName).StringSlice()
	if err != nil || len(at) != 2 {
		return ""
	}
	return net.JoinHostPort(at[0], at[1])
}

// awaitInfo waits until a section of the server's information has the text so many times.
func (s *Server) awaitInfo(t testing.TB, section, text string, times int) {
	t.Helper()
	client := s.Client(t)
	await.True(t, s.addr+" to have "+text+" in its "+section, func() bool {
		info, err := client.Info(t.Context(), section).Result()
		return err == nil && strings.Count(info, text) == times
	})
}
