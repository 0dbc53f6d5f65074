// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package node installs the charts as they are shipped on a real Kubernetes node, delivers a commit
// to its pods, and disturbs them. `make node` starts the node and runs these tests on it: in its
// network, where names of Services resolve, and with kubectl, helm and leat of this checkout in PATH.
package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
)

// top is the root of the checkout.
const top = "../.."

// patience is the argument by which kubectl gives up where [await.True] does.
var patience = "--timeout=" + await.Patience.String()

// node runs programs on the node that `make node` started.
type node struct {
	// address is the node's own. Pods reach servers of the tests there.
	address string
	// env are the variables that every program gets besides the test's own.
	env []string
}

// requireNode returns the node. Without one it skips the test.
func requireNode(t *testing.T) *node {
	t.Helper()
	address := os.Getenv("LEAT_NODE")
	if address == "" {
		t.Skip("LEAT_NODE is not set: charts on a real node are left to `make node`")
	}
	home := t.TempDir() // of helm
	n := &node{address: address, env: []string{"HOME=" + home}}
	t.Cleanup(func() { n.explain(t) })
	return n
}

// explain logs the state of all pods, and what the cluster warned of, if the test has failed.
func (n *node) explain(t *testing.T) {
	t.Helper()
	if t.Failed() {
		t.Log(n.try(t, nil, "kubectl", "get", "pods", "--all-namespaces", "--output", "wide"))
		t.Log(n.try(t, nil, "kubectl", "get", "events", "--all-namespaces", "--field-selector", "type=Warning", "--sort-by", ".lastTimestamp"))
	}
}

// command returns a program of PATH that ends with the test, in the root of the checkout.
func (n *node) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	command.Dir, command.Env = top, append(os.Environ(), n.env...)
	return command
}

// try returns what a program prints to its standard output, without blanks at the ends.
func (n *node) try(t *testing.T, stdin io.Reader, name string, args ...string) (string, error) {
	t.Helper()
	command := n.command(t, name, args...)
	var complaints bytes.Buffer
	command.Stdin, command.Stderr = stdin, &complaints
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(out), bytes.TrimSpace(complaints.Bytes()))
	}
	return strings.TrimSpace(string(out)), err
}

// run is [node.try] of a program that has to succeed.
func (n *node) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := n.try(t, nil, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kubectl is [node.run] of kubectl as the cluster's administrator.
func (n *node) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return n.run(t, "kubectl", args...)
}

// apply has kubectl apply documents.
func (n *node) apply(t *testing.T, documents string) {
	t.Helper()
	if _, err := n.try(t, strings.NewReader(documents), "kubectl", "apply", "--filename", "-"); err != nil {
		t.Fatal(err)
	}
}

// namespace makes a namespace that ends with the test.
func (n *node) namespace(t *testing.T, name string, labels ...string) {
	t.Helper()
	n.kubectl(t, "create", "namespace", name)
	t.Cleanup(func() { n.kubectl(t, "delete", "namespace", name, "--wait=false") })
	if len(labels) > 0 {
		n.kubectl(t, append([]string{"label", "namespace", name}, labels...)...)
	}
}

// rolledOut blocks until each workload runs its spec.
func (n *node) rolledOut(t *testing.T, namespace string, workloads ...string) {
	t.Helper()
	for _, workload := range workloads {
		n.kubectl(t, "--namespace", namespace, "rollout", "status", workload, patience)
	}
}

// pod holds those parts of a pod that the tests read.
type pod struct {
	Metadata struct {
		Name, DeletionTimestamp string
	}
	Status struct {
		PodIP      string
		Conditions []struct{ Type, Status string }
		// ContainerStatuses has one entry: all pods of the charts have one container.
		ContainerStatuses []struct {
			ContainerID  string
			RestartCount int
		}
	}
}

func (p pod) isReady() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// restarts returns how often the kubelet started the pod's container again.
func (p pod) restarts() int {
	if len(p.Status.ContainerStatuses) == 0 {
		return 0
	}
	return p.Status.ContainerStatuses[0].RestartCount
}

// pods returns the pods of a service that are not about to end.
func (n *node) pods(t *testing.T, namespace, service string) []pod {
	t.Helper()
	var list struct{ Items []pod }
	text := n.kubectl(t, "--namespace", namespace, "get", "pods", "--selector", "app.kubernetes.io/name="+service, "--output", "json")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	var alive []pod
	for _, p := range list.Items {
		if p.Metadata.DeletionTimestamp == "" {
			alive = append(alive, p)
		}
	}
	if len(alive) == 0 {
		t.Fatalf("no pod of %s in namespace %s", service, namespace)
	}
	return alive
}

// pod returns one pod by its name.
func (n *node) pod(t *testing.T, namespace, name string) pod {
	t.Helper()
	var p pod
	if err := json.Unmarshal([]byte(n.kubectl(t, "--namespace", namespace, "get", "pod", name, "--output", "json")), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// restricted is the security context of a pod and of its container in the tests' own manifests, in
// namespaces that enforce the Pod Security profile of that name.
const (
	restrictedPod       = `{ runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: RuntimeDefault } }`
	restrictedContainer = `{ allowPrivilegeEscalation: false, capabilities: { drop: [ALL] } }`
)

// file writes a file that ends with the test, and returns its path.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// relay passes connections to an address of the node on to a server of the test.
func relay(t *testing.T, address, server string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := new(net.Dialer).DialContext(context.Background(), "tcp", server)
			if err != nil {
				_ = from.Close()
				continue
			}
			pass := func(a, b net.Conn) {
				_, _ = io.Copy(a, b)
				_, _ = a.Close(), b.Close()
			}
			go pass(from, to)
			go pass(to, from)
		}
	}()
}
