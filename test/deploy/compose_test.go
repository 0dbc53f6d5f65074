// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// TestSecComposeIsLockedDown requires that the local stack follows the rules of the manifests.
func TestSecComposeIsLockedDown(t *testing.T) {
	t.Parallel()
	secrets := composeSecrets(t)
	for i := range secrets {
		name, _, _ := strings.Cut(secrets[i], "=")
		if _, err := loadCompose(t, slices.Delete(slices.Clone(secrets), i, i+1)); err == nil || !strings.Contains(err.Error(), "deploy/secrets.sh") {
			t.Errorf("without %s: got %v, want to be told what makes it", name, err)
		}
	}
	project, err := loadCompose(t, secrets)
	if err != nil {
		t.Fatal(err)
	}
	on := map[string][]string{}
	for name, s := range project.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 || s.Privileged || s.MemLimit == 0 ||
			!slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.NetworkMode != "" {
			t.Errorf("%s is not locked down", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" || p.Target == internalPort || p.Target == peerPort {
				t.Errorf("%s publishes port %d at %q", name, p.Target, p.HostIP)
			}
		}
		for network := range s.Networks {
			on[network] = append(on[network], name)
		}
		checkComposeSecrets(t, name, s)
	}
	for network, want := range map[string][]string{
		"redis":    {"gitcache-1", "gitcache-2", "redis", "tunnel-1", "tunnel-2"},
		"database": {"distributor", "postgres"},
	} {
		if slices.Sort(on[network]); !slices.Equal(on[network], want) || !project.Networks[network].Internal {
			t.Errorf("on network %s are %v, want %v, and no way out for any", network, on[network], want)
		}
	}
	redis := project.Services["redis"]
	if !slices.Equal(redis.Entrypoint, []string{"/bin/sh", "/etc/leat-redis/start.sh"}) || len(redis.Command) > 0 {
		t.Errorf("Redis is started by %v %v, want the script", redis.Entrypoint, redis.Command)
	}
}

// checkComposeSecrets fails if a service has another service's secret, or a connection without a
// password.
func checkComposeSecrets(t *testing.T, name string, s types.ServiceConfig) {
	t.Helper()
	service := strings.TrimRight(name, "-12")
	for key, value := range s.Environment {
		if value == nil || !strings.Contains(key, "_URL") {
			continue
		}
		u, err := url.Parse(*value)
		if err != nil {
			t.Errorf("%s: %s is not a URL", name, key)
			continue
		}
		switch password, _ := u.User.Password(); u.Scheme {
		case "redis", "rediss":
			if u.User.Username() != service || len(password) < 32 {
				t.Errorf("%s connects to Redis as %q, want its own user", name, u.Redacted())
			}
		case "postgres":
			if len(password) < 32 {
				t.Errorf("%s talks to PostgreSQL by %q", name, u.Redacted())
			}
		}
	}
}
