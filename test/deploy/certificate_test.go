// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/tunnel"
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

// TestComposeTunnelHasACertificate makes the certificate by the documented command, twice, and
// starts a tunnel with the settings and files that docker-compose.yml gives it.
func TestComposeTunnelHasACertificate(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "tls")
	env := append(linesOf(makeSecretsIn(t, folder, "compose")), "LEAT_TLS_DIR="+folder)
	made := map[string]string{}
	for _, name := range []string{"ca.crt", "ca.key", "tls.crt", "tls.key"} {
		made[name] = string(read(t, folder, name))
	}
	if out := makeSecretsIn(t, folder, "certificate"); out != "" {
		t.Errorf("certificate: got %q, want no secret: they are made once", out)
	}
	for name, before := range made {
		if string(read(t, folder, name)) != before {
			t.Errorf("%s was made again, want it kept", name)
		}
	}
	info, err := os.Stat(folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: got %v, %v, want nobody else to get in", info.Mode(), err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(made["ca.crt"]))
	block, _ := pem.Decode([]byte(made["tls.crt"]))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "tunnel-1", "tunnel-2"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: time.Now().AddDate(1, 0, -1)}); err != nil {
			t.Errorf("in a year: %v", err)
		}
	}
	project, err := loadCompose(t, env)
	if err != nil {
		t.Fatal(err)
	}
	if u := *project.Services["distributor"].Environment["LEAT_TUNNEL_URL"]; !strings.HasPrefix(u, "https://") {
		t.Errorf("people and agents are sent to %s, want https", u)
	}
	for _, name := range []string{"tunnel-1", "tunnel-2"} {
		s := project.Services[name]
		if u := *s.Environment["LEAT_TUNNEL_ADVERTISE_URL"]; u != "https://"+name+":8705" {
			t.Errorf("%s: other replicas are sent to %s, want its own name with https", name, u)
		}
		if slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return !v.ReadOnly || strings.HasSuffix(v.Source, "ca.key") }) {
			t.Errorf("%s: got volumes %+v, want files that it can only read, without the authority's key", name, s.Volumes)
		}
	}
	answersTLS(t, project.Services["tunnel-1"], roots)
}

// answersTLS starts a tunnel as compose does, without other replicas, and connects to it.
func answersTLS(t *testing.T, s types.ServiceConfig, roots *x509.CertPool) {
	t.Helper()
	files := map[string]string{} // by their path in the container
	for _, v := range s.Volumes {
		files[v.Target] = v.Source
	}
	env := hubkeys.Env("tunnel", map[string]string{"LEAT_LOG_LEVEL": "error", "LEAT_DISTRIBUTOR_URL": "http://127.0.0.1:1", "LEAT_DRAIN_TIMEOUT": "1s"})
	for _, name := range []string{"LEAT_TLS_CERT_FILE", "LEAT_TLS_KEY_FILE", "LEAT_TUNNEL_PEER_CA_FILE"} {
		if env[name] = files[*s.Environment[name]]; env[name] == "" {
			t.Fatalf("%s is %s, which is not mounted", name, *s.Environment[name])
		}
	}
	var cfg tunnel.Config
	set := config.New("tunnel", func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	cfg.Bind(set)
	if err := set.Parse(nil); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Serve.Listener, cfg.Serve.InternalListenAddr = listener, ""
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tunnel.Run(ctx, cfg) }()
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

// TestComposeMetricsAreComplete requires that Prometheus scrapes every replica under its own name: a
// name that two replicas share would be one target, whose counters jump.
func TestComposeMetricsAreComplete(t *testing.T) {
	t.Parallel()
	project, err := loadCompose(t, composeSecrets(t))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Configs []struct {
			Static []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(read(t, top, "deploy", "compose", "prometheus.yml"), &file); err != nil {
		t.Fatal(err)
	}
	var targets, want []string
	for _, c := range file.Configs {
		for _, s := range c.Static {
			targets = append(targets, s.Targets...)
		}
	}
	for name, s := range project.Services {
		if s.Environment["LEAT_INTERNAL_LISTEN_ADDR"] == nil {
			continue
		}
		want = append(want, name+*s.Environment["LEAT_INTERNAL_LISTEN_ADDR"])
		if _, ok := s.Networks["telemetry"]; !ok {
			t.Errorf("%s is out of reach of Prometheus", name)
		}
	}
	slices.Sort(targets)
	slices.Sort(want)
	if !slices.Equal(targets, want) {
		t.Errorf("Prometheus scrapes %v, want each service once: %v", targets, want)
	}
}
