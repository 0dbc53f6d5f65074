// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

const (
	rbacGroup = "rbac.authorization.k8s.io"
	// maxBindings bounds the bindings of a kind that are read before a role is deleted.
	maxBindings = 20_000
	// howToRemove ends the refusals.
	howToRemove = "docs/guides/upgrade-agents.md describes how to remove an agent"
)

// self is what the running agent is made of. The agent deletes none of it, and takes no rights from itself, whatever a
// plan has: no person could bring it back through the hub. It is safe for concurrent use.
type self struct {
	// params has the cluster as the agent itself uses it, from which a service's account cannot hide bindings.
	params *Params

	mu    sync.Mutex
	known *k8s.Self
}

// get returns the answer. It is asked for once, and again while it has a gap, which a person may close.
func (s *self) get(ctx context.Context) (k8s.Self, error) {
	if s.params.Self == nil {
		return k8s.Self{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || s.known.Gap != nil {
		known, err := s.params.Self(ctx)
		if err != nil {
			return known, err
		}
		s.known = &known
	}
	return *s.known, nil
}

// runs reports whether the agent ends, or does not come back, without the object.
func runs(me k8s.Self, k inventory.Key) bool {
	return slices.Contains(me.Workloads, k) || slices.Contains(me.Base, k)
}

// checkDelete returns why an object must not be deleted, or nil.
func (s *self) checkDelete(ctx context.Context, k inventory.Key) error {
	me, err := s.get(ctx)
	if err != nil {
		return err
	}
	if runs(me, k) || slices.Contains(me.Needs, k) {
		return reason.Errorf(reason.AgentItself, "is a part of the agent that runs here, and an agent deletes no part of itself: put it back into the manifests, "+
			"or give it the annotation leat.dev/prune: disabled, with which it stays and is no longer Leat's; %s", howToRemove)
	}
	if gap := me.Gap; gap != nil && k.Namespace == gap.Object.Namespace && isPartOfPods(k) {
		return reason.Errorf(reason.AgentPodUnreadable, "could be a part of the agent that runs here, which could not read %s, on which it runs (%s), and which deletes no part of itself: "+
			"let its service account get pods, replicasets, deployments and statefulsets in namespace %s, as the Role of its chart does", gap.Object, gap.Cause, k.Namespace)
	}
	binding := ""
	switch {
	case me.Account == (k8s.Account{}) || k.Group != rbacGroup:
	case isBinding(k):
		live, err := s.params.Cluster.Get(ctx, inventory.Ref{Key: k, Version: "v1"})
		if err != nil && !isUnreadable(err) {
			return err
		}
		if err == nil && binds(live, me.Account) {
			binding = "it"
		}
	case k.Kind == "Role" || k.Kind == "ClusterRole":
		if binding, err = s.bindingOf(ctx, k, me.Account); err != nil {
			return err
		}
	}
	if binding != "" {
		return reason.Errorf(reason.AgentItself, "gives the agent that runs here its rights (by %s), and an agent takes none from itself: put it back into the manifests, "+
			"or delete it with kubectl; %s", binding, howToRemove)
	}
	return nil
}

// bindingOf returns a binding by which an account has a role, or "".
func (s *self) bindingOf(ctx context.Context, role inventory.Key, account k8s.Account) (string, error) {
	kinds := []string{"RoleBinding"}
	if role.Kind == "ClusterRole" {
		kinds = append(kinds, "ClusterRoleBinding")
	}
	for _, kind := range kinds {
		all, err := s.params.Cluster.List(ctx, schema.GroupVersionKind{Group: rbacGroup, Version: "v1", Kind: kind}, role.Namespace, maxBindings)
		if err != nil && !isUnreadable(err) {
			return "", err
		}
		for _, b := range all {
			kind, _, _ := unstructured.NestedString(b.Object, "roleRef", "kind")
			name, _, _ := unstructured.NestedString(b.Object, "roleRef", "name")
			if kind == role.Kind && name == role.Name && binds(b, account) {
				return inventory.RefOf(b).String(), nil
			}
		}
	}
	return "", nil
}

// checkApply returns why an object must not be applied, or nil.
func (s *self) checkApply(ctx context.Context, o *unstructured.Unstructured) error {
	k := inventory.RefOf(o).Key
	replicas, isSet, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
	isStop := err == nil && isSet && isZero(replicas)
	if !isStop && !isBinding(k) {
		return nil
	}
	me, err := s.get(ctx)
	if err != nil {
		return err
	}
	if isStop && slices.Contains(me.Workloads, k) {
		return reason.Errorf(reason.AgentItself, "would scale the agent that runs here to no replica, after which no person can bring it back through the hub: "+
			"set replicas to 1 or more; leat pause stops services; %s", howToRemove)
	}
	if !isBinding(k) || me.Account == (k8s.Account{}) || binds(o, me.Account) {
		return nil
	}
	live, err := s.params.Cluster.Get(ctx, inventory.RefOf(o))
	switch {
	case isUnreadable(err):
		return nil
	case err != nil:
		return err
	case binds(live, me.Account):
		return reason.Errorf(reason.AgentItself, "would take service account %s out of a binding, and with it rights from the agent that runs here: "+
			"put the account back, or change the binding with kubectl", me.Account)
	}
	return nil
}

// isOfAgent reports whether an error is a refusal to end the agent, or what may be a part of it.
func isOfAgent(err error) bool {
	problem, ok := errors.AsType[*reason.Problem](err)
	return ok && (problem.Reason == reason.AgentItself || problem.Reason == reason.AgentPodUnreadable)
}

// isUnreadable reports whether an object does not exist, or the agent may not read it. One that may not read bindings
// has no right to change them either.
func isUnreadable(err error) bool {
	return errors.Is(err, k8s.ErrNotFound) || err != nil && reason.ProblemOf(err).Reason == reason.ApplyRejected
}

// isPartOfPods reports whether a kind of object can be what runs a Pod, or what a Pod refers to.
func isPartOfPods(k inventory.Key) bool {
	switch k.Group {
	case "":
		return slices.Contains([]string{"Pod", "ServiceAccount", "Secret", "ConfigMap", "PersistentVolumeClaim"}, k.Kind)
	case "apps":
		return true
	}
	return false
}

func isBinding(k inventory.Key) bool {
	return k.Group == rbacGroup && (k.Kind == "RoleBinding" || k.Kind == "ClusterRoleBinding")
}

// binds reports whether an account is a subject of a binding.
func binds(binding *unstructured.Unstructured, account k8s.Account) bool {
	subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	return slices.ContainsFunc(subjects, func(subject any) bool {
		fields, _ := subject.(map[string]any)
		return fields["kind"] == "ServiceAccount" && fields["name"] == account.Name && fields["namespace"] == account.Namespace
	})
}

// isZero reports whether a number of a manifest is 0.
func isZero(number any) bool {
	switch n := number.(type) {
	case int64:
		return n == 0
	case float64:
		return n == 0
	}
	return false
}

// sparing is the cluster for runs: it refuses what would end the agent.
type sparing struct {
	k8s.API

	self *self
}

// Apply implements k8s.Writer.
func (s sparing) Apply(ctx context.Context, o *unstructured.Unstructured, options k8s.ApplyOptions) (*unstructured.Unstructured, error) {
	if err := s.self.checkApply(ctx, o); err != nil {
		return nil, err
	}
	return s.API.Apply(ctx, o, options)
}

// Delete implements k8s.Writer.
func (s sparing) Delete(ctx context.Context, o inventory.Object, options k8s.DeleteOptions) (*unstructured.Unstructured, error) {
	if err := s.self.checkDelete(ctx, o.Key); err != nil {
		return nil, err
	}
	return s.API.Delete(ctx, o, options)
}

// keepAgent fails if the manifests no longer have what the running agent is made of, before anything changes. A second
// agent would start beside it otherwise, under another name or in another namespace.
func (r *run) keepAgent(ctx context.Context) error {
	isNear := func(o inventory.Object) bool {
		return o.Namespace == r.x.params.Namespace || o.Namespace == "" && o.Name == r.x.params.Namespace
	}
	if !slices.ContainsFunc(r.record.Objects.Objects(), isNear) {
		return nil
	}
	me, err := r.x.self.get(ctx)
	if err != nil {
		return err
	}
	wanted, err := r.wanted(ctx)
	if err != nil {
		return err
	}
	for _, o := range r.record.Objects.Objects() {
		if !runs(me, o.Key) || wanted[o.Key] {
			continue
		}
		if owner := (handover{r}).otherHolder(o.Key); owner != "" {
			continue
		}
		isTaken, err := r.x.params.Ownership.HasClaimant(ctx, r.Member, o.Key)
		if err != nil {
			return err
		}
		if !isTaken {
			return reason.Errorf(reason.AgentItself, "the manifests no longer have %s, on which the agent runs that reads them, so it applies nothing of this service: "+
				"put it back under that name; %s", o.Key, howToRemove)
		}
	}
	return nil
}

// wanted returns the keys of the objects in the manifests.
func (r *run) wanted(ctx context.Context) (map[inventory.Key]bool, error) {
	check := keyCheck{cluster: r.cluster, namespace: r.Service.Spec.NamespaceOrDefault()}
	wanted := map[inventory.Key]bool{}
	for _, o := range r.manifests.Objects {
		key, err := check.keyOf(ctx, o)
		if err != nil {
			return nil, err
		}
		wanted[key] = true
	}
	return wanted, nil
}

// holdsAgent reports whether objects that are about to leave run the agent.
func (r *run) holdsAgent(ctx context.Context, gone []inventory.Object) (bool, error) {
	me, err := r.x.self.get(ctx)
	return err == nil && slices.ContainsFunc(gone, func(o inventory.Object) bool { return runs(me, o.Key) }), err
}
