// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/await"
)

const (
	ofAgent    = "app.kubernetes.io/name=leat-agent"
	ofServices = "leat.dev/service"
)

// removal follows the steps of the guide by which people remove the agent.
type removal struct {
	*upgrades
	// steps are the guide's blocks of commands, in order.
	steps []string
}

// checkRemoval removes the agent as the guide has it. Afterwards the cluster has what it had before the
// agent came, and what others have made since, also the objects of a service that left them behind.
func (u *upgrades) checkRemoval(t *testing.T) {
	r := &removal{upgrades: u, steps: u.removalSteps(t)}
	u.document(t, strings.ReplaceAll(serviceOf("hours", "first"), "path: hours }]", "path: hours }], policy: { deletion: { detach: true } }"))
	u.run(t, "leat", "wait", "service/hours@eu-lab", "--for", "healthy", patience)
	want := r.others(t)

	r.deleteServices(t)
	r.releaseAgent(t)
	r.deleteAgent(t)
	r.step(t, 3)
	if out, err := u.try(t, nil, "leat", "get", "cluster", "eu-lab"); err == nil {
		t.Errorf("the hub still has the cluster:\n%s", out)
	}
	r.step(t, 4)
	if got := u.everything(t); !slices.Equal(got, want) {
		t.Errorf("the removal left\n%s\nand took\n%s", strings.Join(without(got, want), "\n"), strings.Join(without(want, got), "\n"))
	}
	if left := namesOutside(u.everything(t), agentHub, "shop"); !slices.Equal(left, u.before) {
		t.Errorf("the agent left\n%s\nand took\n%s", strings.Join(without(left, u.before), "\n"), strings.Join(without(u.before, left), "\n"))
	}
}

// others returns the objects that stay. The others are the agent's, or belong to the services that are
// deleted without leaving their objects behind.
func (r *removal) others(t *testing.T) []string {
	t.Helper()
	ofAgents := r.everything(t, "--selector", ofAgent)
	return slices.DeleteFunc(r.everything(t), func(object string) bool {
		fields := strings.Fields(object)
		kind, namespace, name := fields[0], path.Dir(fields[1]), path.Base(fields[1])
		switch {
		case slices.Contains(ofAgents, object), namespace == agentHome, kind == "Namespace" && name == agentHome:
			return true
		case namespace == "shop":
			return name != "hours" && name != "kube-root-ca.crt" && kind != "ServiceAccount"
		default:
			return false
		}
	})
}

// removalSteps returns the blocks of commands below the guide's heading.
func (u *upgrades) removalSteps(t *testing.T) []string {
	t.Helper()
	_, section, _ := strings.Cut(read(t, filepath.Join(top, agentGuide)), "\n## Remove an agent\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var steps []string
	for _, block := range strings.Split(section, "```sh\n")[1:] {
		commands, _, _ := strings.Cut(block, "```")
		steps = append(steps, commands)
	}
	if len(steps) != 5 {
		t.Fatalf("got the commands %q in %s, want steps that delete services, list inventories, delete the agent, its cluster and its namespace", steps, agentGuide)
	}
	return steps
}

// step runs a block of commands, and returns its standard output.
func (r *removal) step(t *testing.T, i int) string {
	t.Helper()
	out, err := r.try(t, strings.NewReader("set -e\n"+r.steps[i]), "/bin/sh")
	if err != nil {
		t.Fatalf("%s\n%v", r.steps[i], err)
	}
	return out
}

// awaitInventories blocks until the guide's command lists the inventories of these services.
func (r *removal) awaitInventories(t *testing.T, services ...string) {
	t.Helper()
	await.Success(t, "the inventories of "+strings.Join(services, ", ")+" alone", func(context.Context) error {
		var got []string
		out := r.step(t, 1)
		for line := range strings.Lines(out) {
			if service, isInventory := strings.CutPrefix(strings.Fields(line)[0], "leat-inventory."); isInventory {
				got = append(got, service)
			}
		}
		if !slices.Equal(got, services) {
			return fmt.Errorf("got %s", out)
		}
		return nil
	})
}

// deleteServices deletes the services, and requires that their objects are gone with their inventories.
func (r *removal) deleteServices(t *testing.T) {
	t.Helper()
	r.step(t, 0)
	r.awaitInventories(t, "leat-agent")
	for _, selector := range []string{ofServices + " notin (leat-agent)," + ofServices, "app=web"} {
		if left := r.everything(t, "--selector", selector); len(left) > 0 {
			t.Errorf("the services left objects that match %s:\n%s", selector, strings.Join(left, "\n"))
		}
	}
	r.kubectl(t, "--namespace", "shop", "get", "configmap", "hours")
}

// releaseAgent takes the label from the cluster, and requires that the agent still works, and that no
// object of it is Leat's any more.
func (r *removal) releaseAgent(t *testing.T) {
	t.Helper()
	r.document(t, "apiVersion: leat.dev/v1\nkind: Cluster\nmetadata: { name: eu-lab, labels: { region: eu } }\n")
	r.awaitInventories(t)
	if left := r.everything(t, "--selector", ofServices); len(left) > 0 {
		t.Errorf("these objects are still Leat's:\n%s", strings.Join(left, "\n"))
	}
	if got := r.deployment(t, "{.metadata.uid} {.status.readyReplicas}"); got != r.uid+" 1" {
		t.Errorf("the agent's Deployment has %q, want %q", got, r.uid+" 1")
	}
}

// deleteAgent deletes the agent's objects, and waits until the hub shows the cluster as offline.
func (r *removal) deleteAgent(t *testing.T) {
	t.Helper()
	r.step(t, 2)
	left := r.everything(t, "--selector", ofAgent)
	left = slices.DeleteFunc(left, func(object string) bool { return strings.Contains(object, " "+agentHome+"/") })
	if len(left) > 0 {
		t.Errorf("the commands left\n%s", strings.Join(left, "\n"))
	}
	await.Success(t, "the hub to show the cluster as offline", func(context.Context) error {
		if got := r.run(t, "leat", "get", "cluster", "eu-lab"); !strings.Contains(got, " offline ") {
			return fmt.Errorf("got\n%s", got)
		}
		return nil
	})
}

// everything returns all objects of the cluster, as KIND NAMESPACE/NAME UID, without events and
// without the test's webhook. Arguments of kubectl get limit it.
func (n *node) everything(t *testing.T, args ...string) []string {
	t.Helper()
	kinds := strings.Fields(n.kubectl(t, "api-resources", "--verbs=list", "--output", "name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool {
		return strings.HasPrefix(kind, "events") || kind == "endpoints" || kind == "componentstatuses"
	})
	const form = `jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.uid}{"\n"}{end}`
	out := n.kubectl(t, slices.Concat([]string{"get", strings.Join(kinds, ","), "--all-namespaces", "--output", form}, args)...)
	var objects []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); !strings.Contains(line, "/steps.leat.test ") {
			objects = append(objects, line)
		}
	}
	slices.Sort(objects)
	return objects
}

// namesOutside returns objects without their uids, and without those of some namespaces.
func namesOutside(objects []string, namespaces ...string) []string {
	var names []string
	for _, object := range objects {
		fields := strings.Fields(object)
		namespace, name, _ := strings.Cut(fields[1], "/")
		if !slices.Contains(namespaces, namespace) && (fields[0] != "Namespace" || !slices.Contains(namespaces, name)) {
			names = append(names, fields[0]+" "+fields[1])
		}
	}
	return names
}

// without returns the elements of a list that another one lacks.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(element string) bool { return slices.Contains(other, element) })
}
