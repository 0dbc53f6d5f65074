// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

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

// Cluster starts a cluster and waits until all its nodes call it whole.
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
		await(t, "the cluster is whole", func(ctx context.Context) bool {
			info, err := node.Client(t).ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok")
		})
	}
	return c
}

// shareSlots gives each master its slots, and an epoch of its own, so that they need not settle who is right.
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
		await(t, "the nodes know one another", func(ctx context.Context) bool {
			known, err := node.Client(t).ClusterNodes(ctx).Result()
			return err == nil && strings.Count(known, "\n") == clusterNodes && !strings.Contains(known, "handshake")
		})
	}
}

// replicate makes a replica of each master, and waits until it is in step.
func (c *ServerCluster) replicate(t testing.TB) {
	t.Helper()
	for i := range clusterMasters {
		id, err := c.nodes[i].Client(t).Do(t.Context(), "CLUSTER", "MYID").Text()
		must(t, err)
		must(t, c.nodes[i+clusterMasters].Client(t).ClusterReplicate(t.Context(), id).Err())
	}
	for _, node := range c.nodes[:clusterMasters] {
		await(t, "the replicas are in step", func(ctx context.Context) bool {
			info, err := node.Client(t).Info(ctx, "replication").Result()
			return err == nil && strings.Contains(info, "state=online")
		})
	}
}

// URL returns the cluster in the form that LEAT_REDIS_URL takes.
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

// KillMasterOf kills the master that holds a key's slot, and returns when its replica has taken its place.
func (c *ServerCluster) KillMasterOf(t testing.TB, key string) {
	t.Helper()
	master, err := c.Client(t).MasterForKey(t.Context(), key)
	must(t, err)
	killed := master.Options().Addr
	for _, node := range c.nodes {
		if node.addr == killed {
			node.Kill(t)
		}
	}
	await(t, "a replica has taken over", func(ctx context.Context) bool {
		client := c.Client(t)
		now, err := client.MasterForKey(ctx, key)
		return err == nil && now.Options().Addr != killed && now.Ping(ctx).Err() == nil
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
