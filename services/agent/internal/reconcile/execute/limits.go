// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/order"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// The limits of a service's project are checked twice. checkLimits checks all objects before the
// first write, so that a service beyond its limits changes nothing. complete checks each object
// again when its kind is certainly known: a kind that the service itself defines may not be served
// before.

// admitAccount checks the service account that the service is applied as.
func admitAccount(s plan.Service, account k8s.Account) error {
	limits := s.Spec.Policy.Limits
	if limits == nil || limits.ServiceAccounts == nil {
		return nil
	}
	if account == (k8s.Account{}) {
		return forbidden(s, "applied as the agent itself, and the project allows only the service accounts "+limits.ServiceAccounts.String())
	}
	if name := account.Namespace + "/" + account.Name; !limits.ServiceAccounts.Allows(name) {
		return forbidden(s, "applied as the service account "+name+", and the project allows "+limits.ServiceAccounts.String())
	}
	return nil
}

// admitNamespace checks a namespace that the service would have objects in, or create.
func admitNamespace(s plan.Service, what, namespace string) error {
	limits := s.Spec.Policy.Limits
	if limits == nil || limits.Namespaces.Allows(namespace) {
		return nil
	}
	return forbidden(s, what+" is in namespace "+namespace+", and the project allows "+limits.Namespaces.String())
}

// admitObject checks an object whose scope is known.
func admitObject(s plan.Service, o *unstructured.Unstructured, isNamespaced bool) error {
	limits := s.Spec.Policy.Limits
	if limits == nil {
		return nil
	}
	kind := o.GroupVersionKind().GroupKind()
	if isNamespaced {
		namespace := o.GetNamespace()
		if namespace == "" {
			namespace = s.Spec.NamespaceOrDefault()
		}
		return admitNamespace(s, kind.String()+" "+o.GetName(), namespace)
	}
	// A namespace that the service makes is one that it has objects in, whatever kinds it may make.
	if kind == (schema.GroupKind{Kind: "Namespace"}) && !limits.Namespaces.Allows(o.GetName()) {
		return forbidden(s, "the service makes the namespace "+o.GetName()+", and the project allows "+limits.Namespaces.String())
	}
	if limits.ClusterScopedKinds.Allows(kind.String()) {
		return nil
	}
	return forbidden(s, kind.String()+" "+o.GetName()+" has no namespace, and of such kinds the project allows "+limits.ClusterScopedKinds.String())
}

func forbidden(s plan.Service, what string) error {
	return reason.Errorf(reason.ProjectForbidden, "project %s does not allow this: %s", objectname.Project(s.Name), what)
}

// checkLimits fails if the run's service would go beyond its project's limits. Objects of kinds that the
// cluster does not serve yet are left to complete.
func checkLimits(ctx context.Context, r *run) error {
	if r.Service.Spec.Policy.Limits == nil {
		return nil
	}
	if err := admitAccount(r.Service, r.account); err != nil {
		return err
	}
	if r.Service.Spec.CreatesNamespace() {
		if err := admitNamespace(r.Service, "the service itself", r.Service.Spec.NamespaceOrDefault()); err != nil {
			return err
		}
	}
	admission := admission{r.Service, r.account, r.cluster, r.x.params.Namespace}
	for _, stage := range r.schedule.Of(order.Foundation, order.PreSync, order.Sync, order.PostSync, order.SyncFail) {
		for _, m := range stage.Members {
			if err := admission.rendered(ctx, m.Object); err != nil {
				return err
			}
		}
	}
	for _, t := range r.manifests.Tests {
		if err := admission.rendered(ctx, t.Object); err != nil {
			return err
		}
	}
	return nil
}

// admission compares the objects of a service in a project with limits.
type admission struct {
	service plan.Service
	account k8s.Account
	cluster k8s.Reader
	home    string // the agent's own namespace
}

func (a admission) rendered(ctx context.Context, o *unstructured.Unstructured) error {
	isNamespaced, err := a.cluster.Namespaced(ctx, o.GroupVersionKind())
	switch {
	case k8s.IsUnknownKind(err):
		return nil
	case err != nil:
		return err
	case isNamespaced && a.isHome(cmp.Or(o.GetNamespace(), a.service.Spec.NamespaceOrDefault())):
		return forbidden(a.service, o.GetKind()+" "+o.GetName()+" is in namespace "+a.home+", which is the agent's own and holds the keys of the cluster")
	}
	return admitObject(a.service, o, isNamespaced)
}

// isHome reports whether a namespace is the agent's own, and the service has no account and a limit
// for namespaces: a pattern such as * does not mean that namespace.
func (a admission) isHome(namespace string) bool {
	return namespace == a.home && namespace != "" && a.account == (k8s.Account{}) && a.service.Spec.Policy.Limits.Namespaces != nil
}
