// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
)

// authority is a self-signed certificate for the loopback interface.
type authority struct {
	caFile, certFile, keyFile string
	caPEM                     []byte
	certificate               tls.Certificate
	roots                     *x509.CertPool
}

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "leat test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", "*.clusters.localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	a := &authority{
		caFile: filepath.Join(dir, "ca.pem"), certFile: filepath.Join(dir, "cert.pem"), keyFile: filepath.Join(dir, "key.pem"),
		caPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), roots: x509.NewCertPool(),
	}
	a.roots.AppendCertsFromPEM(a.caPEM)
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	if a.certificate, err = tls.X509KeyPair(a.caPEM, keyPEM); err != nil {
		return nil, err
	}
	for file, content := range map[string][]byte{a.caFile: a.caPEM, a.certFile: a.caPEM, a.keyFile: keyPEM} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *authority) server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.certificate}}
}

func (a *authority) client() *tls.Config {
	return &tls.Config{RootCAs: a.roots, ServerName: "localhost"}
}

// bearer adds a person's token to requests.
type bearer struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// person returns a client of the hub with a person's token.
func (r *rig) person() *http.Client {
	transport := &http.Transport{TLSClientConfig: r.ca.client(), ForceAttemptHTTP2: true}
	r.end(transport.CloseIdleConnections)
	return &http.Client{Transport: bearer{token: r.token, next: transport}}
}

// kubePost creates an object as the cluster's administrator.
func (r *rig) kubePost(ctx context.Context, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.cluster.Host()+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.cluster.HTTPClient().Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("post %s: %s: %s", path, response.Status, text)
	}
	return nil
}

// waitOK polls until the answer is 200.
func waitOK(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, await.Patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last string
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err != nil {
			last = err.Error()
		} else {
			text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			last = response.Status + " " + string(text)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s did not answer 200 in time; last: %s", url, last)
		}
	}
}

// startEcho starts the target of port-forwards, which echoes its input.
func startEcho() (net.Listener, error) {
	listener, err := listen()
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener, nil
}

// The files that pods pretend to have, below the rig's folder.
const (
	podDir  = "pod"
	podLogs = "pod.log"
	podSays = "pod.attach"
)

// kubeletConfig returns kwok's behaviour for pods. Commands of exec run on this machine, in a
// folder of the rig.
func kubeletConfig(dir string, echo net.Addr) (string, error) {
	work := filepath.Join(dir, podDir)
	if err := os.Mkdir(work, 0o700); err != nil {
		return "", err
	}
	logs := filepath.Join(dir, podLogs)
	var lines strings.Builder
	for i := range 200 {
		stamp := time.Date(2026, 1, 2, 3, 4, 5, i*1000, time.UTC).Format(time.RFC3339Nano)
		stream := []string{"stdout", "stderr"}[i%7/6]
		fmt.Fprintf(&lines, "%s %s F line %d of the log\n", stamp, stream, i)
	}
	if err := os.WriteFile(logs, []byte(lines.String()), 0o600); err != nil {
		return "", err
	}
	says := filepath.Join(dir, podSays)
	if err := os.WriteFile(says, nil, 0o600); err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(echo.String())
	if err != nil {
		return "", err
	}
	var config strings.Builder
	for kind, spec := range map[string]string{
		"ClusterExec":        fmt.Sprintf(`{"execs": [{"local": {"workDir": %q, "envs": [{"name": "PATH", "value": %q}]}}]}`, work, os.Getenv("PATH")),
		"ClusterLogs":        fmt.Sprintf(`{"logs": [{"logsFile": %q}]}`, logs),
		"ClusterAttach":      fmt.Sprintf(`{"attaches": [{"logsFile": %q}]}`, says),
		"ClusterPortForward": fmt.Sprintf(`{"forwards": [{"target": {"address": %q, "port": %s}}]}`, host, port),
	} {
		fmt.Fprintf(&config, "---\n{\"apiVersion\": \"kwok.x-k8s.io/v1alpha1\", \"kind\": %q, \"metadata\": {\"name\": \"all\"}, \"spec\": %s}\n", kind, spec)
	}
	return config.String(), nil
}

// tick makes the pod print repeatedly, until ctx ends.
func (r *rig) tick(ctx context.Context) {
	file, err := os.OpenFile(filepath.Join(r.dir, podSays), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer file.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			fmt.Fprintf(file, "%s stdout F tick\n", now.UTC().Format(time.RFC3339Nano))
		case <-ctx.Done():
			return
		}
	}
}

// writeJSON writes a file that kubectl reads as YAML.
func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
