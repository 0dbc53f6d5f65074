// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/leatdev/leat/cli/internal/command"
	"github.com/leatdev/leat/internal/testkit/await"
)

// importTool runs leat import with neither a hub nor a configuration.
func importTool(t *testing.T, args ...string) (out, words string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = command.Run(t.Context(), command.Params{
		Args: append([]string{"import"}, args...), In: strings.NewReader(""), Out: &stdout, Err: &stderr,
		LookupEnv: func(name string) (string, bool) { return filepath.Join(t.TempDir(), "none"), name == "LEAT_CONFIG" },
	})
	return stdout.String(), stderr.String(), code
}

// TestImportToolsExample runs the example of docs/guides/migrate-from-argocd-and-flux.md.
func TestImportToolsExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/guides/migrate-from-argocd-and-flux.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, block := range regexp.MustCompile("(?ms)^```[a-z]+ ([^\n]+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks[block[1]] = block[2]
	}
	file := filepath.Join(t.TempDir(), "apps.yaml")
	if err := os.WriteFile(file, []byte(blocks["apps.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	out, words, code := importTool(t, strings.Fields(strings.ReplaceAll(blocks["import"], "apps.yaml", file))[2:]...)
	words = strings.ReplaceAll(words, file, "apps.yaml")
	if code != 0 || words != blocks["report"] || out != blocks["documents"] {
		t.Errorf("got %d\n%s\n%s", code, words, out)
	}
}

// definition is a CustomResourceDefinition that takes anything, with a version that only the definition tells.
const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[2]s.%[1]s"},"spec":{"group":"%[1]s","scope":"Namespaced",
"names":{"plural":"%[2]s","singular":"%[3]s","kind":"%[4]s"},"versions":[{"name":"%[5]s","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// TestImportFromACluster imports what a real API server has, more than fits on a page, where some kinds do not exist.
func TestImportFromACluster(t *testing.T) {
	t.Parallel()
	c := startHelm(t)
	if status, answer := c.request(t, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		fmt.Sprintf(definition, "argoproj.io", "applications", "application", "Application", "v1alpha1")); status != http.StatusCreated {
		t.Fatalf("create the definition: %d %s", status, answer)
	}
	const applications = "/apis/argoproj.io/v1alpha1/namespaces/default/applications"
	create := func(name string) (int, string) {
		status, answer := c.request(t, http.MethodPost, applications, fmt.Sprintf(`{"apiVersion":"argoproj.io/v1alpha1","kind":"Application",
"metadata":{"name":%q},"spec":{"source":{"repoURL":"https://git.example.com/shop","path":"x","helm":{"valuesObject":{"replicas":3}}},"destination":{"name":"in-cluster"}}}`, name))
		return status, answer
	}
	await.True(t, "the kind", func() bool { status, _ := create("app-0"); return status == http.StatusCreated })
	const count = 501 // more than a page
	for i := 1; i < count; i++ {
		if status, answer := create(fmt.Sprintf("app-%d", i)); status != http.StatusCreated {
			t.Fatalf("create an Application: %d %s", status, answer)
		}
	}
	if status, answer := c.request(t, http.MethodPost, "/api/v1/namespaces/default/secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"edge",
"labels":{"argocd.argoproj.io/secret-type":"cluster"}},"stringData":{"name":"edge","server":"https://10.1.1.1","config":"correct-horse"}}`); status != http.StatusCreated {
		t.Fatalf("create a Secret: %d %s", status, answer)
	}
	out, words, code := importTool(t, "argocd", "--kubeconfig", c.cp.KubeconfigPath(), "--cluster", "tools")
	if want := fmt.Sprintf("%d objects: %d imported, 0 not imported\n", count+1, count+1); code != 0 || !strings.HasSuffix(words, want) {
		t.Errorf("got %d, %s, want %s", code, words[max(0, len(words)-500):], want)
	}
	if got := strings.Count(out, "\nkind: Service\n"); got != count || !strings.Contains(out, "replicas: 3\n") {
		t.Errorf("got %d services, want %d, and their values", got, count)
	}
	if strings.Contains(out+words, "correct-horse") {
		t.Error("got the content of a Secret, want it left in the cluster")
	}
	// Somebody who may not list Secrets imports the rest.
	for path, object := range map[string]string{
		"clusterroles":        `{"kind":"ClusterRole","metadata":{"name":"reader"},"rules":[{"apiGroups":["argoproj.io"],"resources":["*"],"verbs":["list"]}]}`,
		"clusterrolebindings": `{"kind":"ClusterRoleBinding","metadata":{"name":"reader"},"roleRef":{"kind":"ClusterRole","name":"reader"},"subjects":[{"kind":"User","name":"reader"}]}`,
	} {
		if status, answer := c.request(t, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/"+path, object); status != http.StatusCreated {
			t.Fatalf("create the rights: %d %s", status, answer)
		}
	}
	config, err := clientcmd.LoadFromFile(c.cp.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "reader"
	}
	reader := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, reader); err != nil {
		t.Fatal(err)
	}
	await.Success(t, "the rights of the reader", func(context.Context) error {
		_, words, code := importTool(t, "argocd", "--kubeconfig", reader, "--cluster", "tools")
		if want := fmt.Sprintf("%d objects: %d imported, 1 not imported\n", count+1, count); code != 0 || !strings.HasSuffix(words, want) ||
			!strings.Contains(words, "refused  you may not list secrets in all namespaces") {
			return fmt.Errorf("got %d, %s", code, words[max(0, len(words)-500):])
		}
		return nil
	})
	// A kubeconfig that does not exist is a mistake of the person.
	if _, words, code := importTool(t, "argocd", "--kubeconfig", filepath.Join(t.TempDir(), "none")); code == 0 || !strings.Contains(words, "cannot use the kubeconfig") {
		t.Errorf("got %d, %s", code, words)
	}
}
