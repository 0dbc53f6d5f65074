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

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// makeSecrets runs deploy/secrets.sh with a substitute for leat that prints what leat keys prints.
// Certificates are made in a folder that nobody uses.
func makeSecrets(t *testing.T, args ...string) string {
	t.Helper()
	return makeSecretsIn(t, t.TempDir(), args...)
}

// makeSecretsIn is makeSecrets with certificates and the file of variables in a folder. It returns
// what the command printed, or the file of variables if it wrote one.
func makeSecretsIn(t *testing.T, folder string, args ...string) string {
	t.Helper()
	env := filepath.Join(t.TempDir(), ".env")
	out, complaints, err := runSecrets(t, folder, env, args...)
	if err != nil {
		t.Fatalf("secrets.sh %v: %v\n%s", args, err, complaints)
	}
	if made, err := os.ReadFile(env); err == nil {
		return string(made)
	}
	return out
}

// runSecrets runs deploy/secrets.sh with certificates in folder and the variables in env.
func runSecrets(t *testing.T, folder, env string, args ...string) (out, complaints string, err error) {
	t.Helper()
	leat := filepath.Join(t.TempDir(), "leat")
	script := `#!/bin/sh
[ "$1" = keys ] || exit 2
if [ "$#" -eq 3 ] && [ "$2 $3" = "-o kubernetes" ]; then
	for s in distributor gitcache tunnel; do printf 'apiVersion: v1\nkind: Secret\nmetadata: { name: leat-%s }\nstringData: { service-secret: %s }\n---\n' $s "$(openssl rand -hex 32)"; done
	printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: leat-service-keys }\ndata: { service-keys: "distributor=a,gitcache=b,tunnel=c" }\n'
else
	for s in DISTRIBUTOR GITCACHE TUNNEL; do echo "LEAT_${s}_SECRET=$(openssl rand -hex 32)"; done
	echo "LEAT_SERVICE_KEYS=distributor=a,gitcache=b,tunnel=c"
fi
`
	if err := os.WriteFile(leat, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(top, "deploy", "secrets.sh"), args...)
	command.Env = append(os.Environ(), "LEAT="+leat, "LEAT_TLS_DIR="+folder, "LEAT_ENV_FILE="+env)
	var complained strings.Builder
	command.Stderr = &complained
	printed, err := command.Output()
	return string(printed), complained.String(), err
}

// TestSecComposeSecretsAreTheOwnersAlone requires that the file of secrets is never readable for
// others, that a second run keeps it, and that nothing is printed.
func TestSecComposeSecretsAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	env := filepath.Join(folder, ".env")
	// A shell that redirects to the file makes it before the script runs, for everybody to read.
	if err := os.WriteFile(env, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	out, complaints, err := runSecrets(t, filepath.Join(folder, "tls"), env, "compose")
	if err != nil || out != "" {
		t.Fatalf("got %q, %v, want a file and nothing printed: %s", out, err, complaints)
	}
	info, err := os.Stat(env)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	first := string(read(t, env))
	if _, complaints, err = runSecrets(t, filepath.Join(folder, "tls"), env, "compose"); err == nil || !strings.Contains(complaints, "is there already") {
		t.Errorf("second run: got %v, %q, want it refused", err, complaints)
	}
	if got := string(read(t, env)); got != first || !strings.Contains(got, "LEAT_POSTGRES_PASSWORD=") {
		t.Error("second run: the file changed, want the database's only key kept")
	}
	if left, err := filepath.Glob(env + ".*"); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want no other file with secrets left", left, err)
	}
}

// composeSecrets returns the variables that docker-compose.yml needs, made by the documented
// command.
func composeSecrets(t *testing.T) []string {
	t.Helper()
	return linesOf(makeSecrets(t, "compose"))
}

func linesOf(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

func loadCompose(t *testing.T, env []string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(top, "docker-compose.yml")}, cli.WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

// TestSecSecretsAreMadeByOneCommand runs the documented command in all its forms.
func TestSecSecretsAreMadeByOneCommand(t *testing.T) {
	t.Parallel()
	first, second := composeSecrets(t), composeSecrets(t)
	for i, line := range first {
		name, value, _ := strings.Cut(line, "=")
		if len(value) < 32 && name != "LEAT_SERVICE_KEYS" || name != "LEAT_SERVICE_KEYS" && line == second[i] {
			t.Errorf("%s is %q, want 32 bytes or more that differ each time", name, value)
		}
	}
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
