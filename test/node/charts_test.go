// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
)

// release is a release of a chart in a namespace of its own.
type release struct {
	*node
	chart, namespace string
	// values is YAML.
	values string
	// service is the one whose setting the upgrade changes, and setting is that value of the chart.
	service, setting string
	// keeps are the objects that uninstalling leaves behind, besides the test's own objects.
	keeps []string
}

// light are resources with which three hubs fit into a small node.
const light = `{ requests: { cpu: 10m, memory: 64Mi }, limits: { memory: 512Mi } }`

// madeSecrets are the Secrets that every hub's chart makes.
var madeSecrets = []string{"secret/leat-distributor", "secret/leat-gitcache", "secret/leat-hub", "secret/leat-tunnel"}

// TestCharts takes releases through their lives. They run at once, because each waits for pods most
// of its time.
func TestCharts(t *testing.T) {
	n := requireNode(t)
	for name, c := range map[string]struct {
		values string
		keeps  []string
		// hasDatabases reports whether Redis and PostgreSQL belong to others.
		hasDatabases bool
		// also runs while the hub does.
		also func(*testing.T, *release)
	}{
		"trial": {
			values: `
database: { mode: trial }
networkPolicy: { fromNamespaces: [trial-agent] }
gitcache: { replicas: 1, resources: ` + light + ` }
distributor: { replicas: 1, resources: ` + light + ` }
tunnel: { replicas: 1, resources: ` + light + ` }
`,
			keeps: []string{
				"persistentvolumeclaim/data-distributor-0", "persistentvolumeclaim/data-gitcache-0", "persistentvolumeclaim/data-postgres-0",
				"secret/leat-database", "secret/leat-redis",
			},
			also: checkAgentChart,
		},
		"external": {
			values: `
redis: { mode: external }
gitcache: { replicas: 1, resources: ` + light + ` }
distributor: { replicas: 1, resources: ` + light + ` }
tunnel: { replicas: 1, resources: ` + light + ` }
`,
			keeps:        []string{"persistentvolumeclaim/data-distributor-0", "persistentvolumeclaim/data-gitcache-0"},
			hasDatabases: true,
		},
		"ha": {
			values: `
redis: { mode: external }
tls: { mode: generated }
gitcache: { replicas: 2, resources: ` + light + ` }
distributor: { replicas: 2, resources: ` + light + ` }
tunnel: { autoscaling: { enabled: true }, resources: ` + light + ` }
`,
			keeps: []string{
				"persistentvolumeclaim/data-distributor-0", "persistentvolumeclaim/data-distributor-1",
				"persistentvolumeclaim/data-gitcache-0", "persistentvolumeclaim/data-gitcache-1",
				"secret/leat-authority", "secret/leat-distributor-tls", "secret/leat-gitcache-tls", "secret/leat-tunnel-tls",
			},
			hasDatabases: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n.namespace(t, name, "pod-security.kubernetes.io/enforce=restricted")
			if c.hasDatabases {
				n.startDatabases(t, name)
			}
			r := &release{
				node: n, chart: "leat", namespace: name, values: c.values, service: "distributor", setting: "distributor.settings.LEAT_LOG_LEVEL",
				keeps: slices.Concat(c.keeps, madeSecrets),
			}
			r.live(t, c.also)
		})
	}
}

// live installs a release, tests it, upgrades it, rolls it back, tests it again and uninstalls it.
func (r *release) live(t *testing.T, also func(*testing.T, *release)) {
	t.Helper()
	before := r.objects(t)
	r.helm(t, "install", "deploy/helm/"+r.chart, "--values", file(t, "values.yaml", r.values), "--wait")
	r.checkSetting(t, "")
	r.helm(t, "test")
	secrets := r.secrets(t)
	if also != nil {
		also(t, r)
	}
	r.helm(t, "upgrade", "deploy/helm/"+r.chart, "--reuse-values", "--set", r.setting+"=debug", "--wait")
	r.checkSetting(t, "debug")
	r.helm(t, "rollback", "1", "--wait")
	r.checkSetting(t, "")
	r.helm(t, "test")
	r.helm(t, "uninstall", "--wait")
	want := slices.Concat(before, r.keeps)
	slices.Sort(want)
	await.Success(t, "the release to leave "+strings.Join(want, ", "), func(context.Context) error {
		if got := r.objects(t); !slices.Equal(got, want) {
			return fmt.Errorf("got %s", strings.Join(got, ", "))
		}
		return nil
	})
	for name, got := range r.secrets(t) {
		if got != secrets[name] {
			t.Errorf("the Secret %s of namespace %s changed after the installation", name, r.namespace)
		}
	}
}

// helm runs a command of helm for the release.
func (r *release) helm(t *testing.T, command string, args ...string) {
	t.Helper()
	r.run(t, "helm", slices.Concat([]string{command, r.chart}, args, []string{"--namespace", r.namespace})...)
}

// checkSetting requires that the pods of the service have the level of logs.
func (r *release) checkSetting(t *testing.T, want string) {
	t.Helper()
	for _, p := range r.pods(t, r.namespace, r.service) {
		got := r.kubectl(t, "--namespace", r.namespace, "get", "pod", p.Metadata.Name, "--output", `jsonpath={.spec.containers[0].env[?(@.name=="LEAT_LOG_LEVEL")].value}`)
		if got != want || !p.isReady() {
			t.Errorf("pod %s of %s: got the level %q, ready %t, want %q and a ready pod", p.Metadata.Name, r.namespace, got, p.isReady(), want)
		}
	}
}

// objects returns the names of the objects in the namespace, without events, and without what
// Kubernetes puts into every namespace.
func (r *release) objects(t *testing.T) []string {
	t.Helper()
	kinds := strings.Fields(r.kubectl(t, "api-resources", "--namespaced", "--verbs=list", "--output", "name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return strings.HasPrefix(kind, "events") || kind == "endpoints" })
	names := strings.Fields(r.kubectl(t, "--namespace", r.namespace, "get", strings.Join(kinds, ","), "--output", "name"))
	names = slices.DeleteFunc(names, func(name string) bool {
		return name == "configmap/kube-root-ca.crt" || name == "serviceaccount/default"
	})
	slices.Sort(names)
	return names
}

// secrets returns the content of the namespace's Secrets, without those in which helm keeps releases.
func (r *release) secrets(t *testing.T) map[string]string {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Type     string
			Data     json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(r.kubectl(t, "--namespace", r.namespace, "get", "secrets", "--output", "json")), &list); err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{}
	for _, s := range list.Items {
		if s.Type != "helm.sh/release.v1" {
			secrets[s.Metadata.Name] = string(s.Data)
		}
	}
	return secrets
}

// startDatabases runs a Redis and a PostgreSQL outside of the hub's namespace, and makes the Secrets
// by which the hub finds them.
func (n *node) startDatabases(t *testing.T, namespace string) {
	t.Helper()
	outside := namespace + "-databases"
	n.namespace(t, outside)
	n.apply(t, strings.ReplaceAll(databases, "NAMESPACE", outside))
	n.rolledOut(t, outside, "deployment/redis", "deployment/postgres")
	n.kubectl(t, "--namespace", namespace, "create", "secret", "generic", "leat-database",
		"--from-literal=url=postgres://leat:of-a-test@postgres."+outside+":5432/leat?sslmode=disable")
	n.kubectl(t, "--namespace", namespace, "create", "secret", "generic", "leat-redis",
		"--from-literal=gitcache-url=redis://gitcache:of-a-test@redis."+outside+":6379/0", "--from-literal=tunnel-url=redis://tunnel:of-a-test@redis."+outside+":6379/0")
}

const databases = `apiVersion: apps/v1
kind: Deployment
metadata: { name: redis, namespace: NAMESPACE }
spec:
  selector: { matchLabels: { app: redis } }
  template:
    metadata: { labels: { app: redis } }
    spec:
      containers:
        - name: redis
          image: redis:7.4-alpine
          command: [redis-server]
          args: [--save, "", --user, gitcache, "on", ">of-a-test", "~*", "&*", +@all, --user, tunnel, "on", ">of-a-test", "~*", "&*", +@all, --user, default, "off"]
          readinessProbe: { tcpSocket: { port: 6379 }, periodSeconds: 1 }
---
apiVersion: v1
kind: Service
metadata: { name: redis, namespace: NAMESPACE }
spec: { selector: { app: redis }, ports: [{ port: 6379 }] }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: postgres, namespace: NAMESPACE }
spec:
  selector: { matchLabels: { app: postgres } }
  template:
    metadata: { labels: { app: postgres } }
    spec:
      securityContext: { runAsUser: 70, runAsGroup: 70, fsGroup: 70 }
      containers:
        - name: postgres
          image: postgres:17-alpine
          env: [{ name: POSTGRES_USER, value: leat }, { name: POSTGRES_PASSWORD, value: of-a-test }, { name: PGDATA, value: /var/lib/postgresql/data/pgdata }]
          readinessProbe: { exec: { command: [pg_isready, -h, 127.0.0.1, -U, leat, -d, leat] }, periodSeconds: 1 }
          volumeMounts: [{ name: data, mountPath: /var/lib/postgresql/data }, { name: run, mountPath: /run/postgresql }]
      volumes: [{ name: data, emptyDir: {} }, { name: run, emptyDir: {} }]
---
apiVersion: v1
kind: Service
metadata: { name: postgres, namespace: NAMESPACE }
spec: { selector: { app: postgres }, ports: [{ port: 5432 }] }
`

// checkAgentChart takes a release of the agent's chart through its life. Its cluster is the hub's own.
func checkAgentChart(t *testing.T, hub *release) {
	token := hub.secret(t, hub.namespace, "leat-hub", "admin-token")
	url := "http://distributor." + hub.namespace + ".svc:8700"
	people := &node{address: hub.address, env: append(slices.Clone(hub.env), "LEAT_SERVER="+url, "LEAT_TOKEN="+token)}
	namespace := hub.namespace + "-agent"
	people.namespace(t, namespace, "pod-security.kubernetes.io/enforce=restricted")
	people.run(t, "leat", "cluster", "create", "munich")
	join := people.run(t, "leat", "cluster", "token", "munich")
	agent := &release{
		node: people, chart: "leat-agent", namespace: namespace, service: "munich", setting: "settings.LEAT_LOG_LEVEL",
		values: "name: munich\nhub: { url: " + url + " }\njoin: { token: " + join + " }\n",
		keeps:  []string{"secret/leat-agent-identity"},
	}
	agent.live(t, nil)
	if left := people.kubectl(t, "get", "clusterroles,clusterrolebindings", "--selector", "app.kubernetes.io/name=munich", "--output", "name"); left != "" {
		t.Errorf("uninstalling the agent's chart left %s", left)
	}
}
