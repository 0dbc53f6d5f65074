// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/leatdev/leat/internal/contract/hubroutes"
	"github.com/leatdev/leat/internal/testkit/nginxtest"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// front is a proxy that leads from one origin to doubles of the hub's services.
type front struct {
	// host is how callers name it, and addr where it listens.
	host, addr string
	client     *http.Client
	trust      *tls.Config
}

// newFront returns the front at an address whose certificate has the name of the host.
func newFront(t *testing.T, host, addr string, certificate selfsigned.Certificate) *front {
	t.Helper()
	name, _, _ := strings.Cut(host, ":")
	f := &front{host: host, addr: addr, trust: &tls.Config{RootCAs: certificate.Roots(), ServerName: name, MinVersion: tls.VersionTLS12}}
	transport := &http.Transport{TLSClientConfig: f.trust.Clone(), ForceAttemptHTTP2: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	f.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return f
}

// startDoubles starts a double of each service of the hub on an address with any port, and returns
// where each listens. Each names itself in the header Reached, and answers as it is asked. The tunnel
// has the certificate, unless it is nil.
func startDoubles(t *testing.T, addr string, certificate *selfsigned.Certificate) map[string]string {
	t.Helper()
	listens := map[string]string{}
	for _, service := range []string{"distributor", "gitcache", "tunnel"} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		server := &httptest.Server{Listener: listener, Config: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Reached", service)
			answer(w, r)
		})}}
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetHTTP1(true)
		if server.EnableHTTP2 = true; service == "tunnel" && certificate != nil {
			server.Config.Protocols.SetHTTP2(true)
			server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.Pair}, MinVersion: tls.VersionTLS12}
			server.StartTLS()
		} else {
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Start()
		}
		t.Cleanup(server.Close)
		listens[service] = listener.Addr().String()
	}
	return listens
}

// answer switches protocols, returns each line of a stream of gRPC as it comes, sends one line of a
// stream of Connect, after which that is quiet until the caller goes, or else says nothing. Like a
// service that refuses a caller, it then answers before it has read the message.
func answer(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	switch r.Header.Get("Content-Type") {
	case "application/grpc":
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			_, _ = fmt.Fprintf(w, "%s by HTTP/%d for %s\n", lines.Text(), r.ProtoMajor, r.Host)
			_ = control.Flush()
		}
		w.Header().Set("Grpc-Status", "7")
	case "application/connect+proto":
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/connect+proto")
		_, _ = io.WriteString(w, "first\n")
		_ = control.Flush()
		<-r.Context().Done()
	default:
		protocol := r.Header.Get("Upgrade")
		if protocol == "" {
			return
		}
		conn, buffered, err := control.Hijack()
		if err != nil {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: %s\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Connection"), protocol)
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, "got "+line)
	}
}

// startFront starts nginx with the configuration of docker-compose.yml, and the doubles.
func startFront(t *testing.T) *front {
	t.Helper()
	certificate := selfsigned.New(t, "tunnel-1")
	config := string(read(t, top, "deploy", "nginx", "leat-hub.conf"))
	replace := func(from, to string) {
		if !strings.Contains(config, from) {
			t.Fatalf("deploy/nginx/leat-hub.conf has no %q", from)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	listens := startDoubles(t, "127.0.0.1:0", &certificate)
	for service, address := range map[string]string{"distributor": "distributor:8700", "gitcache": "gitcache:8702", "tunnel": "tunnel:8701"} {
		replace(address, listens[service])
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
	return newFront(t, s.Addr, s.Addr, certificate)
}

// isLed reports whether a service answers a path by now.
func (f *front) isLed(t *testing.T, path string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+f.host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := f.client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.Header.Get("Reached") != ""
}

// reaches returns the service that answers a POST to a path, or "" if the front refuses it.
func (f *front) reaches(t *testing.T, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+f.host, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	request.URL.Opaque = "//" + f.host + path // as it is written
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
	routed, exact := ingressPaths(t, render(t, installations()["external"]))
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
	startFront(t).wantPaths(t, routed)
}

// ingressPaths returns the service of each prefix, and of each exact path, of the chart's Ingresses.
func ingressPaths(t *testing.T, objects map[string][]byte) (routed, exact map[string]string) {
	t.Helper()
	routed, exact = map[string]string{}, map[string]string{}
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
	return routed, exact
}

// wantPaths asks for every call of the protocol, for what the chart routes, which has the service of
// each prefix, and for paths beside it.
func (f *front) wantPaths(t *testing.T, routed map[string]string) {
	t.Helper()
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
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got := f.reaches(t, path); got != want[path] {
			t.Errorf("%s leads to %q, want %q as by the chart's routes", path, got, want[path])
		}
	}
}

func TestFrontPassesStreams(t *testing.T) {
	t.Parallel()
	f := startFront(t)
	f.wantStreams(t, "/leat.distributor.v1.DistributorService/WatchPlan", "/leat.tunnel.v1.TunnelService/Connect")
	f.wantQuietStream(t)
}

// wantQuietStream reads the first message of an answer that does not end, as agents and the web UI
// do, and leaves. The double's handler ends then, or the test would not.
func (f *front) wantQuietStream(t *testing.T) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+f.host+"/leat.distributor.v1.DistributorService/WatchPlan", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/connect+proto")
	response, err := f.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, err := bufio.NewReader(response.Body).ReadString('\n'); got != "first\n" {
		t.Errorf("got %q, %v, want the first message while the stream is open", got, err)
	}
}

// wantStreams sends messages in both directions of one call of gRPC, and reads what comes after the
// last one. The answer to each arrives before the next is sent.
func (f *front) wantStreams(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		body, sent := io.Pipe()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+f.host+path, body)
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
		for _, message := range []string{"first", "second"} {
			if message == "second" {
				_, _ = io.WriteString(sent, "second\n")
			}
			if got, err := lines.ReadString('\n'); got != message+" by HTTP/2 for "+f.host+"\n" {
				t.Fatalf("%s: got %q, %v, want the message %s by HTTP/2", path, got, err, message)
			}
		}
		_ = sent.Close()
		if _, err := io.Copy(io.Discard, lines); err != nil || response.Trailer.Get("Grpc-Status") != "7" {
			t.Errorf("%s: got %v, and the trailers %v", path, err, response.Trailer)
		}
	}
}

func TestFrontPassesUpgrades(t *testing.T) {
	t.Parallel()
	startFront(t).wantUpgrades(t)
}

// wantUpgrades opens connections as kubectl exec and agents do, and talks over them.
func (f *front) wantUpgrades(t *testing.T) {
	t.Helper()
	for path, protocol := range map[string]string{
		"/clusters/berlin/api/v1/namespaces/a/pods/b/exec": "SPDY/3.1", "/clusters/berlin/api/v1/namespaces/a/pods/b/attach": "websocket",
		"/tunnel/v1/connect": "leat-tunnel/1",
	} {
		conn, err := (&tls.Dialer{Config: f.trust}).DialContext(t.Context(), "tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", path, f.host, protocol)
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
