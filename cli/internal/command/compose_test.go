// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leatdev/leat/cli/internal/command"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/services/distributor"
	"github.com/leatdev/leat/services/gitcache"
	"github.com/leatdev/leat/services/tunnel"
)

// mountedSecrets is where docker-compose.yml mounts the secrets of a service.
const mountedSecrets = "/etc/leat-secrets/"

// composeService holds what the test needs of a service of docker-compose.yml.
type composeService struct {
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
}

// composeServices reads docker-compose.yml as a fresh clone has it: every variable has its default.
func composeServices(t *testing.T) map[string]composeService {
	t.Helper()
	text, err := os.ReadFile("../../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	for variable := regexp.MustCompile(`\$\{\w+:-([^${}]*)\}`); variable.Match(text); { // from the inside, because a default may have one
		text = variable.ReplaceAll(text, []byte("$1"))
	}
	var file struct {
		Services map[string]composeService `yaml:"services"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

// TestComposeServicesFindTheirSecrets runs the command of the service init of docker-compose.yml, and
// requires that each other service finds every file that it reads in the volume that is mounted for
// it, that the services accept their settings, and that the tunnel serves TLS with them.
func TestComposeServicesFindTheirSecrets(t *testing.T) {
	t.Parallel()
	services, dir := composeServices(t), t.TempDir()
	args := []string{}
	for _, arg := range services["init"].Command {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case "--dir":
			args = append(args, "--dir="+dir)
		case "--group": // the process may not be a member of these groups
		default:
			args = append(args, arg)
		}
	}
	out := runLeat(t, services["init"].Environment, args...)
	for _, want := range []string{"docker compose run --rm leat get clusters", "/people/. leat-people", "LEAT_SERVER=https://127.0.0.1:8443 LEAT_CA_FILE=$PWD/leat-people/ca.crt"} {
		if !strings.Contains(out, want) {
			t.Errorf("init prints no %q:\n%s", want, out)
		}
	}
	checked := 0
	for name, s := range services {
		reader := ""
		for _, volume := range s.Volumes {
			if source, ok := strings.CutSuffix(volume, ":"+strings.TrimSuffix(mountedSecrets, "/")+":ro"); ok {
				reader = strings.TrimPrefix(source, "secrets-")
			}
		}
		for variable, value := range s.Environment {
			if file, ok := strings.CutPrefix(value, mountedSecrets); ok {
				s.Environment[variable] = filepath.Join(dir, reader, file)
				if _, err := os.Stat(s.Environment[variable]); err != nil {
					t.Errorf("%s: %s is %s, which init does not make: %v", name, variable, value, err)
				}
				checked++
			}
		}
	}
	if checked < 30 {
		t.Errorf("checked %d files of services", checked)
	}
	for _, user := range []string{"gitcache", "tunnel"} {
		if _, err := os.Stat(filepath.Join(dir, "redis", user+"-password")); err != nil {
			t.Error(err)
		}
	}
	var cfg tunnel.Config
	for name, bind := range map[string]func(*config.Set){
		"gitcache-1": new(gitcache.Config).Bind, "distributor-1": new(distributor.Config).Bind, "tunnel-1": cfg.Bind,
	} {
		env := services[name].Environment
		env["LEAT_DRAIN_TIMEOUT"], env["OTEL_EXPORTER_OTLP_ENDPOINT"] = "1s", "" // no collector listens here
		set := config.New(name, func(variable string) (string, bool) { value, ok := env[variable]; return value, ok })
		bind(set)
		if err := set.Parse(nil); err != nil {
			t.Errorf("%s does not accept its settings: %v", name, err)
		}
	}
	answersTLS(t, cfg, filepath.Join(dir, "people", "ca.crt"))

	// The next start renews what ends soon, and writes nothing else. It prints no secret.
	out += runLeat(t, services["init"].Environment, args...)
	if !strings.Contains(out, "everything is there\n") {
		t.Errorf("got %s, want nothing written by the second run", out)
	}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "made" { // names of files
			return err
		}
		content, err := os.ReadFile(path)
		for line := range strings.Lines(string(content)) {
			if line = strings.TrimSpace(line); len(line) >= 32 && strings.Contains(out, line) {
				t.Errorf("init prints what is in %s", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// runLeat returns what a command prints.
func runLeat(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	var out, failed bytes.Buffer
	exit := command.Run(t.Context(), command.Params{
		Args: args, In: strings.NewReader(""), Out: &out, Err: &failed,
		LookupEnv: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	})
	if exit != failure.ExitOK {
		t.Fatalf("leat %s: got exit code %d, %s", strings.Join(args, " "), exit, failed.String())
	}
	return out.String()
}

// answersTLS starts a tunnel, without other replicas, and connects to it with the certificate of the
// authority.
func answersTLS(t *testing.T, cfg tunnel.Config, authority string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Serve.Listener, cfg.Serve.InternalListenAddr, cfg.PeerListenAddr = listener, "", "127.0.0.1:0"
	cfg.RedisURL, cfg.AdvertiseURL, cfg.DistributorURL = "", "", "http://127.0.0.1:1"
	cfg.Telemetry.LogOutput = t.Output()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tunnel.Run(ctx, cfg) }()
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(authority)
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("got %v, want a certificate in %s", err, authority)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String()+"/clusters/any/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("got %v, want an answer over TLS that ca.crt vouches for", err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %d, want a request without a token refused", response.StatusCode)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("tunnel ended: %v", err)
	}
}
