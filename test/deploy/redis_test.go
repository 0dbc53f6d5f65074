// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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

// TestSecRedisDoesNotStartWithoutPasswords runs the start script of the manifests, with passwords in
// the environment and in files.
func TestSecRedisDoesNotStartWithoutPasswords(t *testing.T) {
	t.Parallel()
	good, other := strings.Repeat("a", 32), strings.Repeat("b", 32)
	for name, passwords := range map[string][2]string{
		"none": {"", ""}, "one": {good, ""}, "the other": {"", good}, "short": {good, "leat"}, "the same": {good, good},
	} {
		secrets := t.TempDir()
		for i, file := range []string{"gitcache-password", "tunnel-password"} {
			if err := os.WriteFile(filepath.Join(secrets, file), []byte(passwords[i]+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, env := range [][]string{
			{"REDIS_SECRETS=" + t.TempDir(), "REDIS_GITCACHE_PASSWORD=" + passwords[0], "REDIS_TUNNEL_PASSWORD=" + passwords[1]},
			{"REDIS_SECRETS=" + secrets},
		} {
			out, err := startRedis(t, nil, env...)
			isRefused := strings.Contains(out, "must have at least 32 bytes") || strings.Contains(out, "must not share")
			if err == nil || !isRefused || strings.Contains(out, good) || strings.Contains(out, other) {
				t.Errorf("%s, with %v: got %v and %q, want a description of valid passwords", name, env, err, out)
			}
		}
	}
}

// TestRedisReadsPasswordsFromFiles runs the start script with a program in place of Redis that prints
// the users.
func TestRedisReadsPasswordsFromFiles(t *testing.T) {
	t.Parallel()
	passwords := map[string]string{"gitcache": strings.Repeat("a", 32), "tunnel": strings.Repeat("b", 32)}
	secrets := t.TempDir()
	for user, password := range passwords {
		if err := os.WriteFile(filepath.Join(secrets, user+"-password"), []byte(password+"\n"), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	out, err := startRedis(t, []byte("#!/bin/sh\nwhile [ \"$1\" != --aclfile ]; do shift; done\ncat \"$2\"\n"), "REDIS_SECRETS="+secrets)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for user, password := range passwords {
		if sum := fmt.Sprintf("user %s on #%x ", user, sha256.Sum256([]byte(password))); !strings.Contains(out, sum) {
			t.Errorf("got the users\n%s, want one that begins with %s", out, sum)
		}
	}
}

// startRedis runs the start script in an environment, and returns what it prints. Where server is not
// empty, it is the program that the script runs as redis-server.
func startRedis(t *testing.T, server []byte, env ...string) (out string, err error) {
	t.Helper()
	path := os.Getenv("PATH")
	if len(server) > 0 {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "redis-server"), server, 0o700); err != nil {
			t.Fatal(err)
		}
		path = folder + string(os.PathListSeparator) + path
	}
	start := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join(top, "deploy", "redis", "start.sh"))
	// No server can listen on the port: one that starts in spite of its passwords ends at once.
	start.Env = append(os.Environ(), "PATH="+path, "REDIS_CONF="+filepath.Join(top, "deploy", "redis"), "REDIS_RUN="+t.TempDir(), "REDIS_PORT=65536")
	start.Env = append(start.Env, env...)
	printed, err := start.CombinedOutput()
	return string(printed), err
}
