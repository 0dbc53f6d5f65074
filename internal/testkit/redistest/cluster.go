// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
)

const (
	clusterMasters = 3
	clusterNodes   = 2 * clusterMasters
	clusterSlots   = 16384
)

// ServerCluster is a Redis cluster: three masters that share the slots, and a replica of each.
type ServerCluster struct {
	nodes []*Server
}

// Cluster starts a cluster and waits until all its nodes report it as complete.
func Cluster(t testing.TB) *ServerCluster {
	t.Helper()
	c := &ServerCluster{}
	buses := make([]string, 0, clusterNodes)
	for range clusterNodes {
		_, bus, err := net.SplitHostPort(loopback.Addr(t))
		if err != nil {
			t.Fatal(err)
		}
		buses = append(buses, bus)
		c.nodes = append(c.nodes, start(t, "", "--cluster-enabled", "yes", "--cluster-port", bus,
			"--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"))
	}
	c.shareSlots(t)
	c.meet(t, buses)
	c.replicate(t)
	for _, node := range c.nodes {
		await.True(t, "the cluster to be whole", func() bool {
			info, err := node.Client(t).ClusterInfo(t.Context()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok")
		})
	}
	return c
}

// shareSlots gives each master its slots, and a different epoch, so that they need not resolve a
// conflict.
func (c *ServerCluster) shareSlots(t testing.TB) {
	t.Helper()
	for i, node := range c.nodes {
		client := node.Client(t)
		must(t, client.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		if i < clusterMasters {
			from, to := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1
			must(t, client.ClusterAddSlotsRange(t.Context(), from, to).Err())
		}
	}
}

// meet makes every node know every other one.
func (c *ServerCluster) meet(t testing.TB, buses []string) {
	t.Helper()
	first := c.nodes[0].Client(t)
	for i, node := range c.nodes[1:] {
		host, port, err := net.SplitHostPort(node.addr)
		must(t, err)
		must(t, first.Do(t.Context(), "CLUSTER", "MEET", host, port, buses[i+1]).Err())
	}
	for _, node := range c.nodes {
		await.True(t, "the nodes to know one another", func() bool {
			known, err := node.Client(t).ClusterNodes(t.Context()).Result()
			return err == nil && strings.Count(known, "\n") == clusterNodes && !strings.Contains(known, "handshake")
		})
	}
}

// replicate makes a replica of each master, and waits until it is in sync.
func (c *ServerCluster) replicate(t testing.TB) {
	t.Helper()
	for i := range clusterMasters {
		id, err := c.nodes[i].Client(t).Do(t.Context(), "CLUSTER", "MYID").Text()
		must(t, err)
		must(t, c.nodes[i+clusterMasters].Client(t).ClusterReplicate(t.Context(), id).Err())
	}
	for _, node := range c.nodes[:clusterMasters] {
		node.awaitInfo(t, "replication", "state=online", 1)
	}
}

// URL returns the cluster in the form of LEAT_REDIS_URL.
func (c *ServerCluster) URL() string {
	return "redis+cluster://" + c.nodes[0].addr + "?addr=" + c.nodes[1].addr + "&addr=" + c.nodes[2].addr
}

// Client returns a new client, closed when t ends.
func (c *ServerCluster) Client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	addrs := make([]string, 0, len(c.nodes))
	for _, node := range c.nodes {
		addrs = append(addrs, node.addr)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// KillMasterOf kills the master that holds a key's slot, and returns when every remaining node
// regards its replica as the new master: a client may ask any of them.
func (c *ServerCluster) KillMasterOf(t testing.TB, key string) {
	t.Helper()
	slot, err := c.nodes[0].Client(t).ClusterKeySlot(t.Context(), key).Result()
	must(t, err)
	killed := c.masterOf(t.Context(), t, c.nodes[0], slot)
	var left []*Server
	for _, node := range c.nodes {
		if node.addr == killed {
			node.Kill(t)
		} else {
			left = append(left, node)
		}
	}
	for _, node := range left {
		await.True(t, "a replica to take over", func() bool {
			master := c.masterOf(t.Context(), t, node, slot)
			return master != "" && master != killed
		})
	}
}

// masterOf returns the address of a slot's master according to a node, or "" while that node
// regards the cluster as incomplete.
func (c *ServerCluster) masterOf(ctx context.Context, t testing.TB, node *Server, slot int64) string {
	t.Helper()
	client := node.Client(t)
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil || !strings.Contains(info, "cluster_state:ok") {
		return ""
	}
	shares, err := client.ClusterSlots(ctx).Result() //nolint:staticcheck // its successor is unknown before Redis 7
	if err != nil {
		return ""
	}
	for _, share := range shares {
		if int64(share.Start) <= slot && slot <= int64(share.End) && len(share.Nodes) > 0 {
			return share.Nodes[0].Addr
		}
	}
	return ""
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
