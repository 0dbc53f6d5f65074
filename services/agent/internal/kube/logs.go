// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

const (
	logLines = 20
	// logBytes is how much of a container's log is kept. It is more than people are shown, so that
	// no secret is cut before it is masked.
	logBytes = 64 << 10
)

// Logs implements reconcile.Cluster.
func (c *Client) Logs(ctx context.Context, object inventory.Object) (string, error) {
	pod, err := c.witness(ctx, object)
	if err != nil || pod == nil {
		return "", err
	}
	var text strings.Builder
	names := failedContainers(pod)
	for _, name := range names {
		tail, err := c.tail(ctx, pod, name)
		if err != nil {
			return "", fmt.Errorf("read log of container %s: %w", name, err)
		}
		if len(names) > 1 {
			fmt.Fprintf(&text, "==> %s\n", name)
		}
		text.WriteString(tail)
	}
	return text.String(), nil
}

// witness returns the pod with the most informative log: the object itself, or the Job's pod that
// failed last. It returns nil if no pod exists.
func (c *Client) witness(ctx context.Context, object inventory.Object) (*unstructured.Unstructured, error) {
	switch object.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		return c.Get(ctx, object.Ref)
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
	default:
		return nil, nil
	}
	pods := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(object.Namespace)
	selector := labels.Set{"batch.kubernetes.io/controller-uid": object.UID}.String()
	list, err := request(ctx, c, "Pod", func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return pods.List(ctx, metav1.ListOptions{LabelSelector: selector})
	})
	if err != nil {
		return nil, err
	}
	var latest *unstructured.Unstructured
	for i := range list.Items {
		if pod := &list.Items[i]; latest == nil || isMoreInformative(pod, latest) {
			latest = pod
		}
	}
	return latest, nil
}

// isMoreInformative reports whether pod is more informative about a failure than other: it failed,
// or is younger.
func isMoreInformative(pod, other *unstructured.Unstructured) bool {
	if hasFailed(pod) != hasFailed(other) {
		return hasFailed(pod)
	}
	return pod.GetCreationTimestamp().After(other.GetCreationTimestamp().Time)
}

func hasFailed(pod *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase == "Failed" || len(failedStatuses(pod)) > 0
}

// failedContainers returns the names of the containers that failed, or of all if none is known to
// have failed.
func failedContainers(pod *unstructured.Unstructured) []string {
	if names := failedStatuses(pod); len(names) > 0 {
		return names
	}
	var names []string
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	for _, item := range containers {
		container, _ := item.(map[string]any)
		name, _ := container["name"].(string)
		names = append(names, name)
	}
	return names
}

func failedStatuses(pod *unstructured.Unstructured) (names []string) {
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", field)
		for _, item := range statuses {
			status, _ := item.(map[string]any)
			code, terminated, _ := unstructured.NestedInt64(status, "state", "terminated", "exitCode")
			if !terminated {
				code, terminated, _ = unstructured.NestedInt64(status, "lastState", "terminated", "exitCode")
			}
			if name, ok := status["name"].(string); ok && terminated && code != 0 {
				names = append(names, name)
			}
		}
	}
	return names
}

// tail reads the last lines of one container's log.
func (c *Client) tail(ctx context.Context, pod *unstructured.Unstructured, container string) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := c.discovery.RESTClient().Get().
		AbsPath("/api/v1/namespaces", pod.GetNamespace(), "pods", pod.GetName(), "log").
		Param("container", container).Param("tailLines", fmt.Sprint(logLines)).Stream(ctx)
	if err != nil {
		return "", translate(err, "Pod")
	}
	defer stream.Close()
	return lastLines(stream)
}

// lastLines reads to the end and keeps the last lines. It keeps only the end of a line that is too
// long.
func lastLines(r io.Reader) (string, error) {
	reader := bufio.NewReader(r)
	var kept []byte
	for {
		line, err := reader.ReadSlice('\n')
		kept = append(kept, line...)
		if over := len(kept) - 2*logBytes; over > 0 {
			kept = append(kept[:0], kept[len(kept)-logBytes:]...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return "", fmt.Errorf("read log: %w", err)
		}
	}
	kept = kept[max(len(kept)-logBytes, 0):]
	lines := strings.SplitAfter(strings.TrimSuffix(string(kept), "\n"), "\n")
	text := strings.Join(lines[max(len(lines)-logLines, 0):], "")
	if text == "" {
		return "", nil
	}
	return text + "\n", nil
}
