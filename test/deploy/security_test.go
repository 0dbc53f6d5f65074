// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
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
		t.Errorf("%s: this test does not support a %s; add it", file, kind.Kind)
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

// TestSecPodsAreLockedDown requires that every pod follows the rules of the profile "restricted",
// and some of our own.
func TestSecPodsAreLockedDown(t *testing.T) {
	t.Parallel()
	m := readManifests(t, "hub.yaml", "agent.yaml")
	if names := slices.Sorted(maps.Keys(m.pods)); !slices.Equal(names, []string{"distributor", "gitcache", "leat-agent", "redis", "tunnel"}) {
		t.Errorf("got pods %v, want these tests to cover all of them", names)
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

// TestSecNoProbeOnThePublicPort requires that health, metrics and the port for peers are not
// reachable from outside.
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
				v.Secret.SecretName != "leat-redis-tls" && (name != "distributor" || !slices.Contains([]string{"leat-hub", "leat-database"}, v.Secret.SecretName)) {
				t.Errorf("%s mounts the secret %s", name, v.Secret.SecretName)
			}
			if v.Secret == nil {
				continue
			}
			if authority := v.Secret.SecretName == "leat-redis-tls" || v.Secret.SecretName == "leat-database"; authority && (len(v.Secret.Items) != 1 || v.Secret.Items[0].Key != "ca.crt") {
				t.Errorf("%s mounts more of %s than an authority", name, v.Secret.SecretName)
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
