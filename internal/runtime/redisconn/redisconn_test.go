// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package redisconn_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/runtime/redisconn"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// ping opens a client and sends one command.
func ping(t *testing.T, url, caFile string) error {
	t.Helper()
	client, err := redisconn.Open(url, caFile)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return client.Get(await.Context(t), "leat:{gitcache}:none").Err()
}

const absent = "redis: nil"

// TestSecRedisOverTLS connects to the Redis that deploy/ ships, which accepts only TLS if it has a
// certificate.
func TestSecRedisOverTLS(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLSAs(t, "gitcache")
	if err := ping(t, server.URL(), server.CAFile()); err == nil || err.Error() != absent {
		t.Errorf("got %v, want an answer over TLS", err)
	}
	plain := "redis" + strings.TrimPrefix(server.URL(), "rediss")
	other := redistest.StartTLSAs(t, "gitcache")
	for name, try := range map[string][2]string{
		"the system's certificates": {server.URL(), ""},
		"another authority":         {server.URL(), other.CAFile()},
		"without TLS":               {plain, ""},
		"verification turned off":   {server.URL() + "?skip_verify=true", ""},
	} {
		if err := ping(t, try[0], try[1]); err == nil || err.Error() == absent {
			t.Errorf("%s: got %v, want no answer", name, err)
		}
	}
	// One node is enough to check that cluster nodes are called over TLS. This one answers that it
	// is not in cluster mode.
	cluster := "rediss+cluster" + strings.TrimSuffix(strings.TrimPrefix(server.URL(), "rediss"), "/0")
	if err := ping(t, cluster, server.CAFile()); err == nil || !strings.Contains(err.Error(), "cluster support disabled") {
		t.Errorf("cluster: got %v, want the server's own words", err)
	}
	if err := ping(t, cluster, other.CAFile()); err == nil || strings.Contains(err.Error(), "cluster support disabled") {
		t.Errorf("cluster with another authority: got %v, want no answer", err)
	}
}

// TestSecRedisAsksForAPassword connects to the Redis that deploy/ ships, as one of its users and as
// others.
func TestSecRedisAsksForAPassword(t *testing.T) {
	t.Parallel()
	server := redistest.StartAs(t, "gitcache")
	if err := ping(t, server.URL(), ""); err == nil || err.Error() != absent {
		t.Errorf("got %v, want an answer", err)
	}
	for _, user := range []string{"", "gitcache@", "gitcache:wrong@", "tunnel:@", "default:@", ":wrong@"} {
		if err := ping(t, "redis://"+user+server.Addr(), ""); err == nil || err.Error() == absent {
			t.Errorf("user %q: got %v, want it refused", user, err)
		}
	}
	client := server.Client(t)
	for _, refused := range [][]any{
		{"GET", "leat:{tunnel}:urls"},
		{"HSET", "leat:{tunnel}:urls", "evil", "x"},
		{"PUBLISH", "leat:{tunnel}:routes", "x"},
		{"EVAL", "return redis.call('HGETALL', 'leat:{tunnel}:urls')", 0},
		{"EVAL", "return 1", 1, "leat:{tunnel}:urls"},
		{"SUBSCRIBE", "leat:{tunnel}:routes"},
		{"PSUBSCRIBE", "*"},
		{"KEYS", "*"},
		{"SCAN", "0"},
		{"MONITOR"},
		{"CONFIG", "GET", "*"},
		{"ACL", "LIST"},
		{"ACL", "SETUSER", "x"},
		{"FLUSHALL"},
		{"FLUSHDB"},
		{"DEBUG", "SLEEP", 0},
		{"SHUTDOWN"},
		{"REPLICAOF", "127.0.0.1", "1"},
		{"CLIENT", "LIST"},
		{"CLIENT", "KILL", "ID", "1"},
		{"SCRIPT", "FLUSH"},
		{"FUNCTION", "LIST"},
		{"MODULE", "LIST"},
		{"SAVE"},
		{"MIGRATE", "127.0.0.1", "1", "leat:{gitcache}:x", "0", "1"},
	} {
		if err := client.Do(t.Context(), refused...).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "can't access") &&
			!strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%v: got %v, want it refused", refused, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string][2]string{
		"a CA file without TLS":          {"redis://h", empty},
		"a CA file that is not there":    {"rediss://h", empty + "x"},
		"a CA file without certificates": {"rediss+sentinel://h?master_name=m", empty},
		"another scheme":                 {"redis+ring://h", ""},
		"a Sentinel without a master":    {"redis+sentinel://h", ""},
	} {
		if client, err := redisconn.Open(try[0], try[1]); err == nil {
			_ = client.Close()
			t.Errorf("%s: got no error", name)
		}
	}
}
