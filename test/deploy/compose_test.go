// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/test/supply"
)

// loadCompose reads docker-compose.yml with the variables of a file .env; a fresh clone has none.
// All services are in the project, including services that `up` does not start.
func loadCompose(t *testing.T, env ...string) *types.Project {
	t.Helper()
	return loadProfiles(t, []string{"tools", "observe", "demo"}, env...)
}

// loadProfiles is [loadCompose] for the services of these profiles, and the ones without a profile.
func loadProfiles(t *testing.T, profiles []string, env ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(top, "docker-compose.yml")}, cli.WithEnv(env), cli.WithProfiles(profiles))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatalf("load docker-compose.yml: %v", err)
	}
	return project
}

// TestComposeProfiles requires that `up` starts the hub alone, which then sends no telemetry, and that
// the profile observe adds what receives it. The profile demo sends none.
func TestComposeProfiles(t *testing.T) {
	t.Parallel()
	core := []string{"distributor-1", "distributor-2", "front", "gitcache-1", "gitcache-2", "init", "postgres", "redis", "tunnel-1", "tunnel-2"}
	observe, demo := []string{"collector", "dashboards", "metrics", "traces"}, []string{"demo", "demo-agent", "demo-cluster", "demo-fleet", "demo-git", "demo-token"}
	const collector = "http://collector:4318"
	for profile, want := range map[string]struct {
		services []string
		endpoint string
	}{
		"":             {core, ""},
		"demo":         {slices.Concat(core, demo), ""},
		"observe":      {slices.Concat(core, observe), collector},
		"demo,observe": {slices.Concat(core, demo, observe), collector},
		"observe,demo": {slices.Concat(core, demo, observe), collector},
	} {
		project := loadProfiles(t, strings.Split(profile, ","), "COMPOSE_PROFILES="+profile)
		slices.Sort(want.services)
		if got := slices.Sorted(maps.Keys(project.Services)); !slices.Equal(got, want.services) {
			t.Errorf("profile %q: got %v, want %v", profile, got, want.services)
		}
		for _, name := range []string{"gitcache-1", "distributor-2", "tunnel-1"} {
			got := ""
			if endpoint := project.Services[name].Environment["OTEL_EXPORTER_OTLP_ENDPOINT"]; endpoint != nil {
				got = *endpoint
			}
			if got != want.endpoint {
				t.Errorf("profile %q: %s sends telemetry to %q, want %q", profile, name, got, want.endpoint)
			}
		}
	}
}

// TestSecComposeIsLockedDown requires that the local stack follows the rules of the manifests. The
// cluster of the demo runs containers of its own, and shares no network with the hub's services.
func TestSecComposeIsLockedDown(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	on := map[string][]string{}
	for name, s := range project.Services {
		network := map[string]string{"init": "none", "demo-agent": "service:demo-cluster"}[name]
		if name == "demo-cluster" {
			if _, alone := s.Networks["demo"]; !alone || len(s.Networks) > 1 || len(s.Ports) > 0 {
				t.Errorf("%s is on %v and publishes %v, want the network demo alone", name, s.Networks, s.Ports)
			}
		} else if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 || s.Privileged || s.MemLimit == 0 ||
			!slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.NetworkMode != network {
			t.Errorf("%s is not locked down", name)
		}
		for _, p := range s.Ports {
			if isWayIn := name == "front" || name == "traces" || name == "metrics" || name == "dashboards" || name == "demo-git"; p.HostIP != "127.0.0.1" || !isWayIn {
				t.Errorf("%s publishes port %d at %q", name, p.Target, p.HostIP)
			}
		}
		for network := range s.Networks {
			on[network] = append(on[network], name)
		}
	}
	for network, want := range map[string][]string{
		"redis":    {"gitcache-1", "gitcache-2", "redis", "tunnel-1", "tunnel-2"},
		"database": {"distributor-1", "distributor-2", "postgres"},
		"demo":     {"demo-cluster", "front"},
	} {
		isInternal := network != "demo" // the cluster pulls images
		if slices.Sort(on[network]); !slices.Equal(on[network], want) || project.Networks[network].Internal != isInternal {
			t.Errorf("on network %s are %v, want %v; without a way out: want %t", network, on[network], want, isInternal)
		}
	}
	redis := project.Services["redis"]
	if !slices.Equal(redis.Entrypoint, []string{"/bin/sh", "/etc/leat-redis/start.sh"}) || len(redis.Command) > 0 {
		t.Errorf("Redis is started by %v %v, want the script", redis.Entrypoint, redis.Command)
	}
}

// readers names the volume of secrets of each service that has one.
var readers = map[string]string{
	"gitcache-1": "gitcache", "gitcache-2": "gitcache", "distributor-1": "distributor", "distributor-2": "distributor",
	"tunnel-1": "tunnel", "tunnel-2": "tunnel", "front": "front", "redis": "redis", "postgres": "postgres", "leat": "people",
	"demo": "people", "demo-fleet": "people", "demo-token": "people", "demo-agent": "agent",
}

// TestSecComposeServicesReadTheirOwnSecrets requires that a service can read the volume with its own
// secrets and no other one, that it starts after these are made, and that only its group may read
// them. The service init alone has all volumes, and the volume of the authority's key.
func TestSecComposeServicesReadTheirOwnSecrets(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	for name, s := range project.Services {
		var got, want []string
		for _, v := range s.Volumes {
			if strings.HasPrefix(v.Source, "secrets-") {
				got = append(got, fmt.Sprintf("%s at %s, read only: %t", v.Source, v.Target, v.ReadOnly))
			}
		}
		if reader := readers[name]; reader != "" {
			want = append(want, fmt.Sprintf("secrets-%s at /etc/leat-secrets, read only: true", reader))
			if s.DependsOn["init"].Condition != types.ServiceConditionCompletedSuccessfully {
				t.Errorf("%s: got %+v, want it to start after init has succeeded", name, s.DependsOn["init"])
			}
		}
		if name == "init" {
			for _, reader := range append([]string{"authority"}, slices.Compact(slices.Sorted(maps.Values(readers)))...) {
				want = append(want, fmt.Sprintf("secrets-%s at /secrets/%s, read only: false", reader, reader))
			}
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got the volumes\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	first := project.Services["init"]
	if first.Restart != "no" || first.User != "0:0" {
		t.Errorf("init: got restart %q and user %q, want a run for each `up`, by the owner of the files", first.Restart, first.User)
	}
	groups := map[string]string{}
	for _, arg := range first.Command {
		list, found := strings.CutPrefix(arg, "--group=")
		for pair := range strings.SplitSeq(list, ",") {
			if reader, group, ok := strings.Cut(pair, "="); found && ok {
				groups[reader] = group
			}
		}
	}
	for name, reader := range readers {
		user := cmp.Or(project.Services[name].User, "65532:65532") // the user of our images
		if _, group, _ := strings.Cut(user, ":"); groups[reader] != group || !slices.Contains(first.GroupAdd, group) {
			t.Errorf("%s runs as %s: got group %q in %v for %s", name, user, groups[reader], first.GroupAdd, reader)
		}
	}
}

// secretSetting matches the name of a variable that holds a secret. Names of files end otherwise.
var secretSetting = regexp.MustCompile(`(SECRETS?|PASSWORD|TOKEN|KEYS?|DATABASE_URL|REDIS_URL)$`)

// TestSecComposeHasNoSecretInEnvironments requires that `docker inspect` shows no secret, and that
// none is taken from a file .env.
func TestSecComposeHasNoSecretInEnvironments(t *testing.T) {
	t.Parallel()
	for name, s := range loadCompose(t).Services {
		for key, value := range s.Environment {
			if secretSetting.MatchString(key) {
				t.Errorf("%s: %s is set, want %s_FILE", name, key, key)
			}
			if value != nil && strings.Contains(*value, "@") {
				t.Errorf("%s: %s has a URL with a user", name, key)
			}
		}
	}
	for _, used := range regexp.MustCompile(`\$\{(\w+)`).FindAllSubmatch(read(t, top, "docker-compose.yml"), -1) {
		if secretSetting.Match(used[1]) {
			t.Errorf("docker-compose.yml takes %s from the environment", used[1])
		}
	}
}

// TestComposeNeedsNoSettings requires that the file is complete without variables, and that ports and
// names can be chosen.
func TestComposeNeedsNoSettings(t *testing.T) {
	t.Parallel()
	all := []string{
		"LEAT_PORT=1", "LEAT_GIT_PORT=4", "LEAT_TRACES_PORT=5", "LEAT_METRICS_PORT=6", "LEAT_DASHBOARDS_PORT=7", "LEAT_URL=https://hub.example.com", "LEAT_TLS_NAMES=hub.example.com,192.0.2.7",
	}
	for _, tt := range []struct {
		env   []string
		url   string
		ports []string
		names string
	}{
		{nil, "https://127.0.0.1:8443", []string{"16686", "3000", "8443", "8444", "9090"}, "tunnel-1,tunnel-2,front,"},
		{[]string{"LEAT_PORT=1"}, "https://127.0.0.1:1", []string{"1", "16686", "3000", "8444", "9090"}, "tunnel-1,tunnel-2,front,"},
		{all, "https://hub.example.com", []string{"1", "4", "5", "6", "7"}, "tunnel-1,tunnel-2,front,hub.example.com,192.0.2.7"},
	} {
		project := loadCompose(t, tt.env...)
		var ports []string
		for _, s := range project.Services {
			for _, p := range s.Ports {
				ports = append(ports, p.Published)
			}
		}
		if slices.Sort(ports); !slices.Equal(ports, tt.ports) {
			t.Errorf("%v: got the ports %v, want %v", tt.env, ports, tt.ports)
		}
		for service, variables := range map[string][]string{
			"init": {"LEAT_SERVER"}, "distributor-1": {"LEAT_TUNNEL_URL", "LEAT_DISTRIBUTOR_PUBLIC_URL"}, "distributor-2": {"LEAT_TUNNEL_URL", "LEAT_DISTRIBUTOR_PUBLIC_URL"},
		} {
			for _, variable := range variables {
				if url := *project.Services[service].Environment[variable]; url != tt.url {
					t.Errorf("%v: %s of %s is %s, want %s", tt.env, variable, service, url, tt.url)
				}
			}
		}
		if first := project.Services["init"]; !slices.Contains(first.Command, "--tls-name="+tt.names) {
			t.Errorf("%v: got %v, want the names %s", tt.env, first.Command, tt.names)
		}
		for _, name := range []string{"tunnel-1", "tunnel-2"} {
			if u := *project.Services[name].Environment["LEAT_TUNNEL_ADVERTISE_URL"]; u != "https://"+name+":8705" {
				t.Errorf("%s: other replicas are sent to %s, want its own name with https", name, u)
			}
		}
	}
}

// TestComposeServicesHaveHealthChecks requires that `up --wait` waits for every service that can
// report its health, and that services start after the services that they cannot start without.
func TestComposeServicesHaveHealthChecks(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	for name, s := range project.Services {
		hasOwn := hasOwnImage(t, s) // which has a check
		if hasOwn == (s.HealthCheck != nil) && name != "collector" && name != "demo" {
			t.Errorf("%s: got the health check %v", name, s.HealthCheck)
		}
	}
	// The server that makes a database at the first start listens on the socket alone.
	if test := project.Services["postgres"].HealthCheck.Test; !slices.Contains(test, "127.0.0.1") {
		t.Errorf("postgres: got the health check %v, want it to connect by TCP", test)
	}
	for _, name := range []string{"tunnel-1", "tunnel-2"} {
		if after := project.Services[name].DependsOn["distributor-1"]; after.Condition != types.ServiceConditionHealthy {
			t.Errorf("%s: got %+v, want it to start after the distributor is healthy", name, after)
		}
	}
}

// TestComposeBuildsEachImageOnce requires that no two services build one tag, which fails where the
// engine keeps images in containerd, and that an image of ours is never downloaded: a registry's
// may be of another commit.
func TestComposeBuildsEachImageOnce(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	built := map[string]int{}
	for name, s := range project.Services {
		if !hasOwnImage(t, s) {
			if s.Build != nil {
				t.Errorf("%s: builds %s, a name of somebody else", name, s.Image)
			}
			continue
		}
		if s.PullPolicy != types.PullPolicyNever {
			t.Errorf("%s: got the pull policy %q for %s, want what this checkout builds", name, s.PullPolicy, s.Image)
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

// hasOwnImage reports whether a service runs an image that is built from this repository.
func hasOwnImage(t *testing.T, s types.ServiceConfig) bool {
	t.Helper()
	image, err := supply.ParseImage(s.Image)
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return own(t).Has(image)
}

// TestSecComposeServicesListenOnTheHubsNetwork requires that a service which shares the networks of
// Redis and of the collector with others does not answer them: its name for listening exists on one
// network alone.
func TestSecComposeServicesListenOnTheHubsNetwork(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	checked := 0
	for name, s := range project.Services {
		for _, setting := range []string{"LEAT_LISTEN_ADDR", "LEAT_TUNNEL_PEER_LISTEN_ADDR"} {
			addr := s.Environment[setting]
			if addr == nil {
				continue
			}
			checked++
			host, _, err := net.SplitHostPort(*addr)
			if name == "demo-agent" {
				if host != "127.0.0.1" {
					t.Errorf("%s: %s is %s, want the loopback interface", name, setting, *addr)
				}
				continue
			}
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
	if checked != 9 {
		t.Errorf("checked %d listeners, want 9", checked)
	}
}

// TestComposeBoundsWhatPrometheusKeeps requires bounds for samples, because a tmpfs counts against
// the container's memory.
func TestComposeBoundsWhatPrometheusKeeps(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	s := project.Services["metrics"]
	if !slices.Contains(s.Command, "--storage.tsdb.retention.size=400MB") || len(s.Tmpfs) != 1 || !strings.Contains(s.Tmpfs[0], "size=512m") || s.MemLimit != 1<<30 {
		t.Errorf("got %v on %v with %d bytes of memory", s.Command, s.Tmpfs, s.MemLimit)
	}
}

// TestComposeMetricsAreComplete requires that Prometheus scrapes every replica under its own name: a
// name that two replicas share would be one target, whose counters jump.
func TestComposeMetricsAreComplete(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	var file struct {
		Configs []struct {
			Static []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(read(t, top, "deploy", "compose", "prometheus.yml"), &file); err != nil {
		t.Fatal(err)
	}
	var targets []string
	want := []string{"collector:8888", "traces:8888"}
	for _, c := range file.Configs {
		for _, s := range c.Static {
			targets = append(targets, s.Targets...)
		}
	}
	for name, s := range project.Services {
		if s.Environment["LEAT_INTERNAL_LISTEN_ADDR"] == nil {
			continue
		}
		want = append(want, name+*s.Environment["LEAT_INTERNAL_LISTEN_ADDR"])
		if _, ok := s.Networks["telemetry"]; !ok {
			t.Errorf("%s is out of reach of Prometheus", name)
		}
	}
	slices.Sort(targets)
	slices.Sort(want)
	if !slices.Equal(targets, want) {
		t.Errorf("Prometheus scrapes %v, want each service once: %v", targets, want)
	}
}

// TestComposeDashboardsAreShown requires that Grafana finds the folder of the dashboards and the
// Prometheus that scrapes the services, and that it asks for no password: the stack makes none for it.
func TestComposeDashboardsAreShown(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	s := project.Services["dashboards"]
	mounted := map[string]string{}
	for _, v := range s.Volumes {
		mounted[v.Target] = v.Source
	}
	var sources struct {
		Datasources []struct{ Type, URL string }
	}
	if err := yaml.Unmarshal(read(t, mounted["/etc/grafana/provisioning"], "datasources", "prometheus.yml"), &sources); err != nil {
		t.Fatal(err)
	}
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || sources.Datasources[0].URL != "http://metrics:9090" {
		t.Errorf("got the sources %+v, want the service metrics", sources.Datasources)
	}
	var files struct {
		Providers []struct{ Options struct{ Path string } }
	}
	if err := yaml.Unmarshal(read(t, mounted["/etc/grafana/provisioning"], "dashboards", "leat.yml"), &files); err != nil {
		t.Fatal(err)
	}
	if len(files.Providers) != 1 {
		t.Fatalf("got %+v, want one folder", files.Providers)
	}
	found, err := filepath.Glob(filepath.Join(mounted[files.Providers[0].Options.Path], "*.json"))
	if err != nil || len(found) == 0 {
		t.Errorf("got the dashboards %v, %v, want those of deploy/dashboards", found, err)
	}
	for name, want := range map[string]string{"GF_AUTH_ANONYMOUS_ENABLED": "true", "GF_AUTH_BASIC_ENABLED": "false", "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true"} {
		if got := s.Environment[name]; got == nil || *got != want {
			t.Errorf("%s: want %s", name, want)
		}
	}
}

// TestComposeObservesWithWhatWasTested requires that the images of the profile observe have the
// versions that tools/ builds for the tests.
func TestComposeObservesWithWhatWasTested(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	for service, built := range map[string]struct {
		modules, path string
		tag           func(major, minor, patch int) string
	}{
		"collector": {"tools/containers/otelcol", "go.opentelemetry.io/collector/otelcol", func(major, minor, patch int) string {
			return fmt.Sprintf("otel/opentelemetry-collector:%d.%d.%d", major, minor, patch)
		}},
		// Its modules are from version 1, whose last program was released with 2.13.
		"traces": {"tools/containers/jaeger", "github.com/jaegertracing/jaeger", func(_, minor, patch int) string {
			return fmt.Sprintf("jaegertracing/jaeger:2.%d.%d", minor-63, patch)
		}},
		// https://github.com/prometheus/prometheus#prometheus-code-base
		"metrics": {"tools/prometheus", "github.com/prometheus/prometheus", func(_, minor, patch int) string {
			return fmt.Sprintf("prom/prometheus:v%d.%d.%d", minor/100, minor%100, patch)
		}},
	} {
		file, err := modfile.Parse("go.mod", read(t, top, built.modules, "go.mod"), nil)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == built.path })
		if at < 0 {
			t.Fatalf("%s/go.mod does not name %s", built.modules, built.path)
		}
		var major, minor, patch int
		if _, err := fmt.Sscanf(file.Require[at].Mod.Version, "v%d.%d.%d", &major, &minor, &patch); err != nil {
			t.Fatal(err)
		}
		if got, want := project.Services[service].Image, built.tag(major, minor, patch); got != want {
			t.Errorf("%s: got %s, want %s, which %s builds", service, got, want, built.modules)
		}
	}
}
