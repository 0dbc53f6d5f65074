// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"strings"
	"sync"

	"github.com/leatdev/leat/internal/syncpolicy"
)

// Account is a service account. The zero Account is the agent's own.
type Account struct{ Namespace, Name string }

// String names the account as people write it.
func (a Account) String() string {
	if a == (Account{}) {
		return ""
	}
	return a.Namespace + "/" + a.Name
}

// accountOf reads what people write; a name alone is of an account in the given namespace.
func accountOf(text, namespace string) Account {
	if text == "" {
		return Account{}
	}
	if before, after, found := strings.Cut(text, "/"); found {
		return Account{Namespace: before, Name: after}
	}
	return Account{Namespace: namespace, Name: text}
}

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
func (t *tenancy) account(s Spec) (Account, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	text := s.Policy.ServiceAccount
	if text == "" {
		text = t.fallback
	}
	if text == "" && t.locked {
		return Account{}, problemf(TenantForbidden, "this cluster applies nothing with the agent's own rights, and the service names "+
			"no service account; set its policy.serviceAccount")
	}
	return accountOf(text, s.namespace()), nil
}

// actAs returns as whom a service is applied, and the cluster as the account sees it.
func (e *Engine) actAs(s Spec) (Account, Cluster, error) {
	account, err := e.tenancy.account(s)
	if err != nil {
		return Account{}, nil, err
	}
	cluster, err := e.params.Cluster.As(account)
	return account, cluster, err
}

// as gives access to the cluster with the rights of a service. What people cannot read they cannot make conditions of either.
// Error: TenantForbidden.
func (e *Engine) as(s Spec) (Cluster, error) {
	_, cluster, err := e.actAs(s)
	return cluster, err
}

// assume lets the run act as the service's account. A service that left the plan goes as it came.
func (r *run) assume(what action) (err error) {
	if what == bring || what == preview {
		r.account, r.cluster, err = r.engine.actAs(r.service.Spec)
		return err
	}
	r.account = accountOf(r.record.Account, "")
	r.cluster, err = r.engine.params.Cluster.As(r.account)
	return err
}
