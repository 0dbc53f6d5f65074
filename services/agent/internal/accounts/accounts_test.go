// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package accounts_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

const home = "leat-system"

func newLock(t *testing.T, isLocked bool, patterns []string) accounts.Lock {
	t.Helper()
	lock, err := accounts.NewLock(isLocked, patterns, home)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// TestSecHubCannotWidenTheLock compares the settings of hub and service with the cluster's own
// lock.
func TestSecHubCannotWidenTheLock(t *testing.T) {
	t.Parallel()
	type lock struct {
		isLocked bool
		patterns []string
	}
	var (
		open   = lock{}
		locked = lock{isLocked: true}
		listed = lock{true, []string{"team-*/deployer", "leat-system/metrics"}}
		wide   = lock{true, []string{"*/*"}}
	)
	agent, deployer := k8s.Account{}, k8s.Account{Namespace: "team-a", Name: "deployer"}
	for name, test := range map[string]struct {
		lock  lock
		hub   accounts.Hub
		named string
		want  k8s.Account
		words string // of the refusal; empty: it is allowed
	}{
		"open, nothing named":                  {lock: open, want: agent},
		"open, a name alone":                   {lock: open, named: "deployer", want: deployer},
		"open, a full name":                    {lock: open, named: "team-a/deployer", want: deployer},
		"open, the hub's default":              {lock: open, hub: accounts.Hub{Default: "deployer"}, want: deployer},
		"open, the service before the default": {lock: open, hub: accounts.Hub{Default: "other"}, named: "deployer", want: deployer},
		"the hub locks":                        {lock: open, hub: accounts.Hub{IsLocked: true}, words: "policy.serviceAccount"},
		"the hub locks and has a default":      {lock: open, hub: accounts.Hub{IsLocked: true, Default: "deployer"}, want: deployer},

		"locked, nothing named":                      {lock: locked, words: "LEAT_AGENT_LOCK_DOWN"},
		"locked, also by the hub":                    {lock: locked, hub: accounts.Hub{IsLocked: true}, words: "LEAT_AGENT_LOCK_DOWN"},
		"locked, an account":                         {lock: locked, named: "deployer", want: deployer},
		"locked, the hub's default":                  {lock: locked, hub: accounts.Hub{Default: "team-a/deployer"}, words: "LEAT_AGENT_ALLOWED_ACCOUNTS"},
		"locked, the agent's own account":            {lock: locked, named: "leat-system/leat-agent", words: "the agent's own namespace"},
		"locked with a list, nothing named":          {lock: listed, words: "LEAT_AGENT_LOCK_DOWN"},
		"locked with a list, an account":             {lock: listed, named: "deployer", want: deployer},
		"locked with a list, another account":        {lock: listed, named: "admin", words: "does not allow service account team-a/admin"},
		"locked with a list, another namespace":      {lock: listed, named: "kube-system/deployer", words: "does not allow service account kube-system/deployer"},
		"locked with a list, the hub's default":      {lock: listed, hub: accounts.Hub{Default: "deployer"}, want: deployer},
		"locked with a list, another default":        {lock: listed, hub: accounts.Hub{Default: "kube-system/admin"}, words: "kube-system/admin"},
		"locked with a list, home by its name":       {lock: listed, named: "leat-system/metrics", want: k8s.Account{Namespace: home, Name: "metrics"}},
		"locked with a list, another one at home":    {lock: listed, named: "leat-system/deployer", words: "the agent's own namespace"},
		"a pattern of everything does not mean home": {lock: wide, named: "leat-system/leat-agent", words: "the agent's own namespace"},
		"a pattern of everything means the rest":     {lock: wide, named: "deployer", want: deployer},

		"a slash is not the agent":              {lock: open, named: "/", words: "not a service account"},
		"nor without a namespace":               {lock: open, named: "/deployer", words: "not a service account"},
		"nor without a name":                    {lock: open, named: "team-a/", words: "not a service account"},
		"nor as the default":                    {lock: open, hub: accounts.Hub{Default: "/"}, words: "defaultServiceAccount"},
		"a malformed name gets no default":      {lock: listed, hub: accounts.Hub{Default: "deployer"}, named: "/", words: "not a service account"},
		"two slashes":                           {lock: wide, named: "team-a/b/c", words: "not a service account"},
		"a user in place of an account":         {lock: wide, named: "team-a:b/c", words: "not a service account"},
		"a star is a name of nothing":           {lock: wide, named: "*/*", words: "not a service account"},
		"a default of the hub that lacks parts": {lock: listed, hub: accounts.Hub{Default: "team-a/"}, words: "defaultServiceAccount"},
	} {
		got, err := accounts.Choose(newLock(t, test.lock.isLocked, test.lock.patterns), test.hub, test.named, "team-a")
		if test.words == "" {
			if err != nil || got != test.want {
				t.Errorf("%s: got %q, %v, want %q", name, got, err, test.want)
			}
			continue
		}
		if err == nil || reason.ProblemOf(err).Reason != reason.TenantForbidden || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: got %q, %v, want TENANT_FORBIDDEN with %q", name, got, err, test.words)
		}
	}
}

// TestSecEmptyListsOpenNothing has an operator write lists that hold no account.
func TestSecEmptyListsOpenNothing(t *testing.T) {
	t.Parallel()
	for name, patterns := range map[string][]string{
		"empty": {}, "an empty pattern": {""}, "a slash": {"/"}, "no name": {"team-a/"}, "no namespace": {"/deployer"}, "no slash": {"**"},
		"three parts": {"a/b/c"}, "one of two": {"team-a/deployer", ""}, "a blank": {"team a/b"},
	} {
		if _, err := accounts.NewLock(true, patterns, home); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
	if _, err := accounts.NewLock(false, []string{"team-a/deployer"}, home); err == nil || !strings.Contains(err.Error(), "LEAT_AGENT_LOCK_DOWN") {
		t.Errorf("a list without the lock: got %v, want the setting that it needs", err)
	}
}

// TestAdmit has the lock judge accounts with which services were applied before.
func TestAdmit(t *testing.T) {
	t.Parallel()
	listed := newLock(t, true, []string{"team-a/*"})
	for _, test := range []struct {
		lock    accounts.Lock
		account k8s.Account
		allowed bool
	}{
		{accounts.Lock{}, k8s.Account{}, true},
		{accounts.Lock{}, k8s.Account{Namespace: home, Name: "a"}, true},
		{listed, k8s.Account{}, false},
		{listed, k8s.Account{Namespace: "team-a", Name: "a"}, true},
		{listed, k8s.Account{Namespace: "team-b", Name: "a"}, false},
	} {
		if err := test.lock.Admit(test.account); (err == nil) != test.allowed {
			t.Errorf("%v, %q: got %v, want allowed=%v", test.lock, test.account, err, test.allowed)
		}
	}
}
