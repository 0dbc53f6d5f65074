// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"sync"

	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/reconcile/decide"
)

// tenancy knows as whom services are applied that do not say so themselves.
type tenancy struct {
	mu       sync.RWMutex
	fallback string
	locked   bool // nothing is applied with the agent's own rights
}

func (t *tenancy) set(s syncpolicy.AgentSettings) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fallback, t.locked = s.DefaultServiceAccount, s.LockDown
}

// account is the one that everything of a service is done as. Error: TenantForbidden where there has to be one and is none.
func (t *tenancy) account(s plan.Spec) (k8s.Account, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	text := s.Policy.ServiceAccount
	if text == "" {
		text = t.fallback
	}
	if text == "" && t.locked {
		return k8s.Account{}, reason.Errorf(reason.TenantForbidden, "this cluster applies nothing with the agent's own rights, and the service names "+
			"no service account; set its policy.serviceAccount")
	}
	return k8s.ParseAccount(text, s.NamespaceOrDefault()), nil
}

// actAs returns as whom a service is applied, and the cluster as the account sees it.
func (e *Engine) actAs(s plan.Spec) (k8s.Account, k8s.API, error) {
	account, err := e.tenancy.account(s)
	if err != nil {
		return k8s.Account{}, nil, err
	}
	cluster, err := e.params.Cluster.As(account)
	return account, cluster, err
}

// as gives access to the cluster with the rights of a service. What people cannot read they cannot make conditions of either.
// Error: TenantForbidden.
func (e *Engine) as(s plan.Spec) (k8s.API, error) {
	_, cluster, err := e.actAs(s)
	return cluster, err
}

// assume lets the run act as the service's account. A service that left the plan goes as it came.
func (r *run) assume(what decide.Action) (err error) {
	if what == decide.Apply || what == decide.Preview {
		r.account, r.cluster, err = r.engine.actAs(r.service.Spec)
		return err
	}
	r.account = k8s.ParseAccount(r.record.Account, "")
	r.cluster, err = r.engine.params.Cluster.As(r.account)
	return err
}
