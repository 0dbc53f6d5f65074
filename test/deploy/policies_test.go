// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"maps"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// peer is the source of a connection: a pod with labels in a namespace, or a client outside the
// cluster.
type peer struct {
	namespace labels.Set
	pod       labels.Set
}

// allows reports whether the network policies allow the peer to reach a port of the pod.
func allows(t *testing.T, policies []networkingv1.NetworkPolicy, from peer, to pod, port int32) bool {
	t.Helper()
	selects := func(s *metav1.LabelSelector, set labels.Set) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector.Matches(set)
	}
	own := from.namespace["kubernetes.io/metadata.name"] == to.namespace
	isolated := false
	for _, p := range policies {
		if p.Namespace != to.namespace || !selects(&p.Spec.PodSelector, to.labels) || !slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			continue
		}
		isolated = true
		for _, rule := range p.Spec.Ingress {
			if len(rule.Ports) > 0 && !slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port == nil || p.Port.IntVal == port }) {
				continue
			}
			if len(rule.From) == 0 || slices.ContainsFunc(rule.From, func(f networkingv1.NetworkPolicyPeer) bool {
				switch {
				case f.IPBlock != nil:
					return true // this test does not check addresses
				case f.NamespaceSelector == nil:
					return own && selects(f.PodSelector, from.pod)
				}
				return selects(f.NamespaceSelector, from.namespace) && (f.PodSelector == nil || selects(f.PodSelector, from.pod))
			}) {
				return true
			}
		}
	}
	return !isolated
}

// TestSecNetworkPolicies checks for every kind of peer and every port whether the policies allow
// the connection.
func TestSecNetworkPolicies(t *testing.T) {
	t.Parallel()
	m := readManifests(t, "hub.yaml", "agent.yaml")
	hub := labels.Set{"kubernetes.io/metadata.name": "leat"}
	peers := map[string]peer{
		"a stranger":   {labels.Set{"kubernetes.io/metadata.name": "default"}, labels.Set{"app.kubernetes.io/name": "tunnel"}}, // calls itself a tunnel
		"a neighbour":  {hub, labels.Set{"app": "x"}},
		"ingress":      {labels.Set{"kubernetes.io/metadata.name": "ingress", "leat.dev/ingress": "true"}, nil},
		"monitoring":   {labels.Set{"kubernetes.io/metadata.name": "monitoring", "leat.dev/monitoring": "true"}, nil},
		"redis":        {hub, m.pods["redis"].labels},
		"gitcache":     {hub, m.pods["gitcache"].labels},
		"distributor":  {hub, m.pods["distributor"].labels},
		"tunnel":       {hub, m.pods["tunnel"].labels},
		"another pod":  {labels.Set{"kubernetes.io/metadata.name": "leat-system"}, labels.Set{"app": "x"}},
		"the internet": {labels.Set{}, labels.Set{}},
	}
	everybody := slices.Sorted(maps.Keys(peers))
	for _, want := range []struct {
		pod  string
		port int32
		from []string
	}{
		{"redis", 6379, []string{"gitcache", "tunnel"}},
		{"gitcache", 8702, []string{"distributor", "gitcache", "ingress"}},
		{"gitcache", internalPort, []string{"monitoring"}},
		{"distributor", 8700, []string{"ingress", "tunnel"}},
		{"distributor", internalPort, []string{"monitoring"}},
		{"tunnel", 8701, everybody},
		{"tunnel", peerPort, []string{"tunnel"}},
		{"tunnel", internalPort, []string{"monitoring"}},
		{"leat-agent", 8703, []string{"monitoring"}},
		{"leat-agent", 8443, nil},
		{"redis", 22, nil},
		{"gitcache", 22, nil},
		{"distributor", 22, nil},
		{"tunnel", 22, nil},
	} {
		var got []string
		for _, name := range everybody {
			if allows(t, m.policies, peers[name], m.pods[want.pod], want.port) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want.from) {
			t.Errorf("%s:%d is reached by %v, want %v", want.pod, want.port, got, want.from)
		}
	}
	for name, p := range m.pods {
		if name == "leat-agent" {
			continue // it calls its API server and its hub, wherever they are
		}
		if !slices.ContainsFunc(m.policies, func(policy networkingv1.NetworkPolicy) bool {
			selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
			return err == nil && policy.Namespace == p.namespace && selector.Matches(labels.Set(p.labels)) && slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}) {
			t.Errorf("%s may connect to anything", name)
		}
	}
}
