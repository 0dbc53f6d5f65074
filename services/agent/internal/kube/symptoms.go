// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// Bounds of one call of Symptoms: it sends at most four requests, or one for each claim of a Pod in
// addition.
const (
	maxSymptomPods   = 20      // read of a workload
	maxSymptomEvents = 50      // read of an object
	maxSymptomClaims = 3       // read of a Pod
	maxSymptomAnswer = 4 << 20 // bytes of one answer of the API server
)

// symptomPaths are the collections of the kinds that have symptoms. Everything is read by list, for
// which the agent has the right anyway: it watches these kinds.
var symptomPaths = map[schema.GroupKind]string{
	{Kind: "Pod"}:                        "/api/v1/namespaces/%s/pods",
	{Kind: "PersistentVolumeClaim"}:      "/api/v1/namespaces/%s/persistentvolumeclaims",
	{Kind: "ReplicationController"}:      "/api/v1/namespaces/%s/replicationcontrollers",
	{Group: "apps", Kind: "DaemonSet"}:   "/apis/apps/v1/namespaces/%s/daemonsets",
	{Group: "apps", Kind: "Deployment"}:  "/apis/apps/v1/namespaces/%s/deployments",
	{Group: "apps", Kind: "ReplicaSet"}:  "/apis/apps/v1/namespaces/%s/replicasets",
	{Group: "apps", Kind: "StatefulSet"}: "/apis/apps/v1/namespaces/%s/statefulsets",
	{Group: "batch", Kind: "Job"}:        "/apis/batch/v1/namespaces/%s/jobs",
}

// Symptoms implements k8s.Reader. The Pods that do not run yet are the first to be asked, because a
// rollout leaves the Pods of the older version running.
func (c *Client) Symptoms(ctx context.Context, object inventory.Object) (string, error) {
	path := symptomPaths[object.GroupKind()]
	if path == "" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r := symptomReader{c.discovery.RESTClient()}
	live, err := r.list(ctx, fmt.Sprintf(path, object.Namespace), 1, "metadata.name="+object.Name, "")
	if err != nil || len(live) == 0 {
		return "", err
	}
	switch object.Kind {
	case "Pod":
		return r.podCause(ctx, live[0])
	case "PersistentVolumeClaim":
		return r.latestEvent(ctx, live[0], "")
	default:
		return r.workloadSymptom(ctx, live[0])
	}
}

// symptomReader reads facts that an object's status lacks.
type symptomReader struct{ rest rest.Interface }

// workloadSymptom returns what the Pods of a workload report, or the workload's own warning if it
// has no Pod that hangs.
func (r symptomReader) workloadSymptom(ctx context.Context, workload *unstructured.Unstructured) (string, error) {
	labels := podSelector(workload)
	for _, phase := range []string{"status.phase=Pending", "status.phase!=Pending,status.phase!=Succeeded"} {
		if labels == "" {
			break
		}
		pods, err := r.list(ctx, fmt.Sprintf(symptomPaths[schema.GroupKind{Kind: "Pod"}], workload.GetNamespace()), maxSymptomPods, phase, labels)
		if err != nil {
			return "", err
		}
		pods = slices.DeleteFunc(pods, func(pod *unstructured.Unstructured) bool { return !isPodOf(pod, workload) })
		if text, err := r.podsSymptom(ctx, pods); err != nil || text != "" {
			return text, err
		}
	}
	return r.latestEvent(ctx, workload, "Warning")
}

// podsSymptom returns the verdict on the Pod that is worst off, the number of such Pods, and the
// cause as far as events name it. It returns "" if all are healthy.
func (r symptomReader) podsSymptom(ctx context.Context, pods []*unstructured.Unstructured) (string, error) {
	var worst *unstructured.Unstructured
	var verdict health.Verdict
	unhealthy, library := 0, health.NewLibrary()
	for _, pod := range pods {
		v := library.Judge(pod)
		if v.State != health.Degraded && v.State != health.Progressing {
			continue
		}
		unhealthy++
		if worst == nil || v.State == health.Degraded && verdict.State != health.Degraded {
			worst, verdict = pod, v
		}
	}
	if worst == nil {
		return "", nil
	}
	text := fmt.Sprintf("Pod %s %s", worst.GetName(), verdict.Message)
	if unhealthy > 1 {
		text = fmt.Sprintf("Pod %s, one of %d that are not healthy, %s", worst.GetName(), unhealthy, verdict.Message)
	}
	if verdict.State == health.Degraded { // its message names the cause
		return text, nil
	}
	cause, err := r.podCause(ctx, worst)
	if err != nil || cause == "" {
		return text, err
	}
	return text + "; " + cause, nil
}

// podCause returns what claims or warnings report of a Pod that waits: its own status names neither
// the volume that cannot be provisioned nor the one that cannot be mounted.
func (r symptomReader) podCause(ctx context.Context, pod *unstructured.Unstructured) (string, error) {
	if node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName"); node != "" {
		return r.latestEvent(ctx, pod, "Warning")
	}
	for _, name := range claimsOf(pod) {
		claims, err := r.list(ctx, fmt.Sprintf(symptomPaths[schema.GroupKind{Kind: "PersistentVolumeClaim"}], pod.GetNamespace()), 1, "metadata.name="+name, "")
		if err != nil {
			return "", err
		}
		if len(claims) == 0 {
			return fmt.Sprintf("PersistentVolumeClaim %s does not exist", name), nil
		}
		if phase, _, _ := unstructured.NestedString(claims[0].Object, "status", "phase"); phase == "Bound" {
			continue
		}
		event, err := r.latestEvent(ctx, claims[0], "")
		if err != nil || event != "" {
			return fmt.Sprintf("PersistentVolumeClaim %s is not bound: %s", name, event), err
		}
	}
	return "", nil
}

// latestEvent returns reason and message of the latest event about an object, of a type or of any.
func (r symptomReader) latestEvent(ctx context.Context, object *unstructured.Unstructured, kind string) (string, error) {
	selector := "involvedObject.uid=" + string(object.GetUID())
	if kind != "" {
		selector += ",type=" + kind
	}
	events, err := r.list(ctx, fmt.Sprintf("/api/v1/namespaces/%s/events", object.GetNamespace()), maxSymptomEvents, selector, "")
	if err != nil || len(events) == 0 {
		return "", err
	}
	latest := slices.MaxFunc(events, func(a, b *unstructured.Unstructured) int { return cmp.Compare(eventTime(a), eventTime(b)) })
	reason, _, _ := unstructured.NestedString(latest.Object, "reason")
	message, _, _ := unstructured.NestedString(latest.Object, "message")
	return reason + ": " + strings.TrimSpace(message), nil
}

// eventTime returns when an event happened last. All times of the API server are in UTC, so that
// the texts can be compared.
func eventTime(event *unstructured.Unstructured) string {
	for _, path := range [][]string{{"series", "lastObservedTime"}, {"lastTimestamp"}, {"eventTime"}} {
		if text, _, _ := unstructured.NestedString(event.Object, path...); text != "" {
			return text
		}
	}
	return event.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z")
}

// podSelector returns the label selector of a workload in the form of a request, or "" if it has
// none. That of a ReplicationController is a set of labels.
func podSelector(workload *unstructured.Unstructured) string {
	fields, _, _ := unstructured.NestedMap(workload.Object, "spec", "selector")
	if workload.GetKind() == "ReplicationController" {
		fields = map[string]any{"matchLabels": fields}
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &selector); err != nil {
		return ""
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil || parsed.Empty() {
		return ""
	}
	return parsed.String()
}

// isPodOf reports whether a Pod belongs to a workload: selectors may overlap, and must not reveal
// the Pods of others. A Deployment names its ReplicaSets after itself and the hash that their Pods
// are labelled with.
func isPodOf(pod, workload *unstructured.Unstructured) bool {
	for _, owner := range pod.GetOwnerReferences() {
		isReplicaSet := owner.Kind == "ReplicaSet" && owner.Name == workload.GetName()+"-"+pod.GetLabels()["pod-template-hash"]
		if owner.UID == workload.GetUID() || isReplicaSet && workload.GetKind() == "Deployment" {
			return true
		}
	}
	return false
}

// claimsOf returns the names of the claims that a Pod mounts.
func claimsOf(pod *unstructured.Unstructured) (names []string) {
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	for _, item := range volumes {
		volume, _ := item.(map[string]any)
		if name, _, _ := unstructured.NestedString(volume, "persistentVolumeClaim", "claimName"); name != "" && len(names) < maxSymptomClaims {
			names = append(names, name)
		}
	}
	return names
}

// list reads the first objects of a collection, and refuses an answer that is too large.
func (r symptomReader) list(ctx context.Context, path string, limit int, fields, labels string) ([]*unstructured.Unstructured, error) {
	request := r.rest.Get().AbsPath(path).Param("limit", fmt.Sprint(limit)).Param("fieldSelector", fields)
	if labels != "" {
		request = request.Param("labelSelector", labels)
	}
	stream, err := request.Stream(ctx)
	if err != nil {
		return nil, translate(err, "Event")
	}
	defer stream.Close()
	body, err := io.ReadAll(io.LimitReader(stream, maxSymptomAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	if len(body) > maxSymptomAnswer {
		return nil, fmt.Errorf("list %s: got more than %d bytes", path, maxSymptomAnswer)
	}
	var answer struct {
		Kind  string           `json:"kind"`
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	objects := make([]*unstructured.Unstructured, 0, len(answer.Items))
	for _, item := range answer.Items { // the items of a typed list have no kind
		o := &unstructured.Unstructured{Object: item}
		o.SetKind(strings.TrimSuffix(answer.Kind, "List"))
		o.SetAPIVersion("v1")
		objects = append(objects, o)
	}
	return objects, nil
}
