// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package accessrule_test

import (
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/accessrule"
)

// request parses "verb group/resource/subresource@namespace", with "core" for the group without a
// name, or "verb /path".
func request(text string) accessrule.Request {
	verb, rest, _ := strings.Cut(text, " ")
	if strings.HasPrefix(rest, "/") {
		return accessrule.Request{Verb: verb, Path: rest}
	}
	rest, namespace, _ := strings.Cut(rest, "@")
	parts := strings.Split(rest, "/")
	q := accessrule.Request{Verb: verb, Namespace: namespace, Resource: parts[1]}
	if parts[0] != "core" {
		q.APIGroup = parts[0]
	}
	if len(parts) > 2 {
		q.Subresource = parts[2]
	}
	return q
}

func TestRulesChoose(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rule     accessrule.Rule
		yes, not []string
	}{
		"everything": {
			rule: accessrule.Rule{}, yes: []string{"get core/pods@a", "create apps/deployments", "delete core/pods/eviction@a"}, not: []string{"get /metrics"},
		},
		"verbs": {
			rule: accessrule.Rule{Verbs: []string{"get", "list"}}, yes: []string{"get core/pods@a", "list core/nodes"},
			not: []string{"watch core/pods", "delete core/pods", "get /metrics", " core/pods"},
		},
		"core group": {
			rule: accessrule.Rule{APIGroups: []string{"core"}}, yes: []string{"get core/pods"}, not: []string{"get apps/deployments"},
		},
		"empty group": {
			rule: accessrule.Rule{APIGroups: []string{""}}, yes: []string{"get core/pods"}, not: []string{"get apps/deployments"},
		},
		"any group": {rule: accessrule.Rule{APIGroups: []string{"*"}}, yes: []string{"get core/pods", "get apps/deployments"}},
		"resource": {
			rule: accessrule.Rule{Resources: []string{"pods", "pods/log"}}, yes: []string{"get core/pods@a", "get core/pods/log@a"},
			not: []string{"create core/pods/exec@a", "get core/podtemplates", "get core/pod", "get /pods"},
		},
		"subresources":    {rule: accessrule.Rule{Resources: []string{"pods/*"}}, yes: []string{"create core/pods/exec@a"}, not: []string{"get core/pods@a", "get core/nodes/proxy"}},
		"any subresource": {rule: accessrule.Rule{Resources: []string{"*/scale"}}, yes: []string{"get apps/deployments/scale@a"}, not: []string{"get apps/deployments@a", "get core/pods/log@a"}},
		"any resource":    {rule: accessrule.Rule{Resources: []string{"*"}}, yes: []string{"get apps/deployments/scale@a", "get core/pods"}, not: []string{"get /metrics"}},
		"namespaces": {
			rule: accessrule.Rule{Namespaces: []string{"a", "b"}}, yes: []string{"get core/pods@a", "list core/pods@b"},
			not: []string{"list core/pods", "get core/pods@c", "get core/nodes", "get core/pods@aa"},
		},
		"paths": {
			rule: accessrule.Rule{Paths: []string{"/metrics", "/logs/*"}}, yes: []string{"get /metrics", "get /logs/", "put /logs/x/y"},
			not: []string{"get /metrics/", "get /logs", "get /metricsx", "get core/pods"},
		},
		"paths and resources": {rule: accessrule.Rule{Paths: []string{"*"}, Resources: []string{"pods"}}, yes: []string{"get /x", "get core/pods"}, not: []string{"get core/nodes"}},
	} {
		for _, text := range test.yes {
			if !test.rule.Chooses(request(text)) {
				t.Errorf("%s: %q is not chosen", name, text)
			}
		}
		for _, text := range test.not {
			if test.rule.Chooses(request(text)) {
				t.Errorf("%s: %q is chosen", name, text)
			}
		}
	}
	if accessrule.Choose(nil, request("get core/pods")) {
		t.Error("no rules choose a request")
	}
}

func TestWhatIsOpen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"get /api": true, "get /api/v1": true, "get /apis/apps/v1": true, "get /openapi/v3/apis/apps/v1": true, "head /version": true, "get /readyz": true,
		"create authorization.k8s.io/selfsubjectaccessreviews": true, "create authentication.k8s.io/selfsubjectreviews": true,
		"post /api": false, "get /metrics": false, "get /apixyz": false, "get /logs/api": false, "get /": false, "get core/pods": false,
		"create authorization.k8s.io/subjectaccessreviews": false, "create core/selfsubjectreviews": false, "get /readyz/etcd": false,
	} {
		if got := request(text).Open(); got != want {
			t.Errorf("%s: got open %v, want %v", text, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	good := accessrule.Rule{
		Verbs: []string{"get", "*"}, APIGroups: []string{"", "core", "apps", "cert-manager.io", "*"}, Resources: []string{"pods", "pods/log", "*/scale", "*"},
		Namespaces: []string{"kube-system"}, Paths: []string{"/metrics", "/logs/*", "*"},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	many := make([]string, 200)
	for i := range many {
		many[i] = "a"
	}
	for field, bad := range map[string]accessrule.Rule{
		"verbs[0]":              {Verbs: []string{"GET"}},
		"verbs[1]":              {Verbs: []string{"get", ""}},
		"api_groups[0]":         {APIGroups: []string{"Apps"}},
		"resources[0]":          {Resources: []string{"pods/log/x"}},
		"resources[1]":          {Resources: []string{"pods", "po ds"}},
		"namespaces[0]":         {Namespaces: []string{"*"}},
		"non_resource_paths[0]": {Paths: []string{"metrics"}},
		"non_resource_paths[1]": {Paths: []string{"/a", "/*/b"}},
		"resources":             {Paths: []string{"/a"}, Namespaces: []string{"b"}},
		"namespaces":            {Namespaces: many},
	} {
		err := bad.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%+v: got %v, want an error about %s", bad, err, field)
		}
	}
}
