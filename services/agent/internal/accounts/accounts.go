// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package accounts decides as which service account the agent works on a service.
//
// Two sides decide. The operator of the cluster sets a Lock where the agent runs. The hub sends its
// own settings with the plan, as Hub. The package promises that nothing in a plan widens what the
// Lock allows: the hub can lock a cluster that its operator left open, and it cannot open a cluster
// that its operator locked.
//
// RBAC decides after this package whether the agent may impersonate the account, and what the
// account may do.
package accounts

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

// Names of the settings, for messages to operators.
const (
	lockSetting = "LEAT_AGENT_LOCK_DOWN"
	listSetting = "LEAT_AGENT_ALLOWED_ACCOUNTS"
)

// Lock is the cluster's own bound. The zero Lock allows every account, and the agent's own rights.
// A Lock is immutable.
type Lock struct {
	isLocked bool
	allowed  syncpolicy.AllowList // nil: every account
	home     string
}

// NewLock returns the bound that the operator of a cluster has set. Without isLocked it allows
// everything, and there may be no patterns. Patterns have the form namespace/name, in which *
// stands for any text. Nil patterns allow every account outside of home, the agent's own namespace.
// Empty patterns, and patterns without one of the two parts, are an error.
func NewLock(isLocked bool, patterns []string, home string) (Lock, error) {
	if patterns == nil {
		return Lock{isLocked: isLocked, home: home}, nil
	}
	if !isLocked {
		return Lock{}, fmt.Errorf("got a list, want none without %s=true", lockSetting)
	}
	if len(patterns) == 0 {
		return Lock{}, errors.New("got an empty list, want namespace/name patterns, or no list to allow every account")
	}
	for _, pattern := range patterns {
		if namespace, name, _ := strings.Cut(pattern, "/"); namespace == "" || name == "" || strings.Contains(name, "/") {
			return Lock{}, fmt.Errorf("got %q, want namespace/name, in which * stands for any text", pattern)
		}
	}
	allowed := syncpolicy.AllowList(slices.Clone(patterns))
	if err := allowed.Validate(""); err != nil {
		return Lock{}, err
	}
	return Lock{isLocked: true, allowed: allowed, home: home}, nil
}

// IsLocked reports whether services without an account are refused.
func (l Lock) IsLocked() bool { return l.isLocked }

// Allowed returns the patterns of the accounts that are allowed. Nil: every account.
func (l Lock) Allowed() []string { return slices.Clone(l.allowed) }

// Hub holds the hub's settings for accounts from its plan.
type Hub struct {
	// IsLocked refuses services without an account.
	IsLocked bool
	// Default is the account of services that name none: namespace/name, or the name of an account
	// in each service's own namespace. Empty: no default.
	Default string
}

// Choose returns the account of a service. named is the account in the service's policy, and
// namespace the service's own. The zero Account means the agent's own rights. The error is a
// TenantForbidden with what the operator or the author of the service can do.
//
// Under a Lock the hub's default counts if the Lock lists it, and not otherwise: a service gets an
// account that its author did not name only if the operator of the cluster did.
func Choose(lock Lock, hub Hub, named, namespace string) (k8s.Account, error) {
	account, err := k8s.ParseAccount(named, namespace)
	if err != nil {
		return k8s.Account{}, forbid("policy.serviceAccount: %v", err)
	}
	if account != (k8s.Account{}) {
		return account, lock.Admit(account)
	}
	account, err = k8s.ParseAccount(hub.Default, namespace)
	switch {
	case err != nil:
		return k8s.Account{}, forbid("spec.agent.defaultServiceAccount of the cluster: %v", err)
	case account == (k8s.Account{}) && hub.IsLocked && !lock.isLocked:
		return k8s.Account{}, forbid("this cluster applies nothing with the agent's own rights, and the service names " +
			"no service account; set its policy.serviceAccount")
	case account != (k8s.Account{}) && lock.isLocked && lock.allowed == nil:
		return k8s.Account{}, forbid("the service names no service account, and the agent of this cluster is locked (%s): the hub's "+
			"default %s does not count without %s; set the service's policy.serviceAccount", lockSetting, account, listSetting)
	}
	return account, lock.Admit(account)
}

// Admit returns why the cluster's own lock refuses an account, as a TenantForbidden, or nil. The
// zero Account means the agent's own rights.
func (l Lock) Admit(account k8s.Account) error {
	if !l.isLocked {
		return nil
	}
	switch {
	case account == (k8s.Account{}):
		return forbid("the agent of this cluster is locked (%s): it applies and deletes nothing with its own rights, and the service "+
			"names no service account; set its policy.serviceAccount", lockSetting)
	case account.Namespace == l.home && !l.namesHome(account):
		return forbid("service account %s is in the agent's own namespace, and could act as the agent; the agent of this cluster is locked "+
			"(%s), and allows such an account only if %s names it with the namespace %s", account, lockSetting, listSetting, l.home)
	case !l.allowed.Allows(account.String()):
		return forbid("the agent of this cluster does not allow service account %s; an operator of the cluster can add it to %s", account, listSetting)
	}
	return nil
}

// namesHome reports whether a pattern that names the agent's own namespace allows an account in it.
// A pattern such as * does not mean that namespace.
func (l Lock) namesHome(account k8s.Account) bool {
	return slices.ContainsFunc(l.allowed, func(pattern string) bool {
		return strings.HasPrefix(pattern, l.home+"/") && syncpolicy.AllowList{pattern}.Allows(account.String())
	})
}

func forbid(format string, args ...any) *reason.Problem {
	return reason.Errorf(reason.TenantForbidden, format, args...)
}
