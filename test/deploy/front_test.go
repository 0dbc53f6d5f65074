// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/leatdev/leat/internal/contract/hubroutes"
	"github.com/leatdev/leat/internal/testkit/nginxtest"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// front is a real nginx with the configuration of docker-compose.yml, in front of doubles of the
// hub's services.
type front struct {
	url    string
	client *http.Client
	trust  *tls.Config
}

// startFront starts nginx and the doubles. Each double names itself in the header Reached, and
// leaves the rest of the answer to the handler.
func startFront(t *testing.T, handler http.HandlerFunc) *front {
	t.Helper()
	certificate := selfsigned.New(t, "tunnel-1")
	config := string(read(t, top, "deploy", "nginx", "leat-hub.conf"))
	replace := func(from, to string) {
		if !strings.Contains(config, from) {
			t.Fatalf("deploy/nginx/leat-hub.conf has no %q", from)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	for service, address := range map[string]string{"distributor": "distributor:8700", "gitcache": "gitcache:8702", "tunnel": "tunnel:8701"} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Reached", service)
			handler(w, r)
		}))
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetHTTP1(true)
		if server.EnableHTTP2 = true; service == "tunnel" {
			server.Config.Protocols.SetHTTP2(true)
			server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.Pair}, MinVersion: tls.VersionTLS12}
			server.StartTLS()
		} else {
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Start()
		}
		t.Cleanup(server.Close)
		replace(address, server.Listener.Addr().String())
	}
	s := nginxtest.Start(t, 0, func(addr, dir string) string {
		certificate.Write(t, dir)
		if err := os.WriteFile(filepath.Join(dir, "tls.pem"), append(slices.Clone(certificate.PEM), certificate.KeyPEM...), 0o600); err != nil {
			t.Fatal(err)
		}
		replace("listen 8443 ", "listen "+addr+" ")
		replace("/etc/leat-secrets/", dir+"/")
		return `map "" $leat_certificate { default ` + dir + "/tls.pem; }\n" + config
	})
	f := &front{url: "https://" + s.Addr, trust: &tls.Config{RootCAs: certificate.Roots(), MinVersion: tls.VersionTLS12}}
	transport := &http.Transport{TLSClientConfig: f.trust, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	f.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return f
}

// reaches returns the service that answers a POST to a path, or "" if the front refuses it.
func (f *front) reaches(t *testing.T, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	request.URL.Opaque = strings.TrimPrefix(f.url, "https:") + path // as it is written
	response, err := f.client.Do(request)
	if err != nil {
		t.Fatal(path, err)
	}
	defer response.Body.Close()
	reached := response.Header.Get("Reached")
	if reached == "" && response.StatusCode != http.StatusNotFound && response.StatusCode != http.StatusBadRequest {
		t.Errorf("%s: got %s, want it answered by a service, or refused", path, response.Status)
	}
	return reached
}

// TestSecFrontLeadsWhereTheRoutesLead asks the front of docker-compose.yml for every call of the
// protocol and for every path that the chart routes. It leads to the service to which an Ingress of
// the chart leads, and nowhere else.
func TestSecFrontLeadsWhereTheRoutesLead(t *testing.T) {
	t.Parallel()
	routed, exact := map[string]string{}, map[string]string{}
	objects := render(t, installations()["external"])
	for _, part := range []string{"people", "ui", "agents", "webhooks"} {
		for _, rule := range object[networkingv1.Ingress](t, objects, "Ingress/leat-"+part).Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				if *path.PathType == networkingv1.PathTypeExact {
					exact[path.Path] = path.Backend.Service.Name
				} else {
					routed[path.Path] = path.Backend.Service.Name
				}
			}
		}
	}
	listed, listedExact := map[string]string{}, map[string]string{}
	for _, route := range hubroutes.All() {
		if route.IsExact {
			listedExact[route.Path] = string(route.Service)
		} else {
			listed[route.Path] = string(route.Service)
		}
	}
	delete(routed, "/leat.tunnel.v1.TunnelService/Connect") // of agents, whose host may be another one
	if !maps.Equal(routed, listed) || !maps.Equal(exact, listedExact) {
		t.Errorf("the chart routes\n%v, %v, want\n%v, %v as package hubroutes lists", routed, exact, listed, listedExact)
	}
	want := map[string]string{ // by the path
		"/": "distributor", "/metrics": "", "/healthz": "", "/readyz": "", "/tunnel/v1/hop/x": "", "/tunnel/v1/connect/": "tunnel",
		"/v1/bundles/../../leat.gitcache.v1.GitCacheService/Fetch":        "",
		"/v1/bundles/%2e%2e/%2e%2e/leat.gitcache.v1.GitCacheService/Next": "",
		"/%6ceat.gitcache.v1.GitCacheService/Fetch":                       "", "//leat.gitcache.v1.GitCacheService/Fetch": "",
		"/webhooks/github/shop": "gitcache", "/webhooks/config/vault": "distributor", "/clusters/berlin/api/v1/pods?watch=1": "tunnel",
	}
	leads := func(path string) string {
		longest := ""
		for prefix := range routed {
			if (path == prefix || strings.HasPrefix(path, prefix+"/")) && len(prefix) > len(longest) {
				longest = prefix
			}
		}
		return routed[longest]
	}
	for prefix := range routed {
		if !strings.HasPrefix(prefix, "/leat.") { // a service has no path but its calls'
			want[prefix], want[prefix+"x"] = leads(prefix), leads(prefix+"x")
		}
		want[prefix+"/x"] = leads(prefix + "/x")
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				path := "/" + string(service.FullName()) + "/" + string(service.Methods().Get(j).Name())
				want[path] = leads(path)
			}
		}
		return true
	})
	if len(want) < 100 {
		t.Errorf("got %d paths, want those of all calls", len(want))
	}
	// Like a service that refuses a caller, the doubles answer before they have read the message.
	f := startFront(t, func(http.ResponseWriter, *http.Request) {})
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got := f.reaches(t, path); got != want[path] {
			t.Errorf("%s leads to %q, want %q as by the chart's routes", path, got, want[path])
		}
	}
}

// TestFrontPassesStreams sends messages in both directions of one call, and reads what comes after
// the last one. The answer to each arrives before the next is sent.
func TestFrontPassesStreams(t *testing.T) {
	t.Parallel()
	f := startFront(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			_, _ = fmt.Fprintf(w, "%s by HTTP/%d for %s\n", lines.Text(), r.ProtoMajor, r.Host)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("Grpc-Status", "7")
	})
	for _, path := range []string{"/leat.distributor.v1.DistributorService/WatchPlan", "/leat.tunnel.v1.TunnelService/Connect"} {
		body, sent := io.Pipe()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("Te", "trailers")
		go func() { _, _ = io.WriteString(sent, "first\n") }()
		response, err := f.client.Do(request)
		if err != nil {
			t.Fatal(path, err)
		}
		defer response.Body.Close()
		lines := bufio.NewReader(response.Body)
		host := strings.TrimPrefix(f.url, "https://")
		for _, message := range []string{"first", "second"} {
			if message == "second" {
				_, _ = io.WriteString(sent, "second\n")
			}
			if got, err := lines.ReadString('\n'); got != message+" by HTTP/2 for "+host+"\n" {
				t.Fatalf("%s: got %q, %v, want the message %s by HTTP/2", path, got, err, message)
			}
		}
		_ = sent.Close()
		if _, err := io.Copy(io.Discard, lines); err != nil || response.Trailer.Get("Grpc-Status") != "7" {
			t.Errorf("%s: got %v, and the trailers %v", path, err, response.Trailer)
		}
	}
}

// TestFrontPassesUpgrades opens connections as kubectl exec and agents do, and talks over them.
func TestFrontPassesUpgrades(t *testing.T) {
	t.Parallel()
	f := startFront(t, func(w http.ResponseWriter, r *http.Request) {
		protocol := r.Header.Get("Upgrade")
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: %s\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Connection"), protocol)
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, "got "+line)
	})
	for path, protocol := range map[string]string{
		"/clusters/berlin/api/v1/namespaces/a/pods/b/exec": "SPDY/3.1", "/clusters/berlin/api/v1/namespaces/a/pods/b/attach": "websocket",
		"/tunnel/v1/connect": "leat-tunnel/1",
	} {
		conn, err := (&tls.Dialer{Config: f.trust}).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.url, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", path, protocol)
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != protocol {
			t.Fatalf("%s: got %+v, %v, want %s", path, response, err, protocol)
		}
		_ = response.Body.Close()
		_, _ = io.WriteString(conn, "hello\n")
		if got, err := reader.ReadString('\n'); got != "got hello\n" {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
}
