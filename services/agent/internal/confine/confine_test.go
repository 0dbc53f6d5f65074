// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package confine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/services/agent/internal/confine"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

const home = "leat-system"

// open is a cluster that answers everything, and records what it is asked for.
type open struct {
	asked  []inventory.Key
	absent bool                            // no object exists
	kinds  func(kind string) (bool, error) // nil: kinds that begin with Cluster, and Namespace, have no namespace
	states []*unstructured.Unstructured    // of Follow
	list   []*unstructured.Unstructured
}

func (o *open) Namespaced(_ context.Context, kind schema.GroupVersionKind) (bool, error) {
	if o.kinds != nil {
		return o.kinds(kind.Kind)
	}
	return kind.Kind != "Namespace" && !strings.HasPrefix(kind.Kind, "Cluster"), nil
}

func (o *open) Get(_ context.Context, ref inventory.Ref) (*unstructured.Unstructured, error) {
	o.asked = append(o.asked, ref.Key)
	if o.absent {
		return nil, k8s.ErrNotFound
	}
	return object(ref.Namespace, ref.Name), nil
}

func (o *open) List(_ context.Context, kind schema.GroupVersionKind, namespace string, _ int) ([]*unstructured.Unstructured, error) {
	o.asked = append(o.asked, inventory.Key{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: "*"})
	return o.list, nil
}

func (o *open) Follow(_ context.Context, ref inventory.Ref, see k8s.FollowFunc) {
	o.asked = append(o.asked, ref.Key)
	for _, state := range o.states {
		see(state, nil)
	}
}

func object(namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func ref(kind, namespace, name string) inventory.Ref {
	return inventory.Ref{Key: inventory.Key{Kind: kind, Namespace: namespace, Name: name}, Version: "v1"}
}

var (
	limits = &syncpolicy.Limits{Namespaces: syncpolicy.AllowList{"team-*"}, ClusterScopedKinds: syncpolicy.AllowList{"Namespace", "ClusterIssuer"}}
	wide   = &syncpolicy.Limits{Namespaces: syncpolicy.AllowList{"**"}}
	agent  = k8s.Account{Namespace: home, Name: "deployer"}
	tenant = k8s.Account{Namespace: "team-a", Name: "deployer"}
)

// TestSecReadsStayWithinBounds reads objects by each way, existing and not.
func TestSecReadsStayWithinBounds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limits  *syncpolicy.Limits
		account k8s.Account
		ref     inventory.Ref
		want    reason.Reason // zero: it may be read
	}{
		"own namespace":                        {limits, k8s.Account{}, ref("Secret", "team-a", "db"), 0},
		"another namespace":                    {limits, k8s.Account{}, ref("Secret", "kube-system", "db"), reason.ProjectForbidden},
		"another namespace without limits":     {nil, k8s.Account{}, ref("Secret", "kube-system", "db"), 0},
		"another namespace as an account":      {limits, tenant, ref("Secret", "kube-system", "db"), reason.ProjectForbidden},
		"the agent's key":                      {limits, k8s.Account{}, ref("Secret", home, "leat-agent-identity"), reason.TenantForbidden},
		"the agent's key without limits":       {nil, k8s.Account{}, ref("Secret", home, "leat-agent-identity"), reason.TenantForbidden},
		"the agent's key by a pattern":         {wide, k8s.Account{}, ref("Secret", home, "leat-agent-identity"), reason.TenantForbidden},
		"a ConfigMap of the agent":             {nil, k8s.Account{}, ref("ConfigMap", home, "leat-inventory.web"), reason.TenantForbidden},
		"the keys of encrypted manifests":      {nil, k8s.Account{}, ref("Secret", home, confine.KeysSecret), reason.TenantForbidden},
		"the agent's key as a tenant":          {nil, tenant, ref("Secret", home, "leat-agent-identity"), reason.TenantForbidden},
		"an account of the agent's namespace":  {nil, agent, ref("Secret", home, "x"), 0},
		"an allowed kind without namespace":    {limits, k8s.Account{}, ref("ClusterIssuer", "", "le"), 0},
		"a kind without namespace":             {limits, k8s.Account{}, ref("ClusterRole", "", "admin"), reason.ProjectForbidden},
		"a kind without namespace, in one":     {limits, k8s.Account{}, ref("ClusterRole", "team-a", "admin"), reason.ProjectForbidden},
		"a kind without namespace, in home":    {nil, k8s.Account{}, ref("ClusterRole", home, "admin"), 0},
		"an allowed namespace":                 {limits, k8s.Account{}, ref("Namespace", "", "team-b"), 0},
		"a namespace that is not allowed":      {limits, k8s.Account{}, ref("Namespace", "", "kube-system"), reason.ProjectForbidden},
		"any kind without limits of the kinds": {wide, k8s.Account{}, ref("ClusterRole", "", "admin"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var texts []string
			for _, absent := range []bool{false, true} {
				cluster := &open{absent: absent, states: []*unstructured.Unstructured{object("x", "x")}}
				reader := confine.New(cluster, confine.Bounds{Service: "shop.web", Account: test.account, Limits: test.limits, Home: home})
				_, err := reader.Get(t.Context(), test.ref)
				check(t, test.want, err)
				if test.want != 0 {
					texts = append(texts, err.Error())
				}
				ctx, cancel := context.WithCancel(t.Context())
				reader.Follow(ctx, test.ref, func(live *unstructured.Unstructured, err error) {
					check(t, test.want, err)
					if test.want != 0 && live != nil {
						t.Errorf("got %v, want nothing with a refusal", live)
					}
					cancel()
				})
				if test.want != 0 && len(cluster.asked) > 0 {
					t.Errorf("the cluster was asked for %v", cluster.asked)
				}
			}
			if len(texts) == 2 && texts[0] != texts[1] {
				t.Errorf("got %q, want one text whether the object exists or not", texts)
			}
		})
	}
}

func check(t *testing.T, want reason.Reason, err error) {
	t.Helper()
	switch {
	case want == 0 && confine.IsRefusal(err):
		t.Errorf("got %v, want no refusal", err)
	case want != 0 && (!confine.IsRefusal(err) || reason.ProblemOf(err).Reason != want):
		t.Errorf("got %v, want a refusal with %v", err, want)
	}
}

func TestListsLeaveOutWhatIsNotAllowed(t *testing.T) {
	t.Parallel()
	cluster := &open{list: []*unstructured.Unstructured{object("", "kube-system"), object("", "team-a"), object("", "team-b")}}
	reader := confine.New(cluster, confine.Bounds{Service: "shop.web", Limits: limits, Home: home})
	found, err := reader.List(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "", 10)
	if err != nil || len(found) != 2 || found[0].GetName() != "team-a" {
		t.Errorf("got %v, %v, want the two namespaces of the project", found, err)
	}
	for _, namespace := range []string{"kube-system", home, ""} {
		_, err := reader.List(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, namespace, 10)
		if !confine.IsRefusal(err) {
			t.Errorf("got %v, want a refusal for namespace %q", err, namespace)
		}
	}
	cluster.list = []*unstructured.Unstructured{object(home, "key"), object("other", "db")}
	unlimited := confine.New(cluster, confine.Bounds{Service: "web", Home: home})
	found, err = unlimited.List(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "", 10)
	if err != nil || len(found) != 1 || found[0].GetNamespace() != "other" {
		t.Errorf("got %v, %v, want all namespaces but the agent's", found, err)
	}
}

// TestKindsThatAppear: the scope of a kind counts as soon as the cluster serves it.
func TestKindsThatAppear(t *testing.T) {
	t.Parallel()
	isServed := false
	cluster := &open{kinds: func(string) (bool, error) {
		if !isServed {
			return false, reason.Errorf(reason.ApplyRejected, "no such kind")
		}
		return false, nil
	}}
	reader := confine.New(cluster, confine.Bounds{Service: "shop.web", Limits: limits, Home: home})
	if _, err := reader.Get(t.Context(), ref("ClusterGate", "", "a")); !errors.Is(err, k8s.ErrNotFound) || len(cluster.asked) > 0 {
		t.Errorf("got %v after %v, want ErrNotFound without a request", err, cluster.asked)
	}
	cluster.states = []*unstructured.Unstructured{nil, object("", "a")}
	var seen []error
	reader.Follow(t.Context(), ref("ClusterGate", "", "a"), func(live *unstructured.Unstructured, err error) {
		if live != nil {
			t.Errorf("got %v, want no object", live)
		}
		isServed, seen = true, append(seen, err)
	})
	if len(seen) != 2 || seen[0] != nil || !confine.IsRefusal(seen[1]) {
		t.Errorf("got %v, want nothing, and then a refusal", seen)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for want, account := range map[string]k8s.Account{home: {}, "team-a": tenant} {
		cluster := &open{}
		keys, name := confine.New(cluster, confine.Bounds{Service: "shop.web", Account: account, Limits: limits, Home: home}).Keys()
		if name.Namespace != want || name.Name != confine.KeysSecret {
			t.Errorf("got %v, want the Secret in %s", name, want)
		}
		if _, err := keys.Get(t.Context(), name); err != nil {
			t.Errorf("got %v, want the keys", err)
		}
		for _, other := range []inventory.Ref{ref("Secret", want, "other"), ref("Secret", "team-b", confine.KeysSecret), ref("ConfigMap", want, confine.KeysSecret)} {
			if _, err := keys.Get(t.Context(), other); !confine.IsRefusal(err) {
				t.Errorf("got %v, want a refusal of %v", err, other)
			}
		}
	}
}

func TestBoundsAreCompared(t *testing.T) {
	t.Parallel()
	base := confine.Bounds{Service: "shop.web", Limits: limits, Home: home}
	for name, other := range map[string]confine.Bounds{
		"account":         {Service: "shop.web", Limits: limits, Home: home, Account: tenant},
		"no limits":       {Service: "shop.web", Home: home},
		"fewer":           {Service: "shop.web", Limits: &syncpolicy.Limits{Namespaces: syncpolicy.AllowList{}, ClusterScopedKinds: limits.ClusterScopedKinds}, Home: home},
		"no list":         {Service: "shop.web", Limits: &syncpolicy.Limits{Namespaces: limits.Namespaces}, Home: home},
		"another service": {Service: "web", Limits: limits, Home: home},
	} {
		if base.Equal(other) || other.Equal(base) || !other.Equal(other) {
			t.Errorf("%s: got equal bounds, or bounds that differ from themselves", name)
		}
	}
}
