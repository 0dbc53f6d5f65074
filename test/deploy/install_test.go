// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/test/charts"
)

// cluster is an API server without controllers, so pods are not made of their templates.
type cluster struct {
	*localkube.ControlPlane

	kubectl string
	helm    func(args ...string) (string, error)
	home    string
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{
		ControlPlane: kubetest.Start(t, func(p *localkube.Params) { p.APIServerOnly = true }),
		kubectl:      kubetest.Binaries(t.Context(), t).Kubectl, helm: helmProgram(t), home: t.TempDir(),
	}
	c.apply(t, kindsOfOthers)
	c.mustRun(t, "", "wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=300s")
	return c
}

// kindsOfOthers are the kinds that charts use and Kubernetes does not have, with the fields that
// their operators need.
const kindsOfOthers = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: servicemonitors.monitoring.coreos.com }
spec:
  group: monitoring.coreos.com
  names: { kind: ServiceMonitor, listKind: ServiceMonitorList, plural: servicemonitors, singular: servicemonitor }
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [selector, endpoints]
              properties:
                selector: { type: object, x-kubernetes-preserve-unknown-fields: true }
                endpoints: { type: array, items: { type: object, properties: { port: { type: string }, interval: { type: string } } } }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: prometheusrules.monitoring.coreos.com }
spec:
  group: monitoring.coreos.com
  names: { kind: PrometheusRule, listKind: PrometheusRuleList, plural: prometheusrules, singular: prometheusrule }
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              properties:
                groups:
                  type: array
                  items: { type: object, required: [name], properties: { name: { type: string }, rules: { type: array, items: { type: object, required: [expr], x-kubernetes-preserve-unknown-fields: true } } } }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: httproutes.gateway.networking.k8s.io
  annotations: { api-approved.kubernetes.io: unapproved }
spec:
  group: gateway.networking.k8s.io
  names: { kind: HTTPRoute, listKind: HTTPRouteList, plural: httproutes, singular: httproute }
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              properties:
                parentRefs:
                  type: array
                  items: { type: object, required: [name], properties: { name: { type: string }, namespace: { type: string }, sectionName: { type: string } } }
                hostnames: { type: array, maxItems: 16, items: { type: string, pattern: '^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$' } }
                rules:
                  type: array
                  maxItems: 16
                  items:
                    type: object
                    properties:
                      matches:
                        type: array
                        maxItems: 64
                        items:
                          type: object
                          properties:
                            path:
                              type: object
                              properties: { type: { type: string, enum: [Exact, PathPrefix, RegularExpression] }, value: { type: string, maxLength: 1024 } }
                      backendRefs: { type: array, items: { type: object, required: [name], properties: { name: { type: string }, port: { type: integer } } } }
                      timeouts: { type: object, properties: { request: { type: string, pattern: '^([0-9]{1,5}(h|m|s|ms)){1,4}$' } } }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: certificates.cert-manager.io }
spec:
  group: cert-manager.io
  names: { kind: Certificate, listKind: CertificateList, plural: certificates, singular: certificate }
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [issuerRef, secretName]
              properties:
                isCA: { type: boolean }
                commonName: { type: string, maxLength: 64 }
                dnsNames: { type: array, items: { type: string } }
                duration: { type: string }
                renewBefore: { type: string }
                secretName: { type: string }
                usages: { type: array, items: { type: string, enum: [server auth, client auth, digital signature, key encipherment] } }
                privateKey: { type: object, properties: { algorithm: { type: string, enum: [RSA, ECDSA, Ed25519] }, size: { type: integer } } }
                issuerRef: { type: object, required: [name], properties: { name: { type: string }, kind: { type: string }, group: { type: string } } }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: issuers.cert-manager.io }
spec:
  group: cert-manager.io
  names: { kind: Issuer, listKind: IssuerList, plural: issuers, singular: issuer }
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              properties:
                selfSigned: { type: object }
                ca: { type: object, required: [secretName], properties: { secretName: { type: string } } }
`

// run runs kubectl.
func (c *cluster) run(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), c.kubectl, append([]string{"--kubeconfig", c.KubeconfigPath()}, args...)...)
	command.Env, command.Stdin = append(os.Environ(), "HOME="+c.home), strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(bytes.TrimSpace(out)), err
}

func (c *cluster) mustRun(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := c.run(t, input, args...)
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return out
}

func (c *cluster) apply(t *testing.T, documents string) {
	t.Helper()
	c.mustRun(t, documents, "apply", "--server-side", "--validate=strict", "-f", "-")
}

// namespace makes a namespace in which the Pod Security profile restricted is enforced.
func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	c.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", labels: {pod-security.kubernetes.io/enforce: restricted}}}")
}

// mustHelm runs helm with the values of an installation.
func (c *cluster) mustHelm(t *testing.T, in installation, namespace string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(in.values), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "release", filepath.Join(top, "deploy", "helm", in.chart), "--kubeconfig", c.KubeconfigPath(), "-n", namespace, "-f", file)
	out, err := c.helm(args...)
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, out)
	}
	return out
}

// secrets returns the Secrets of a namespace, without Helm's, and the public keys.
func (c *cluster) secrets(t *testing.T, namespace string) map[string]map[string][]byte {
	t.Helper()
	t.Helper()
	var list corev1.SecretList
	if err := json.Unmarshal([]byte(c.mustRun(t, "", "get", "secrets", "-n", namespace, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string][]byte{}
	for _, s := range list.Items {
		if !strings.HasPrefix(string(s.Type), "helm.sh/") {
			found[s.Name] = s.Data
		}
	}
	return found
}

func (c *cluster) serviceKeys(t *testing.T, namespace string) string {
	t.Helper()
	t.Helper()
	return c.mustRun(t, "", "get", "configmap", "leat-service-keys", "-n", namespace, "-o", "jsonpath={.data.service-keys}")
}

// TestSecChartsFitTheAPIServer validates every object of every installation by a real API server,
// strictly, and every pod by its Pod Security admission, which makes templates of workloads wait
// for pods that never come.
func TestSecChartsFitTheAPIServer(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.namespace(t, "hub") // where render puts objects
	bad := `{apiVersion: v1, kind: Pod, metadata: {name: bad, namespace: hub}, spec: {containers: [{name: a, image: b}]}}`
	c.mustRun(t, "", "create", "serviceaccount", "default", "-n", "hub")
	if out, err := c.run(t, bad, "create", "--dry-run=server", "-f", "-"); err == nil || !strings.Contains(out, "violates PodSecurity") {
		t.Fatalf("a pod that may be root: got %v, %s, want it refused, or this test shows nothing", err, out)
	}
	for _, account := range []string{"gitcache", "distributor", "tunnel", "redis", "postgres", "leat-agent", "leat-newcomer", "leat-dialled", "leat-locked"} {
		c.mustRun(t, "", "create", "serviceaccount", account, "-n", "hub") // without which no pod is admitted
	}
	c.apply(t, "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: hub}, value: 1000}")
	for _, name := range []string{"team-a", "team-b"} {
		c.namespace(t, name)
	}
	for name, in := range installations() {
		in.values = strings.ReplaceAll(in.values, "system-cluster-critical", "hub")
		objects := render(t, in)
		for id, document := range objects {
			if out, err := c.run(t, string(document), "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
				t.Errorf("%s: %s: %v\n%s", name, id, err, out)
			}
		}
		templates := podTemplates(t, objects)
		if len(templates) < 2 {
			t.Errorf("%s: got pods %v, want those of the release and of its test", name, slices.Sorted(maps.Keys(templates)))
		}
		for pod, template := range templates {
			made, err := json.Marshal(corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Name: "of-" + pod, Namespace: "hub", Labels: template.Labels, Annotations: template.Annotations},
				Spec:       withVolumes(template.Spec),
			})
			if err != nil {
				t.Fatal(err)
			}
			if out, err := c.run(t, string(made), "create", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
				t.Errorf("%s: a pod of %s: %v\n%s", name, pod, err, out)
			}
		}
	}
}

// withVolumes adds the volumes that a StatefulSet makes for its pods.
func withVolumes(spec corev1.PodSpec) corev1.PodSpec {
	for _, mount := range spec.Containers[0].VolumeMounts {
		if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: mount.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: mount.Name},
			}})
		}
	}
	return spec
}

// TestSecChartKeepsSecrets installs a hub with the real Helm, upgrades it, replaces a secret as in
// docs/operations/keys.md, removes the hub and installs it again. Each secret is made once: a new
// distributor's secret would not open the database.
func TestSecChartKeepsSecrets(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	const namespace = "kept"
	c.namespace(t, namespace)
	in := installation{charts.Hub, "{database: {mode: trial}, tls: {mode: generated}}"}
	notes := c.mustHelm(t, in, namespace, "install")
	for _, want := range []string{"helm test release -n kept", "leat cluster create", "This is a trial", "port-forward service/distributor"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not have %q:\n%s", want, notes)
		}
	}
	first, keys := c.secrets(t, namespace), c.serviceKeys(t, namespace)
	for _, name := range []string{"leat-authority", "leat-database", "leat-distributor", "leat-gitcache-tls", "leat-hub", "leat-redis", "leat-redis-tls", "leat-tunnel-tls"} {
		if len(first[name]) == 0 {
			t.Errorf("got secrets %v, want %s among them", slices.Sorted(maps.Keys(first)), name)
		}
	}
	checkCertificates(t, first, namespace)
	c.mustHelm(t, in, namespace, "upgrade", "--set", "size=medium")
	if diff := gocmp.Diff(first, c.secrets(t, namespace)); diff != "" || c.serviceKeys(t, namespace) != keys {
		t.Errorf("an upgrade changes secrets (-before +after):\n%s", diff)
	}

	_, next, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(next)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{"service-other-secrets": text}})
	if err != nil {
		t.Fatal(err)
	}
	c.mustRun(t, "", "patch", "secret", "leat-tunnel", "-n", namespace, "-p", string(patch))
	c.mustHelm(t, in, namespace, "upgrade")
	key, err := identity.NewServiceKey(text, identity.ServiceTunnel)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.serviceKeys(t, namespace); got != keys+","+key.Public() {
		t.Errorf("with another secret of the tunnel: got keys %s, want that secret's too", got)
	}
	before := c.secrets(t, namespace)
	if string(before["leat-tunnel"]["service-other-secrets"]) != string(text) {
		t.Error("an upgrade drops the secret that is being introduced")
	}

	if out, err := c.helm("uninstall", "release", "--kubeconfig", c.KubeconfigPath(), "-n", namespace); err != nil {
		t.Fatalf("uninstall: %v\n%s", err, out)
	}
	c.mustHelm(t, in, namespace, "install")
	if diff := gocmp.Diff(before, c.secrets(t, namespace)); diff != "" {
		t.Errorf("a hub that was removed comes back with other secrets (-before +after):\n%s", diff)
	}

	derived, err := json.Marshal(map[string]any{"data": map[string][]byte{"service-secret": bytes.Repeat([]byte("s"), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	c.mustRun(t, "", "patch", "secret", "leat-tunnel", "-n", namespace, "-p", string(derived))
	out, err := c.helm("upgrade", "release", filepath.Join(top, "deploy", "helm", charts.Hub), "--kubeconfig", c.KubeconfigPath(), "-n", namespace)
	if err == nil || !strings.Contains(out, "secrets.generate=false") {
		t.Errorf("a secret that is not a key: got %v, %s, want a hint", err, out)
	}
}

// TestChartTakesOverTheManifests installs the chart where hub.yaml was applied. Nothing is made again:
// volumes, addresses and what selects pods stay.
func TestChartTakesOverTheManifests(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.mustRun(t, "", "apply", "-f", filepath.Join(top, "deploy", "kubernetes", "hub.yaml"))
	const kinds = "deployments,statefulsets,services,networkpolicies"
	uids := func() string {
		return c.mustRun(t, "", "get", kinds, "-n", "leat", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}`)
	}
	before := uids()
	in := installation{charts.Hub, "{secrets: {generate: false}, hub: {url: 'https://leat.example.com'}}"}
	c.mustHelm(t, in, "leat", "install", "--take-ownership", "--force-conflicts")
	if diff := gocmp.Diff(before, uids()); diff != "" {
		t.Errorf("objects were replaced (-before +after):\n%s", diff)
	}
	got := c.mustRun(t, "", "get", "statefulset", "distributor", "-n", "leat", "-o", "jsonpath={.spec.template.spec.containers[0].env}")
	if !strings.Contains(got, `"LEAT_TUNNEL_URL","value":"https://leat.example.com"`) {
		t.Errorf("got variables %s, want those of the release", got)
	}
}

// checkCertificates fails if a certificate is not for the names at which its service is called.
func checkCertificates(t *testing.T, secrets map[string]map[string][]byte, namespace string) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secrets["leat-authority"]["tls.crt"])
	for service, hosts := range map[string][]string{
		"gitcache": {"gitcache", "gitcache-0.gitcache-replicas"}, "distributor": {"distributor", fmt.Sprintf("distributor.%s.svc", namespace)},
		"tunnel": {fmt.Sprintf("tunnel.%s.svc", namespace)}, "redis": {"redis"},
	} {
		secret := secrets["leat-"+service+"-tls"]
		block, _ := pem.Decode(secret["tls.crt"])
		if block == nil {
			t.Errorf("%s has no certificate", service)
			continue
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range hosts {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
				t.Errorf("%s at %s: %v", service, host, err)
			}
		}
		if !bytes.Equal(secret["ca.crt"], secrets["leat-authority"]["tls.crt"]) {
			t.Errorf("%s does not have the authority that signed it", service)
		}
	}
}
