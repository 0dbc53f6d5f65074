// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/test/supply"
)

const (
	internalPort = 8790
	peerPort     = 8705
)

// manifests holds those parts of deploy/kubernetes that these tests check.
type manifests struct {
	pods       map[string]pod // by the label app.kubernetes.io/name
	services   []corev1.Service
	configMaps map[string]corev1.ConfigMap
	policies   []networkingv1.NetworkPolicy
	namespaces []corev1.Namespace
}

type pod struct {
	namespace string
	labels    map[string]string
	spec      corev1.PodSpec
}

func readManifests(t *testing.T, files ...string) manifests {
	t.Helper()
	m := manifests{pods: map[string]pod{}, configMaps: map[string]corev1.ConfigMap{}}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(top, "deploy", "kubernetes", file))
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			m.add(t, file, []byte(document+"\n"))
		}
	}
	return m
}

func (m *manifests) add(t *testing.T, file string, document []byte) {
	t.Helper()
	parse := func(into any) {
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	addPod := func(namespace string, template corev1.PodTemplateSpec) {
		m.pods[template.Labels["app.kubernetes.io/name"]] = pod{namespace, template.Labels, template.Spec}
	}
	switch kind.Kind {
	case "Deployment":
		var d appsv1.Deployment
		parse(&d)
		addPod(d.Namespace, d.Spec.Template)
	case "StatefulSet":
		var s appsv1.StatefulSet
		parse(&s)
		addPod(s.Namespace, s.Spec.Template)
	case "DaemonSet", "Job", "CronJob", "Pod", "ReplicaSet":
		t.Errorf("%s: this test does not know how to look at a %s; teach it", file, kind.Kind)
	case "Service":
		var s corev1.Service
		parse(&s)
		m.services = append(m.services, s)
	case "ConfigMap":
		var c corev1.ConfigMap
		parse(&c)
		m.configMaps[c.Name] = c
	case "NetworkPolicy":
		var p networkingv1.NetworkPolicy
		parse(&p)
		m.policies = append(m.policies, p)
	case "Namespace":
		var n corev1.Namespace
		parse(&n)
		m.namespaces = append(m.namespaces, n)
	case "Secret":
		t.Errorf("%s ships a Secret; secrets are made by deploy/secrets.sh", file)
	}
}

// TestSecPodsAreLockedDown requires that every pod follows the rules of the profile "restricted", and some of our own.
func TestSecPodsAreLockedDown(t *testing.T) {
	t.Parallel()
	m := readManifests(t, "hub.yaml", "agent.yaml")
	if names := slices.Sorted(maps.Keys(m.pods)); !slices.Equal(names, []string{"distributor", "gitcache", "leat-agent", "redis", "tunnel"}) {
		t.Errorf("got pods %v, want these tests to know all of them", names)
	}
	for _, n := range m.namespaces {
		if n.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			t.Errorf("namespace %s does not enforce the profile restricted", n.Name)
		}
	}
	for name, p := range m.pods {
		usesAPI := name == "leat-agent"
		security := p.spec.SecurityContext
		switch {
		case security == nil || security.RunAsNonRoot == nil || !*security.RunAsNonRoot || security.RunAsUser == nil || *security.RunAsUser == 0:
			t.Errorf("%s may run as root", name)
		case security.SeccompProfile == nil || security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
			t.Errorf("%s has no seccomp profile", name)
		}
		if mounts := p.spec.AutomountServiceAccountToken == nil || *p.spec.AutomountServiceAccountToken; mounts != usesAPI {
			t.Errorf("%s mounts a service account's token: %t, want %t", name, mounts, usesAPI)
		}
		if p.spec.HostNetwork || p.spec.HostPID || p.spec.HostIPC || p.spec.EnableServiceLinks == nil || *p.spec.EnableServiceLinks {
			t.Errorf("%s shares something with its node, or is told of every service", name)
		}
		for _, v := range p.spec.Volumes {
			if v.HostPath != nil {
				t.Errorf("%s mounts a path of its node", name)
			}
		}
		for _, c := range slices.Concat(p.spec.Containers, p.spec.InitContainers) {
			checkContainer(t, name, c)
		}
	}
}

func checkContainer(t *testing.T, name string, c corev1.Container) {
	t.Helper()
	no := func(b *bool) bool { return b != nil && !*b }
	yes := func(b *bool) bool { return b != nil && *b }
	s := c.SecurityContext
	if s == nil || !no(s.AllowPrivilegeEscalation) || !yes(s.ReadOnlyRootFilesystem) || s.Capabilities == nil ||
		!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 || yes(s.Privileged) {
		t.Errorf("%s: security context is %+v, want no escalation, no capabilities and nothing writable", name, s)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
		t.Errorf("%s: resources are %+v, want a limit of memory, and requests", name, c.Resources)
	}
	for _, e := range c.Env {
		if sensitive.MatchString(e.Name) && e.Value != "" && !strings.HasPrefix(e.Value, "/") {
			t.Errorf("%s: %s is in the manifest, want it from a Secret", name, e.Name)
		}
	}
}

// sensitive matches the names of settings that hold a secret.
var sensitive = regexp.MustCompile(`SECRET|PASSWORD|TOKEN|DATABASE_URL|REDIS_URL`)

// TestSecNoProbeOnThePublicPort requires that health, metrics and the port for peers are not reachable from outside.
func TestSecNoProbeOnThePublicPort(t *testing.T) {
	t.Parallel()
	m := readManifests(t, "hub.yaml")
	for _, name := range []string{"gitcache", "distributor", "tunnel"} {
		c := m.pods[name].spec.Containers[0]
		ports := map[string]int32{}
		for _, p := range c.Ports {
			ports[p.Name] = p.ContainerPort
		}
		if ports["internal"] != internalPort || env(c, "LEAT_INTERNAL_LISTEN_ADDR") != fmt.Sprintf(":%d", internalPort) {
			t.Errorf("%s: ports are %v, want the internal one at %d", name, ports, internalPort)
		}
		for what, probe := range map[string]*corev1.Probe{"readiness": c.ReadinessProbe, "liveness": c.LivenessProbe, "startup": c.StartupProbe} {
			if probe == nil && what == "startup" {
				continue
			}
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Port.StrVal != "internal" {
				t.Errorf("%s: the %s probe is %+v, want it at the internal port", name, what, probe)
			}
		}
	}
	tunnel := m.pods["tunnel"].spec.Containers[0]
	if env(tunnel, "LEAT_TUNNEL_PEER_LISTEN_ADDR") != fmt.Sprintf(":%d", peerPort) || !strings.HasSuffix(env(tunnel, "LEAT_TUNNEL_ADVERTISE_URL"), fmt.Sprintf(":%d", peerPort)) {
		t.Error("tunnels do not reach one another at the port of peers")
	}
	for _, s := range m.services {
		for _, p := range s.Spec.Ports {
			if p.Port == internalPort || p.Port == peerPort || p.TargetPort.StrVal == "internal" || p.TargetPort.StrVal == "peer" {
				t.Errorf("service %s publishes port %d", s.Name, p.Port)
			}
		}
	}
}

func env(c corev1.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// TestSecServicesHaveSecretsOfTheirOwn checks where each service's secret comes from.
func TestSecServicesHaveSecretsOfTheirOwn(t *testing.T) {
	t.Parallel()
	m := readManifests(t, "hub.yaml")
	for _, name := range []string{"gitcache", "distributor", "tunnel"} {
		p := m.pods[name].spec
		for _, v := range p.Volumes {
			if v.Secret != nil && strings.HasPrefix(v.Secret.SecretName, "leat-") && v.Secret.SecretName != "leat-"+name &&
				v.Secret.SecretName != "leat-redis-tls" && (name != "distributor" || v.Secret.SecretName != "leat-hub") {
				t.Errorf("%s mounts the secret %s", name, v.Secret.SecretName)
			}
			if v.Secret != nil && v.Secret.SecretName == "leat-redis-tls" && (len(v.Secret.Items) != 1 || v.Secret.Items[0].Key != "ca.crt") {
				t.Errorf("%s mounts more of Redis's certificate than its authority", name)
			}
		}
		if env(p.Containers[0], "LEAT_SERVICE_SECRET_FILE") != "/run/leat/service-secret" {
			t.Errorf("%s does not read its secret", name)
		}
		for _, e := range p.Containers[0].Env {
			switch from := e.ValueFrom; {
			case e.Name == "LEAT_SERVICE_KEYS" && (from == nil || from.ConfigMapKeyRef == nil || from.ConfigMapKeyRef.Name != "leat-service-keys"):
				t.Errorf("%s has the keys of services from %+v", name, from)
			case e.Name == "LEAT_REDIS_URL" && (from == nil || from.SecretKeyRef == nil || from.SecretKeyRef.Name != "leat-redis" || from.SecretKeyRef.Key != name+"-url"):
				t.Errorf("%s has the URL of Redis from %+v, want its own user's", name, from)
			}
		}
	}
}

// peer is the source of a connection: a pod with labels in a namespace, or a client outside the cluster.
type peer struct {
	namespace labels.Set
	pod       labels.Set
}

// allows reports whether the network policies allow the peer to reach a port of the pod.
func allows(t *testing.T, policies []networkingv1.NetworkPolicy, from peer, to pod, port int32) bool {
	t.Helper()
	selects := func(s *metav1.LabelSelector, set labels.Set) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector.Matches(set)
	}
	own := from.namespace["kubernetes.io/metadata.name"] == to.namespace
	isolated := false
	for _, p := range policies {
		if p.Namespace != to.namespace || !selects(&p.Spec.PodSelector, to.labels) || !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			continue
		}
		isolated = true
		for _, rule := range p.Spec.Ingress {
			if len(rule.Ports) > 0 && !slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port == nil || p.Port.IntVal == port }) {
				continue
			}
			if len(rule.From) == 0 || slices.ContainsFunc(rule.From, func(f networkingv1.NetworkPolicyPeer) bool {
				switch {
				case f.IPBlock != nil:
					return true // this test does not check addresses
				case f.NamespaceSelector == nil:
					return own && selects(f.PodSelector, from.pod)
				}
				return selects(f.NamespaceSelector, from.namespace) && (f.PodSelector == nil || selects(f.PodSelector, from.pod))
			}) {
				return true
			}
		}
	}
	return !isolated
}

// TestSecNetworkPolicies checks for every kind of peer and every port whether the policies allow the connection.
func TestSecNetworkPolicies(t *testing.T) {
	t.Parallel()
	m := readManifests(t, "hub.yaml", "agent.yaml")
	hub := labels.Set{"kubernetes.io/metadata.name": "leat"}
	peers := map[string]peer{
		"a stranger":   {labels.Set{"kubernetes.io/metadata.name": "default"}, labels.Set{"app.kubernetes.io/name": "tunnel"}}, // calls itself a tunnel
		"a neighbour":  {hub, labels.Set{"app": "x"}},
		"ingress":      {labels.Set{"kubernetes.io/metadata.name": "ingress", "leat.dev/ingress": "true"}, nil},
		"monitoring":   {labels.Set{"kubernetes.io/metadata.name": "monitoring", "leat.dev/monitoring": "true"}, nil},
		"redis":        {hub, m.pods["redis"].labels},
		"gitcache":     {hub, m.pods["gitcache"].labels},
		"distributor":  {hub, m.pods["distributor"].labels},
		"tunnel":       {hub, m.pods["tunnel"].labels},
		"another pod":  {labels.Set{"kubernetes.io/metadata.name": "leat-system"}, labels.Set{"app": "x"}},
		"the internet": {labels.Set{}, labels.Set{}},
	}
	everybody := slices.Sorted(maps.Keys(peers))
	for _, want := range []struct {
		pod  string
		port int32
		from []string
	}{
		{"redis", 6379, []string{"gitcache", "tunnel"}},
		{"gitcache", 8702, []string{"distributor", "gitcache", "ingress"}},
		{"gitcache", internalPort, []string{"monitoring"}},
		{"distributor", 8700, []string{"ingress", "tunnel"}},
		{"distributor", internalPort, []string{"monitoring"}},
		{"tunnel", 8701, everybody},
		{"tunnel", peerPort, []string{"tunnel"}},
		{"tunnel", internalPort, []string{"monitoring"}},
		{"leat-agent", 8703, []string{"monitoring"}},
		{"leat-agent", 8443, nil},
		{"redis", 22, nil},
		{"gitcache", 22, nil},
		{"distributor", 22, nil},
		{"tunnel", 22, nil},
	} {
		var got []string
		for _, name := range everybody {
			if allows(t, m.policies, peers[name], m.pods[want.pod], want.port) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want.from) {
			t.Errorf("%s:%d is reached by %v, want %v", want.pod, want.port, got, want.from)
		}
	}
	for name, p := range m.pods {
		if name == "leat-agent" {
			continue // it calls its API server and its hub, wherever they are
		}
		if !slices.ContainsFunc(m.policies, func(policy networkingv1.NetworkPolicy) bool {
			selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
			return err == nil && policy.Namespace == p.namespace && selector.Matches(labels.Set(p.labels)) && slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}) {
			t.Errorf("%s may connect to anything", name)
		}
	}
}

// TestSecRedisHasUsersAndPasswords compares what the manifests ship with what package redistest starts for the
// services' own tests.
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
			t.Errorf("%s: got %v and %q, want it to say what a password must be", name, err, out)
		}
	}
}

// makeSecrets runs deploy/secrets.sh with a substitute for leat that prints what leat keys prints.
func makeSecrets(t *testing.T, args ...string) string {
	t.Helper()
	leat := filepath.Join(t.TempDir(), "leat")
	script := `#!/bin/sh
[ "$1" = keys ] || exit 2
if [ "$#" -eq 3 ] && [ "$2 $3" = "-o kubernetes" ]; then
	for s in distributor gitcache tunnel; do printf 'apiVersion: v1\nkind: Secret\nmetadata: { name: leat-%s }\nstringData: { service-secret: %s }\n---\n' $s "$(openssl rand -hex 32)"; done
	printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: leat-service-keys }\ndata: { service-keys: "distributor=a,gitcache=b,tunnel=c" }\n'
else
	for s in DISTRIBUTOR GITCACHE TUNNEL; do echo "LEAT_${s}_SECRET=$(openssl rand -hex 32)"; done
	echo "LEAT_SERVICE_KEYS=distributor=a,gitcache=b,tunnel=c"
fi
`
	if err := os.WriteFile(leat, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(top, "deploy", "secrets.sh"), args...)
	command.Env = append(os.Environ(), "LEAT="+leat)
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("secrets.sh %v: %v\n%s", args, err, complaints.String())
	}
	return string(out)
}

// composeSecrets returns the variables that docker-compose.yml needs, made by the documented command.
func composeSecrets(t *testing.T) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(makeSecrets(t, "compose")), "\n")
}

func loadCompose(t *testing.T, env []string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(top, "docker-compose.yml")}, cli.WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

// TestSecSecretsAreMadeByOneCommand runs the documented command in all its forms.
func TestSecSecretsAreMadeByOneCommand(t *testing.T) {
	t.Parallel()
	first, second := composeSecrets(t), composeSecrets(t)
	for i, line := range first {
		name, value, _ := strings.Cut(line, "=")
		if len(value) < 32 && name != "LEAT_SERVICE_KEYS" || name != "LEAT_SERVICE_KEYS" && line == second[i] {
			t.Errorf("%s is %q, want 32 bytes or more that differ each time", name, value)
		}
	}
	for _, form := range []struct {
		args   []string
		scheme string
		ca     string
	}{{[]string{"kubernetes"}, "redis", ""}, {[]string{"kubernetes", "--redis-tls"}, "rediss", "/etc/leat-redis-tls/ca.crt"}} {
		made := map[string]map[string]string{}
		for document := range strings.SplitSeq(makeSecrets(t, form.args...), "\n---\n") {
			var s corev1.Secret
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
				t.Fatal(err)
			}
			if kind.Kind != "Secret" {
				continue
			}
			if err := yaml.UnmarshalStrict([]byte(document), &s); err != nil {
				t.Fatal(err)
			}
			made[s.Name] = s.StringData
		}
		for name, p := range readManifests(t, "hub.yaml").pods {
			for _, e := range p.spec.Containers[0].Env {
				if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil || e.ValueFrom.SecretKeyRef.Name == "leat-database" {
					continue
				}
				ref := e.ValueFrom.SecretKeyRef
				if _, ok := made[ref.Name][ref.Key]; !ok && (ref.Optional == nil || !*ref.Optional) {
					t.Errorf("%s needs %s of the secret %s, which secrets.sh does not make", name, ref.Key, ref.Name)
				}
			}
			for _, v := range p.spec.Volumes {
				if v.Secret != nil && (v.Secret.Optional == nil || !*v.Secret.Optional) && made[v.Secret.SecretName] == nil {
					t.Errorf("%s mounts the secret %s, which secrets.sh does not make", name, v.Secret.SecretName)
				}
			}
		}
		redis := made["leat-redis"]
		for _, user := range []string{"gitcache", "tunnel"} {
			u, err := url.Parse(redis[user+"-url"])
			if err != nil {
				t.Fatal(err)
			}
			if password, _ := u.User.Password(); u.Scheme != form.scheme || u.User.Username() != user || password != redis[user+"-password"] || len(password) < 32 {
				t.Errorf("%v: the URL for %s is %s, want its own user and password", form.args, user, u.Redacted())
			}
		}
		if redis["ca-file"] != form.ca || redis["gitcache-password"] == redis["tunnel-password"] {
			t.Errorf("%v: got CA file %q", form.args, redis["ca-file"])
		}
	}
}

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
			t.Errorf("on network %s are %v, want %v and a way out for none", network, on[network], want)
		}
	}
	redis := project.Services["redis"]
	if !slices.Equal(redis.Entrypoint, []string{"/bin/sh", "/etc/leat-redis/start.sh"}) || len(redis.Command) > 0 {
		t.Errorf("Redis is started by %v %v, want the script", redis.Entrypoint, redis.Command)
	}
}

// checkComposeSecrets fails if a service has another service's secret, or a connection without a password.
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
				t.Errorf("%s talks to Redis as %q, want its own user", name, u.Redacted())
			}
		case "postgres":
			if len(password) < 32 {
				t.Errorf("%s talks to PostgreSQL by %q", name, u.Redacted())
			}
		}
	}
}

// TestSecImages checks the form of every image reference, and that Leat's own image contains only the program.
func TestSecImages(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(top, "deploy", "kubernetes", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, filepath.Join(top, "docker-compose.yml"), filepath.Join(top, "Dockerfile")) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range supply.Images(string(content)) {
			image, err := supply.ParseImage(text)
			switch {
			case err != nil:
				t.Errorf("%s: %v", file, err)
			case image.IsOwn():
			case image.Tag == "" || image.Tag == "latest":
				t.Errorf("%s: %s names no version", file, text)
			}
		}
		for _, digest := range regexp.MustCompile(`@sha256:\S*`).FindAllString(string(content), -1) {
			if !regexp.MustCompile(`^@sha256:[0-9a-f]{64}["']?$`).MatchString(digest) {
				t.Errorf("%s: %s is not a digest", file, digest)
			}
		}
	}
	dockerfile, err := os.ReadFile(filepath.Join(top, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	stages := regexp.MustCompile(`(?m)^FROM (\S+)( AS \S+)?$`).FindAllStringSubmatchIndex(string(dockerfile), -1)
	last := string(dockerfile)[stages[len(stages)-1][0]:]
	if !strings.HasPrefix(last, "FROM scratch\n") || !strings.Contains(last, "USER 65532:65532") || strings.Contains(last, "RUN ") || strings.Contains(last, "git") {
		t.Errorf("the image is made by\n%s\nwant nothing but the program, for a user who is not root", last)
	}
}
