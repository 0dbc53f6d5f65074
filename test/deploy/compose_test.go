// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"net"
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

// TestComposeServicesHaveHealthChecks requires that `up --wait` waits for every service that can
// report its health, and that services start after those that they cannot start without.
func TestComposeServicesHaveHealthChecks(t *testing.T) {
	t.Parallel()
	project, err := loadCompose(t, composeSecrets(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range project.Services {
		isOurs := strings.HasPrefix(s.Image, "leat/") // their images have a check
		if isOurs == (s.HealthCheck != nil) && name != "collector" {
			t.Errorf("%s: got the health check %v", name, s.HealthCheck)
		}
	}
	// The server that makes a database at the first start listens on the socket alone.
	if test := project.Services["postgres"].HealthCheck.Test; !slices.Contains(test, "127.0.0.1") {
		t.Errorf("postgres: got the health check %v, want it to connect by TCP", test)
	}
	for _, name := range []string{"tunnel-1", "tunnel-2"} {
		if after := project.Services[name].DependsOn["distributor"]; after.Condition != types.ServiceConditionHealthy {
			t.Errorf("%s: got %+v, want it to start after the distributor is healthy", name, after)
		}
	}
}

// TestComposeBuildsEachImageOnce requires that no two services build one tag, which fails where the
// engine keeps images in containerd, and that an image of ours is never downloaded.
func TestComposeBuildsEachImageOnce(t *testing.T) {
	t.Parallel()
	project, err := loadCompose(t, composeSecrets(t))
	if err != nil {
		t.Fatal(err)
	}
	built := map[string]int{}
	for name, s := range project.Services {
		if !strings.HasPrefix(s.Image, "leat/") {
			continue
		}
		if s.PullPolicy != types.PullPolicyNever {
			t.Errorf("%s: got the pull policy %q for %s, which others may own at Docker Hub", name, s.PullPolicy, s.Image)
		}
		built[s.Image] += 0
		if s.Build != nil {
			built[s.Image]++
		}
	}
	for image, count := range built {
		if count != 1 {
			t.Errorf("%d services build %s, want 1", count, image)
		}
	}
}

// TestSecComposeServicesListenOnTheHubsNetwork requires that a service which shares the networks of
// Redis and of the collector with others does not answer them: its name for listening exists on one
// network alone.
func TestSecComposeServicesListenOnTheHubsNetwork(t *testing.T) {
	t.Parallel()
	project, err := loadCompose(t, composeSecrets(t))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for name, s := range project.Services {
		for _, setting := range []string{"LEAT_LISTEN_ADDR", "LEAT_TUNNEL_PEER_LISTEN_ADDR"} {
			addr := s.Environment[setting]
			if addr == nil {
				continue
			}
			checked++
			host, _, err := net.SplitHostPort(*addr)
			if err != nil || host == "" || host == name {
				t.Errorf("%s: %s is %s, %v, want a name that only the network hub has", name, setting, *addr, err)
			}
			for network, attached := range s.Networks {
				if has := attached != nil && slices.Contains(attached.Aliases, host); has != (network == "hub") {
					t.Errorf("%s: the name %s on the network %s: got %t", name, host, network, has)
				}
			}
		}
	}
	if checked != 7 {
		t.Errorf("checked %d listeners, want 7", checked)
	}
}

// TestComposeBoundsWhatPrometheusKeeps requires bounds for samples, because a tmpfs counts against
// the container's memory.
func TestComposeBoundsWhatPrometheusKeeps(t *testing.T) {
	t.Parallel()
	project, err := loadCompose(t, composeSecrets(t))
	if err != nil {
		t.Fatal(err)
	}
	s := project.Services["metrics"]
	if !slices.Contains(s.Command, "--storage.tsdb.retention.size=400MB") || len(s.Tmpfs) != 1 || !strings.Contains(s.Tmpfs[0], "size=512m") || s.MemLimit != 1<<30 {
		t.Errorf("got %v on %v with %d bytes of memory", s.Command, s.Tmpfs, s.MemLimit)
	}
}
