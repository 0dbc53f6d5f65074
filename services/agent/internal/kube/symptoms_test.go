// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

const claimed = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  selector: {matchLabels: {app: store}}
  serviceName: store
  template:
    metadata: {labels: {app: store}}
    spec:
      containers: [{name: x, image: example.test/x}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
`

// testHangingRollouts has a scheduler and a volume controller that report why nothing moves.
func testHangingRollouts(t *testing.T, c *cluster) {
	t.Helper()
	spec := plan.Spec{Prune: new(true), HealthTimeout: 4 * time.Second}
	for name, test := range map[string]struct {
		manifest string
		wants    []string
	}{
		"homeless": {
			fmt.Sprintf(deployment, "homeless", "      nodeSelector: {no: where}\n"),
			[]string{"Pod homeless-", "one of 2 that are not healthy", "cannot be scheduled: 0/1 nodes are available", "node affinity/selector"},
		},
		"store": {claimed, []string{"Pod store-0 cannot be scheduled", "PersistentVolumeClaim data-store-0 is not bound", `"fast" not found`}},
	} {
		c.put(t, name, map[string]string{"a.yaml": test.manifest}, spec)
		got := c.await(t, name, func(s report.Status) bool {
			return s.Phase == report.Degraded && containsAll(s.Problem.Message, test.wants)
		})
		if len(got.Objects) != 1 || !containsAll(got.Objects[0].Health.Message, test.wants) {
			t.Errorf("%s: got objects %+v, want one with the same message", name, got.Objects)
		}
	}
}

func containsAll(text string, wants []string) bool {
	for _, want := range wants {
		if !strings.Contains(text, want) {
			return false
		}
	}
	return true
}

// TestSymptoms reads Pods and events that no controller of the test makes.
func TestSymptoms(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.must(t, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", "application/json", `{"metadata":{"name":"default"}}`)
	uids := map[string]string{}
	create := func(path, body string) string {
		t.Helper()
		status, o := c.request(t, http.MethodPost, path, "application/json", body)
		if status != http.StatusCreated {
			t.Fatalf("create %s: got %d, %v", body, status, o)
		}
		return o["metadata"].(map[string]any)["uid"].(string)
	}
	for _, name := range []string{"image", "crash", "mount", "quota", "fine"} {
		uids[name] = create("/apis/apps/v1/namespaces/default/statefulsets", fmt.Sprintf(
			`{"metadata":{"name":%q},"spec":{"serviceName":"x","selector":{"matchLabels":{"app":"x"}},`+
				`"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"app","image":"x"}]}}}}`, name))
	}
	pod := func(owner, name, phase, state string) {
		t.Helper()
		uids[name] = create("/api/v1/namespaces/default/pods", fmt.Sprintf(
			`{"metadata":{"name":%q,"labels":{"app":"x"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":%q,"uid":%q}]},`+
				`"spec":{"nodeName":"one","containers":[{"name":"app","image":"example.test/app:1"}]}}`, name, owner, uids[owner]))
		c.must(t, http.MethodPatch, "/api/v1/namespaces/default/pods/"+name+"/status", mergePatch, fmt.Sprintf(
			`{"status":{"phase":%q,"containerStatuses":[{"name":"app","image":"example.test/app:1","imageID":"","ready":false,"restartCount":7,%s}]}}`, phase, state))
	}
	event := func(kind, of, reason, message, at, level string) {
		t.Helper()
		create("/api/v1/namespaces/default/events", fmt.Sprintf(
			`{"metadata":{"generateName":"e-"},"involvedObject":{"kind":%q,"name":%q,"namespace":"default","uid":%q},"reason":%q,"message":%q,"type":%q,"lastTimestamp":%q}`,
			kind, of, uids[of], reason, message, level, at))
	}
	pod("image", "image-0", "Pending", `"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image"}}`)
	pod("crash", "crash-0", "Running", `"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":3,"message":"no database"}}`)
	pod("mount", "mount-0", "Pending", `"restartCount":0,"state":{"waiting":{"reason":"ContainerCreating"}}`)
	pod("fine", "fine-0", "Succeeded", `"state":{"terminated":{"exitCode":0}}`)
	event("Pod", "mount-0", "Scheduled", "assigned", "2026-01-01T00:00:03Z", "Normal")
	event("Pod", "mount-0", "FailedMount", `configmap "settings" not found`, "2026-01-01T00:00:02Z", "Warning")
	event("Pod", "mount-0", "FailedMount", "an older warning", "2026-01-01T00:00:01Z", "Warning")
	event("StatefulSet", "quota", "FailedCreate", "exceeded quota: pods", "2026-01-01T00:00:01Z", "Warning")
	for name, wants := range map[string][]string{
		"image": {"Pod image-0 ", "image example.test/app:1 of container app cannot be pulled", "ImagePullBackOff", "Back-off pulling image"},
		"crash": {"Pod crash-0 ", "CrashLoopBackOff", "7 times", "exit code 3: no database"},
		"mount": {"Pod mount-0 ", `FailedMount: configmap "settings" not found`},
		"quota": {"FailedCreate: exceeded quota: pods"},
		"fine":  nil,
	} {
		key := inventory.Key{Group: "apps", Kind: "StatefulSet", Namespace: "default", Name: name}
		got, err := c.client.Symptoms(t.Context(), inventory.Object{Ref: inventory.Ref{Key: key, Version: "v1"}, UID: uids[name]})
		if err != nil || !containsAll(got, wants) || (got == "") != (wants == nil) {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, wants)
		}
	}
}
