// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"os"
	"testing"
)

// names returns the ways to try, by transport: only the first, or all of them, and the first over a
// hop. The long form always tries everything.
func names(all, hop bool) []string {
	long := os.Getenv("LEAT_FAULT_LONG") == "1"
	var names []string
	for i, way := range transports() {
		if i == 0 || all || long {
			names = append(names, way.name)
		}
	}
	if hop || long {
		names = append(names, overHop+names[0])
	}
	return names
}

// shop is the scripts' manifest.
const shop = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "shop:1", ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {colour: "green", text: "line one\nline two\n"}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {password: "hunter2"}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: "shop:1"}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: "shop:1"}]}}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: box, labels: {app: box}}
spec: {containers: [{name: main, image: "shop:1"}]}
`

// k returns a kubectl command that succeeds.
func k(args ...string) step {
	name := "kubectl"
	for _, arg := range args {
		name += " " + arg
	}
	return step{name: name, args: args}
}

// fails returns the same command, ending with that code.
func (s step) fails(code int) step { s.code = code; return s }

// reads returns the same command with that standard input.
func (s step) reads(text string) step { s.stdin = []byte(text); return s }

// mute returns the same command, of which only the exit code and the errors are compared.
func (s step) mute() step { s.silent = true; return s }

// stops returns the same command, stopped after it has printed that.
func (s step) stops(text string) step { s.until = text; return s }

// with returns the same command in that environment.
func (s step) with(env ...string) step {
	s.env = env
	for _, e := range env {
		s.name += " " + e
	}
	return s
}

// TestKubectl runs typical kubectl commands by every way, and expects the same output.
func TestKubectl(t *testing.T) {
	t.Parallel()
	compare(t, theRig(t), "kubectl", names(false, false), []step{
		k("create", "namespace", "$NS"),
		k("wait", "--for=create", "serviceaccount/default", "--timeout=240s"),
		k("version", "--output=yaml"),
		k("cluster-info"),
		k("api-versions"),
		k("api-resources", "--verbs=list", "--sort-by=name"),
		k("apply", "--filename=-").reads(shop),
		k("rollout", "status", "deployment/web", "--timeout=240s").mute(),
		k("wait", "--for=condition=Available", "deployment/web", "--timeout=240s"),
		k("wait", "--for=condition=Ready", "pod", "--selector=app=web", "--timeout=240s"),
		k("wait", "--for=condition=Ready", "pod/box", "--timeout=240s"),
		k("wait", "--for=condition=Complete", "job/once", "--timeout=240s"),
		k("apply", "--filename=-", "--server-side", "--force-conflicts", "--field-manager=test").reads(shop),
		k("apply", "--filename=-", "--server-side", "--force-conflicts", "--dry-run=server", "--output=yaml").reads(shop).mute(),
		k("get", "deployments,services,configmaps,secrets,jobs,cronjobs,pods", "--output=wide"),
		k("get", "deployment", "web", "--output=yaml"),
		k("get", "configmaps", "--output=json", "--selector=app=web"),
		k("get", "pods", "--selector=app=web", "--output=jsonpath={range .items[*]}{.status.phase} {.spec.nodeName}{\"\\n\"}{end}"),
		k("get", "pods", "--field-selector=status.phase=Running", "--output=name"),
		k("get", "clusterroles", "--chunk-size=5", "--output=name"),
		k("get", "pods", "--all-namespaces", "--output=name").mute(),
		k("get", "configmap", "absent").fails(1),
		k("get", "nonsense").fails(1),
		k("describe", "configmap", "settings"),
		k("describe", "secret", "login"),
		k("explain", "deployment.spec.template.spec.containers.ports"),
		k("explain", "pods", "--recursive", "--output=plaintext-openapiv2"),
		k("auth", "can-i", "create", "deployments"),
		k("auth", "can-i", "--list"),
		k("auth", "whoami", "--output=yaml"),
		k("patch", "configmap", "settings", "--type=merge", "--patch={\"data\":{\"colour\":\"red\"}}"),
		k("patch", "deployment", "web", "--type=strategic", "--patch={\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"main\",\"image\":\"shop:2\"}]}}}}"),
		k("patch", "configmap", "settings", "--type=json", "--patch=[{\"op\":\"add\",\"path\":\"/data/size\",\"value\":\"9\"}]", "--output=yaml"),
		k("patch", "configmap", "settings", "--type=json", "--patch=[{\"op\":\"test\",\"path\":\"/data/size\",\"value\":\"8\"}]").fails(1),
		k("rollout", "status", "deployment/web", "--timeout=240s").mute(),
		k("rollout", "history", "deployment/web"),
		k("rollout", "undo", "deployment/web"),
		k("rollout", "status", "deployment/web", "--timeout=240s").mute(),
		k("scale", "deployment/web", "--replicas=3"),
		// It ends with the first state that shows the roll-out as complete, so that state must not
		// be older than the previous change.
		k("rollout", "status", "deployment/web", "--timeout=240s").mute(),
		k("get", "deployment", "web", "--subresource=scale", "--output=yaml"),
		k("label", "configmap", "settings", "tier=front"),
		k("annotate", "configmap", "settings", "note=kept", "--overwrite"),
		k("edit", "configmap", "settings").with("KUBE_EDITOR=sed -i s/green/blue/;s/red/blue/"),
		k("replace", "--filename=-").reads("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: grey}}"),
		k("create", "job", "by-hand", "--from=cronjob/nightly"),
		k("create", "token", "default").mute(),
		k("expose", "deployment", "web", "--name=other", "--port=8080"),
		k("autoscale", "deployment", "web", "--min=1", "--max=4", "--cpu=80%"),
		k("diff", "--filename=-").reads("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: black}}").fails(1).mute(),
		k("apply", "--filename=-").reads("{apiVersion: v1, kind: Service, metadata: {name: bad}, spec: {ports: [{port: 99999999}]}}").fails(1),
		k("create", "configmap", "settings").fails(1),
		k("top", "nodes").fails(1),
		k("get", "--raw", "/version"),
		k("get", "--raw", "/api/v1/namespaces/$NS/configmaps?limit=1&fieldSelector=metadata.name%3Dsettings"),
		k("get", "--raw", "/readyz?verbose"),
		k("get", "--raw", "/openapi/v3/apis/apps/v1").mute(),
		k("get", "pods", "--watch", "--selector=app=box").stops("box"),
		k("delete", "job", "once", "--cascade=foreground", "--wait"),
		k("delete", "deployment", "web", "--timeout=240s"),
		k("wait", "--for=delete", "pod", "--selector=app=web", "--timeout=240s").mute(), // the remaining ones
		k("delete", "configmap,secret", "--selector=app=web"),
		k("delete", "configmap", "absent").fails(1),
		k("delete", "pod", "box", "--now"),
		k("delete", "namespace", "$NS", "--wait=false"),
	})
}
