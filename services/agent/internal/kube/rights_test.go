// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/accounts"
	"github.com/leatdev/leat/services/agent/internal/health"
	"github.com/leatdev/leat/services/agent/internal/kube"
	"github.com/leatdev/leat/services/agent/internal/overview"
	"github.com/leatdev/leat/services/agent/internal/plan"
	"github.com/leatdev/leat/services/agent/internal/report"
)

// manifests is where people find the agent's rights.
const manifests = "../../../../deploy/kubernetes"

// TestSecRightsOfTenants uses only the rights in the manifests for a cluster in which every service
// has an account.
func TestSecRightsOfTenants(t *testing.T) {
	t.Parallel()
	cp := kubetest.Start(t) // with controllers, which put together the role "admin"
	kubectl := func(args ...string) string {
		t.Helper()
		program := kubetest.Binaries(t.Context(), t).Kubectl
		command := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig", cp.KubeconfigPath()}, args...)...)
		command.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	kubectl("apply", "--server-side", "-f", filepath.Join(manifests, "agent.yaml"))
	kubectl("delete", "clusterrolebinding", "leat-agent")
	kubectl("apply", "--server-side", "-f", filepath.Join(manifests, "agent-tenants.yaml"))
	agent := asToken(t, cp.KubeconfigPath(), kubectl("--namespace", "leat-system", "create", "token", "leat-agent"))
	c := clusterAt(t, agent)
	c.cp = cp
	c.configureAgent(t, syncpolicy.AgentSettings{LockDown: true})
	c.lockDown(t, "team-a/deployer")

	t.Run("a service comes, changes and goes", func(t *testing.T) {
		spec := plan.Spec{Namespace: "team-a", Prune: new(true), Policy: syncpolicy.Policy{ServiceAccount: "deployer"}}
		s := c.put(t, "web", map[string]string{"a.yaml": configMap("web-a", "1"), "b.yaml": configMap("web-b", "1")}, spec)
		c.settled(t, s, report.Healthy)
		s = c.put(t, "web", map[string]string{"a.yaml": configMap("web-a", "2")}, spec)
		c.settled(t, s, report.Healthy)
		c.mustNotExist(t, "/api/v1/namespaces/team-a/configmaps/web-b")
		c.drop("web")
		c.gone(t, "web")
		c.mustNotExist(t, "/api/v1/namespaces/team-a/configmaps/web-a")
	})
	t.Run("the agent reads no Secret, and the service's account watches its own", func(t *testing.T) {
		for _, path := range []string{"secrets", "configmaps"} {
			for _, place := range []string{"", "namespaces/team-a/", "namespaces/kube-system/"} {
				if got := statusAs(t, agent, "/api/v1/"+place+path+"?limit=1"); got != http.StatusForbidden {
					t.Errorf("the agent's token lists %s%s: got %d, want 403", place, path, got)
				}
			}
		}
		spec := plan.Spec{Namespace: "team-a", Policy: syncpolicy.Policy{ServiceAccount: "deployer", Drift: syncpolicy.DriftCorrect}}
		s := c.put(t, "private", map[string]string{"a.yaml": configMap("private-a", "1"), "b.yaml": tenantSecret}, spec)
		c.settled(t, s, report.Healthy)
		for _, path := range []string{"configmaps/private-a", "secrets/private-b"} {
			path = "/api/v1/namespaces/team-a/" + path
			before := at(c.get(t, path), "metadata", "uid")
			c.must(t, http.MethodDelete, path, "", "")
			c.until(t, path, func(live map[string]any) bool { // a watch has shown that it was gone
				uid := at(live, "metadata", "uid")
				return uid != nil && uid != before
			})
		}
		c.settled(t, s, report.Healthy)
	})
	t.Run("a hostile hub takes its lock off", func(t *testing.T) {
		c.keep(t, "payments", "card-keys", map[string]string{"key": "canary-payments"})
		card := &syncpolicy.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "payments", Name: "card-keys"}
		files := map[string]string{"a.yaml": inNamespace(configMap("spied", "1"), "team-a")}
		for name, test := range map[string]struct {
			settings      syncpolicy.AgentSettings
			account, word string
		}{
			"bare":    {word: "LEAT_AGENT_LOCK_DOWN"},
			"default": {settings: syncpolicy.AgentSettings{DefaultServiceAccount: "payments/default"}, word: "LEAT_AGENT_ALLOWED_ACCOUNTS"},
			"other":   {account: "payments/default", word: "LEAT_AGENT_ALLOWED_ACCOUNTS"},
			"itself":  {account: "leat-system/leat-agent", word: "the agent's own namespace"},
			"slash":   {account: "/", word: "not a service account"},
			"tenant":  {account: "deployer", word: "service account team-a/deployer is not allowed to"},
		} {
			c.configureAgent(t, test.settings)
			spec := plan.Spec{Namespace: "team-a", Policy: syncpolicy.Policy{ServiceAccount: test.account}}
			spec.Policy.DependsOn = []syncpolicy.Dependency{{Object: card, Condition: "'x'.matches(self.data.key + '(')"}}
			c.put(t, "spy-"+name, files, spec)
			c.awaitProblem(t, "spy-"+name, report.Pending, reason.DependencyNotReady, test.word)
		}
		c.mustNotExist(t, "/api/v1/namespaces/team-a/configmaps/spied")
		c.configureAgent(t, syncpolicy.AgentSettings{LockDown: true})
	})
	t.Run("an agent without a lock of its own says what it lacks", func(t *testing.T) {
		lock := c.lock
		c.lock = accounts.Lock{}
		c.restart(t)
		c.await(t, "private", func(got report.Status) bool {
			unseen := 0
			for _, o := range got.Objects {
				if o.Health.State == health.Unknown && strings.Contains(o.Health.Message, "set LEAT_AGENT_LOCK_DOWN") {
					unseen++
				}
			}
			return unseen == 2 // and none of them is missing
		})
		c.lock = lock
		c.restart(t)
		c.await(t, "private", func(got report.Status) bool { return got.Phase == report.Healthy })
	})
	t.Run("a rollout hangs", func(t *testing.T) {
		c.put(t, "stuck", map[string]string{"a.yaml": fmt.Sprintf(deployment, "stuck", "      nodeSelector: {no: where}\n")}, plan.Spec{
			Namespace: "team-a", HealthTimeout: 4 * time.Second, Policy: syncpolicy.Policy{ServiceAccount: "deployer"},
		})
		c.await(t, "stuck", func(s report.Status) bool {
			return s.Phase == report.Degraded && strings.Contains(s.Problem.Message, "cannot be scheduled: 0/1 nodes are available")
		})
	})
	t.Run("another account is out of reach", func(t *testing.T) {
		s := c.put(t, "climber", map[string]string{"a.yaml": configMap("climber", "1")}, plan.Spec{
			Namespace: "kube-system", Policy: syncpolicy.Policy{ServiceAccount: "kube-system/clusterrole-aggregation-controller"},
		})
		if got := c.settled(t, s, report.Failed); got.Problem.Reason != reason.TenantForbidden {
			t.Errorf("got %+v, want TENANT_FORBIDDEN", got.Problem)
		}
	})
	t.Run("people come as the hub says", func(t *testing.T) { impersonates(t, agent) })
	t.Run("the agent keeps what templates generate", func(t *testing.T) {
		generated := c.client.Generated()
		for i := range 40 { // so that every Secret is written
			service, want := fmt.Sprint("service-", i), render.Generated{"place": fmt.Sprint(i)}
			if err := generated.Save(t.Context(), service, want); err != nil {
				t.Fatal(err)
			}
			if got, err := generated.Load(t.Context(), service); err != nil || !maps.Equal(got, want) {
				t.Errorf("%s: got %v, %v, want %v", service, got, err, want)
			}
		}
		if err := generated.Save(t.Context(), "service-0", nil); err != nil {
			t.Error(err)
		}
		if got, err := generated.Load(t.Context(), "service-0"); err != nil || got != nil {
			t.Errorf("after it was deleted: got %v, %v", got, err)
		}
		if got, err := generated.Load(t.Context(), "service-1"); err != nil || got["place"] != "1" {
			t.Errorf("another service: got %v, %v", got, err)
		}
	})
	t.Run("the agent looks after itself", func(t *testing.T) {
		keep := c.client.Keep()
		if err := keep.Store(t.Context(), map[string][]byte{"key": []byte("1")}); err != nil {
			t.Error(err)
		}
		if files, err := keep.Load(t.Context()); err != nil || string(files["key"]) != "1" {
			t.Errorf("got %q, %v, want what was stored", files, err)
		}
		led := false
		lead := func(context.Context, int) error { led = true; return nil }
		if err := c.client.Leadership().Lead(t.Context(), kube.Election{Replica: "a"}, lead); err != nil || !led {
			t.Errorf("got %v, %v, want to lead", led, err)
		}
		if leader, err := c.client.Leadership().Leader(t.Context()); err != nil || leader.Sign == "" {
			t.Errorf("got %+v, %v, want the leader", leader, err)
		}
		if err := c.client.Leadership().Warn(t.Context(), "uid-1", "TakeoverWaits", "it would change web"); err != nil {
			t.Error(err)
		}
		if _, err := c.client.Version(t.Context()); err != nil {
			t.Error(err)
		}
		v := &viewer{summary: overview.NewSummary()}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.client.Overview(ctx, kube.OverviewParams{Summary: v.summary}) }()
		v.await(t, "nodes, pods and warnings", func(o overview.Overview) bool { return o.Nodes != nil && o.Pods != nil && o.Warnings != nil })
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

const tenantSecret = "apiVersion: v1\nkind: Secret\nmetadata: {name: private-b}\nstringData: {key: value}\n"

// statusAs returns the status of an answer to the holder of a kubeconfig.
func statusAs(t *testing.T, kubeconfig, path string) int {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// impersonates makes requests as people with all attributes that the tunnel sends, and under
// identities that the tunnel never sends: an attacker with the agent's token does not need the
// agent.
func impersonates(t *testing.T, kubeconfig string) {
	const (
		pods    = "/api/v1/namespaces/default/pods"
		secrets = "/secrets?limit=1"
		tokens  = "/api/v1/namespaces/kube-system/serviceaccounts/generic-garbage-collector/token"
	)
	groups := func(names ...string) func(*rest.ImpersonationConfig) {
		return func(c *rest.ImpersonationConfig) { c.Groups = names }
	}
	user := func(name string) func(*rest.ImpersonationConfig) {
		return func(c *rest.ImpersonationConfig) { *c = rest.ImpersonationConfig{UserName: name} }
	}
	const tokenRequest = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`
	for name, test := range map[string]struct {
		change func(*rest.ImpersonationConfig)
		path   string
		body   string // of a POST; empty: a GET
		want   int
	}{
		"a viewer":                       {change: groups("leat:viewers"), path: pods, want: http.StatusOK},
		"a viewer's discovery":           {change: groups("leat:viewers"), path: "/apis/apps/v1", want: http.StatusOK},
		"a viewer's secret":              {change: groups("leat:viewers"), path: "/api/v1/namespaces/team-a" + secrets, want: http.StatusForbidden},
		"an operator in the tenant's":    {change: groups("leat:operators"), path: "/api/v1/namespaces/team-a" + secrets, want: http.StatusOK},
		"an operator elsewhere":          {change: groups("leat:operators"), path: "/api/v1/namespaces/default" + secrets, want: http.StatusForbidden},
		"an admin":                       {change: groups("leat:admins"), path: "/api/v1/nodes", want: http.StatusOK},
		"an admin's secrets":             {change: groups("leat:admins"), path: "/api/v1" + secrets, want: http.StatusForbidden},
		"an admin's token of another":    {change: groups("leat:admins"), path: tokens, body: tokenRequest, want: http.StatusForbidden},
		"no group":                       {change: groups(), path: pods, want: http.StatusForbidden},
		"masters":                        {change: groups("system:masters"), path: "/version", want: http.StatusForbidden},
		"another group":                  {change: groups("leat:group:a"), path: "/version", want: http.StatusForbidden},
		"another attribute":              {change: func(c *rest.ImpersonationConfig) { c.Extra = map[string][]string{"scopes": {"all"}} }, path: "/version", want: http.StatusForbidden},
		"the controller manager":         {change: user("system:kube-controller-manager"), path: "/api/v1" + secrets, want: http.StatusForbidden},
		"the controller manager's token": {change: user("system:kube-controller-manager"), path: tokens, body: tokenRequest, want: http.StatusForbidden},
		"a service account":              {change: user("system:serviceaccount:kube-system:clusterrole-aggregation-controller"), path: "/version", want: http.StatusForbidden},
		"a node":                         {change: user("system:node:node-0"), path: "/version", want: http.StatusForbidden},
	} {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate = rest.ImpersonationConfig{UserName: "ada", UID: "uid-of-ada", Groups: []string{"leat:viewers"}, Extra: map[string][]string{
			"leat.dev/bindings": {"look", "shop"}, "leat.dev/cluster": {"demo"}, "leat.dev/groups": {"dev"},
		}}
		test.change(&config.Impersonate)
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		method := http.MethodGet
		if test.body != "" {
			method = http.MethodPost
		}
		req, err := http.NewRequestWithContext(t.Context(), method, config.Host+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != test.want {
			t.Errorf("%s: got %d %.300s, want %d", name, res.StatusCode, body, test.want)
		}
	}
}

// asToken copies a kubeconfig, with a token instead of its credentials.
func asToken(t *testing.T, kubeconfig, token string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
