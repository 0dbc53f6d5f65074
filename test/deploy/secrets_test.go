// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// read returns the content of a file.
func read(t *testing.T, elements ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// makeSecrets runs deploy/secrets.sh with a substitute for leat that prints what leat keys prints.
func makeSecrets(t *testing.T, args ...string) string {
	t.Helper()
	leat := filepath.Join(t.TempDir(), "leat")
	script := `#!/bin/sh
[ "$*" = "keys -o kubernetes" ] || exit 2
for s in distributor gitcache tunnel; do printf 'apiVersion: v1\nkind: Secret\nmetadata: { name: leat-%s }\nstringData: { service-secret: %s }\n---\n' $s "$(openssl rand -hex 32)"; done
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: leat-service-keys }\ndata: { service-keys: "distributor=a,gitcache=b,tunnel=c" }\n'
`
	if err := os.WriteFile(leat, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(top, "deploy", "secrets.sh"), args...)
	command.Env = append(os.Environ(), "LEAT="+leat)
	var complained strings.Builder
	command.Stderr = &complained
	printed, err := command.Output()
	if err != nil {
		t.Fatalf("secrets.sh %v: %v\n%s", args, err, complained.String())
	}
	return string(printed)
}

// TestSecSecretsAreMadeByOneCommand runs the documented command in all its forms.
func TestSecSecretsAreMadeByOneCommand(t *testing.T) {
	t.Parallel()
	for _, form := range []struct {
		args   []string
		scheme string
		ca     string
	}{{[]string{"kubernetes"}, "redis", ""}, {[]string{"kubernetes", "--redis-tls"}, "rediss", "/etc/leat-redis-tls/ca.crt"}} {
		made := map[string]map[string]string{}
		for document := range strings.SplitSeq(makeSecrets(t, form.args...), "\n---\n") {
			var s corev1.Secret
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
				t.Fatal(err)
			}
			if kind.Kind != "Secret" {
				continue
			}
			if err := yaml.UnmarshalStrict([]byte(document), &s); err != nil {
				t.Fatal(err)
			}
			made[s.Name] = s.StringData
		}
		for name, p := range readManifests(t, "hub.yaml").pods {
			for _, e := range p.spec.Containers[0].Env {
				if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil || e.ValueFrom.SecretKeyRef.Name == "leat-database" {
					continue
				}
				ref := e.ValueFrom.SecretKeyRef
				if _, ok := made[ref.Name][ref.Key]; !ok && (ref.Optional == nil || !*ref.Optional) {
					t.Errorf("%s needs %s of the secret %s, which secrets.sh does not make", name, ref.Key, ref.Name)
				}
			}
			for _, v := range p.spec.Volumes {
				if v.Secret != nil && (v.Secret.Optional == nil || !*v.Secret.Optional) && made[v.Secret.SecretName] == nil {
					t.Errorf("%s mounts the secret %s, which secrets.sh does not make", name, v.Secret.SecretName)
				}
			}
		}
		redis := made["leat-redis"]
		for _, user := range []string{"gitcache", "tunnel"} {
			u, err := url.Parse(redis[user+"-url"])
			if err != nil {
				t.Fatal(err)
			}
			if password, _ := u.User.Password(); u.Scheme != form.scheme || u.User.Username() != user || password != redis[user+"-password"] || len(password) < 32 {
				t.Errorf("%v: the URL for %s is %s, want its own user and password", form.args, user, u.Redacted())
			}
		}
		if redis["ca-file"] != form.ca || redis["gitcache-password"] == redis["tunnel-password"] {
			t.Errorf("%v: got CA file %q", form.args, redis["ca-file"])
		}
	}
}
