// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitcache_test

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/testkit/cloudtest"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/internal/testkit/registrytest"
	"github.com/leatdev/leat/services/gitcache"
)

// TestWorkloadIdentityFromTheEnvironment runs a replica with the variables that AWS sets in a pod, and
// mirrors from a registry over TLS that takes the login. A definition that brings the identity to another
// host is refused where it is put.
func TestWorkloadIdentityFromTheEnvironment(t *testing.T) {
	t.Parallel()
	registry, redis, clouds := registrytest.Start(t, registrytest.Config{Username: "AWS", Password: cloudtest.ECRPassword}), redistest.Start(t), cloudtest.Start(t)
	pushChart(t, registry, "1.0.0", "1.0.0")
	front := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: registry.Addr}))
	t.Cleanup(front.Close)
	host := front.Listener.Addr().String()
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}))
	path := filepath.Join(t.TempDir(), "credentials.yaml")
	text := fmt.Sprintf("- urlPrefix: oci://%s/team\n  credential: {workloadIdentity: {provider: aws}}\n  caPem: |\n    %s\n",
		host, strings.ReplaceAll(strings.TrimSpace(authority), "\n", "\n    "))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{
		"AWS_ROLE_ARN": cloudtest.Role, "AWS_WEB_IDENTITY_TOKEN_FILE": cloudtest.TokenFile(t), "AWS_REGION": cloudtest.Region,
		"AWS_ENDPOINT_URL_STS": clouds.URL + "/aws/sts", "AWS_ENDPOINT_URL_ECR": clouds.URL + "/aws/ecr",
		"LEAT_GITCACHE_IDENTITY_REGISTRIES": host,
	}
	r := start(t, redis.URL(), t.TempDir(), func(c *gitcache.Config) {
		set := config.New("gitcache", func(name string) (string, bool) { value, ok := environment[name]; return value, ok })
		c.Identity.Bind(set)
		if err := set.Parse(nil); err != nil {
			t.Fatal(err)
		}
		c.CredentialsFile = path
	})
	def := definition("web", "oci://"+host+"/team/web")
	def.Type = gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI
	r.put(t, def)
	r.state(t, "web", ready)
	if got := r.resolve(t, atTag("1.0.0")); got.GetFileCount() != 4 {
		t.Errorf("got %v", got)
	}
	if asked := clouds.Take(); !slices.Equal(asked, []string{"POST /aws/sts/", "POST /aws/ecr/"}) {
		t.Errorf("got the requests %v, want one exchange", asked)
	}

	other := definition("other", "oci://registry.example.com/team/web")
	other.Type = gitcachev1.RepositoryType_REPOSITORY_TYPE_OCI
	other.Credential = &gitcachev1.Credential{Method: &gitcachev1.Credential_WorkloadIdentity{
		WorkloadIdentity: &gitcachev1.WorkloadIdentityCredential{Provider: gitcachev1.CloudProvider_CLOUD_PROVIDER_AWS},
	}}
	_, err := r.PutRepository(t.Context(), &gitcachev1.PutRepositoryRequest{Repository: other})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "gitcache-identity-registries") {
		t.Errorf("got %v, want the URL refused", err)
	}
}
