// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/gittest"
	"github.com/leatdev/leat/internal/testkit/program"
	"github.com/leatdev/leat/internal/testkit/redistest"
)

// TestSlowArgoCDReachesClustersByTheirProfiles has the controllers of Argo CD in one cluster deliver to another one, which they know by its
// ClusterProfile alone, through the hub's tunnel behind a proxy with TLS.
func TestSlowArgoCDReachesClustersByTheirProfiles(t *testing.T) {
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: Argo CD behind the tunnel is left to `make test-all`")
	}
	// client-go gives no credentials to servers without TLS.
	front := httptest.NewUnstartedServer(nil)
	address := "https://" + front.Listener.Addr().String()
	h := startContent(t, map[string]string{"LEAT_TUNNEL_URL": address})
	front.Config.Handler = httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: h.tunnel.addr})
	front.StartTLS()
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)
	h.ca = filepath.Join(h.dir, "ca.crt")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	if err := os.WriteFile(h.ca, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	h.upstream, h.cluster = gittest.New(t), kubetest.Start(t)
	h.tunnel.start(t)
	h.waitReady(t, h.gitcache, h.distributor, h.tunnel)
	h.enrol(t)
	h.grantAdmins(t)

	o := inventoryOf(t, h)
	argo := &argoCD{o: o, built: program.Build(t, "argocd"), home: t.TempDir(), cache: redistest.Start(t).Addr()}
	argo.install(t)
	o.define(t, "-f", "../../cli/internal/command/testdata/clusterprofiles.yaml")
	access := o.profile(t, "demo")
	if access.Server != address+"/clusters/demo" || string(access.CertificateAuthorityData) != string(authority) {
		t.Fatalf("the profile leads to %s", access.Server)
	}
	o.introduce(t, "demo", access)

	repo := h.upstream.Repo(t, "deploy")
	commit := repo.Commit(t, "main", map[string]string{"apps/site/all.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: registry.example.com/web:1}]}
`})
	argo.start(t)
	o.feed(t, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: site, namespace: argocd}
spec:
  project: default
  source: {repoURL: %q, targetRevision: main, path: apps/site}
  destination: {name: demo, namespace: site}
  syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [CreateNamespace=true]}
`, repo.URL()), o.kubectl, "apply", "-f", "-")
	argo.reconcile(t, "site", commit)
	there := []string{"--kubeconfig", h.cluster.KubeconfigPath(), "--namespace", "site", "get", "deployment/web", "configmap/settings"}
	if out, _ := o.run(t, o.kubectl, append(there, "-o", "name")...); out != "deployment.apps/web\nconfigmap/settings\n" {
		t.Errorf("the cluster behind the tunnel has %q", out)
	}
	if found, err := o.try(t.Context(), "site", "deployment/web"); err == nil {
		t.Errorf("the cluster of Argo CD has %s, too", found.GetName())
	}

	// What somebody deletes there comes back: Argo CD watches through the tunnel.
	before, _ := o.run(t, o.kubectl, append(there, "-o", "jsonpath={.items[1].metadata.uid}")...)
	o.run(t, o.kubectl, "--kubeconfig", h.cluster.KubeconfigPath(), "--namespace", "site", "delete", "configmap/settings")
	await.Poll(t, "the deleted object", pause, func() (bool, string) {
		look := exec.CommandContext(t.Context(), o.kubectl, append(there, "-o", "jsonpath={.items[1].metadata.uid}")...)
		out, err := look.Output()
		return err == nil && string(out) != "" && string(out) != before, fmt.Sprint(string(out), err)
	})
	argo.stop()
}

// inventoryOf returns what Argo CD is installed in: a cluster that the hub does not know, with the means to publish the hub's clusters there.
func inventoryOf(t *testing.T, h *hub) *takeover {
	t.Helper()
	o := &takeover{whole: t, tool: "argocd", hub: &hub{cluster: kubetest.Start(t)}, folder: t.TempDir()}
	o.kubectl = kubetest.Binaries(t.Context(), t).Kubectl
	var err error
	if o.leat, err = program.Compile(t.Context(), t.TempDir(), "../../cli/cmd/leat"); err != nil {
		t.Fatal(err)
	}
	o.env = append(os.Environ(), "HOME="+o.folder, "KUBECONFIG="+o.cluster.KubeconfigPath(), "LEAT_SERVER="+h.distributor.url(),
		"LEAT_TOKEN="+adminToken, "LEAT_CA_FILE="+h.ca, "LEAT_CONFIG="+filepath.Join(o.folder, "config.yaml"))
	return o
}

// profile publishes the clusters, and returns how the profile of one is reached.
func (o *takeover) profile(t *testing.T, name string) clientcmdv1.Cluster {
	t.Helper()
	o.run(t, o.leat, "cluster", "publish", "--namespace", "argocd")
	out, _ := o.run(t, o.kubectl, "--namespace", "argocd", "get", "clusterprofile", name, "-o", "json")
	var profile struct {
		Status struct {
			AccessProviders []struct {
				Name    string              `json:"name"`
				Cluster clientcmdv1.Cluster `json:"cluster"`
			} `json:"accessProviders"`
		} `json:"status"`
	}
	if err := json.Unmarshal([]byte(out), &profile); err != nil {
		t.Fatal(err)
	}
	if providers := profile.Status.AccessProviders; len(providers) != 1 || providers[0].Name != "leat" {
		t.Fatalf("got the access providers %+v, want one", providers)
	}
	return profile.Status.AccessProviders[0].Cluster
}

// introduce does what Argo CD's controller of ClusterProfiles does, which is not part of Argo CD: it makes the Secret by which Argo CD knows
// a cluster, with the credential plugin that its operator has set for the access provider "leat".
func (o *takeover) introduce(t *testing.T, name string, access clientcmdv1.Cluster) {
	t.Helper()
	config, err := json.Marshal(map[string]any{
		"execProviderConfig": map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1", "command": o.leat, "args": []string{"token", "--exec-credential"},
		},
		"tlsClientConfig": map[string]any{"caData": access.CertificateAuthorityData},
	})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": "cluster-" + name, "namespace": "argocd", "labels": map[string]string{"argocd.argoproj.io/secret-type": "cluster"}},
		"stringData": map[string]string{"name": name, "server": access.Server, "config": string(config)},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.feed(t, string(secret), o.kubectl, "apply", "-f", "-")
}
