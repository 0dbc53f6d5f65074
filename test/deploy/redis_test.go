// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSecRedisHasUsersAndPasswords compares what the manifests ship with what package redistest
// starts for the services' own tests.
func TestSecRedisHasUsersAndPasswords(t *testing.T) {
	t.Parallel()
	shipped := readManifests(t, "hub.yaml").configMaps["leat-redis"].Data
	for _, name := range []string{"users.acl", "start.sh"} {
		content, err := os.ReadFile(filepath.Join(top, "deploy", "redis", name))
		if err != nil {
			t.Fatal(err)
		}
		if shipped[name] != string(content) {
			t.Errorf("hub.yaml ships another %s than deploy/redis has", name)
		}
	}
	users := strings.Split(strings.TrimSpace(shipped["users.acl"]), "\n")
	if len(users) != 3 || users[0] != "user default off resetpass resetkeys resetchannels -@all" {
		t.Errorf("got users %q, want the default user off, and one for each service", users)
	}
	for _, user := range users[1:] {
		name := strings.Fields(user)[1]
		prefix := "leat:{" + name + "}:*"
		for _, rule := range strings.Fields(user)[3:] {
			if strings.HasPrefix(rule, "+@") || rule == "nopass" || rule == "+client" || rule == "+config" || rule == "+cluster" || rule == "+script" ||
				strings.HasPrefix(rule, ">") || (strings.HasPrefix(rule, "~") && rule != "~"+prefix) || (strings.HasPrefix(rule, "&") && rule != "&"+prefix) {
				t.Errorf("user %s has the rule %s", name, rule)
			}
		}
	}
	c := readManifests(t, "hub.yaml").pods["redis"].spec.Containers[0]
	if !slices.Equal(c.Command, []string{"/bin/sh", "/etc/leat-redis/start.sh"}) || len(c.Args) != 0 {
		t.Errorf("Redis is started by %v %v, want the script", c.Command, c.Args)
	}
}

// TestSecRedisDoesNotStartWithoutPasswords runs the start script of the manifests.
func TestSecRedisDoesNotStartWithoutPasswords(t *testing.T) {
	t.Parallel()
	good, other := strings.Repeat("a", 32), strings.Repeat("b", 32)
	for name, passwords := range map[string][2]string{
		"none": {"", ""}, "one": {good, ""}, "the other": {"", good}, "short": {good, "leat"}, "the same": {good, good},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		_ = listener.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		start := exec.CommandContext(ctx, "/bin/sh", filepath.Join(top, "deploy", "redis", "start.sh"))
		start.Env = append(os.Environ(), "REDIS_CONF="+filepath.Join(top, "deploy", "redis"), "REDIS_RUN="+t.TempDir(), "REDIS_PORT="+port,
			"REDIS_GITCACHE_PASSWORD="+passwords[0], "REDIS_TUNNEL_PASSWORD="+passwords[1])
		out, err := start.CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), "must ") || strings.Contains(string(out), good) || strings.Contains(string(out), other) {
			t.Errorf("%s: got %v and %q, want a description of valid passwords", name, err, out)
		}
	}
}
