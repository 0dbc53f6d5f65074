// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/runtime/localkube/keys"
)

// simulatedStages make kwok give addresses to load balancers and ingresses.
//
//go:embed simulated.yaml
var simulatedStages []byte

// metricsVersion is the API that autoscalers and kubectl top read, and metricsAPI its path.
const (
	metricsVersion = "metrics.k8s.io/v1beta1"
	metricsAPI     = "/apis/" + metricsVersion
)

// measuredPath matches what has metrics, below the path of the core API as well as below the path
// of metrics.
var measuredPath = regexp.MustCompile(`^(/namespaces/[^/]+)?/pods(/[^/]+)?$|^/nodes(/[^/]+)?$`)

// metricsResources is the answer to discovery.
var metricsResources = object{
	"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": metricsVersion, "resources": []object{
		{"name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics", "verbs": []string{"get", "list"}},
		{"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": []string{"get", "list"}},
	},
}

// metricsServer serves the API of metrics, as metrics-server does. Pods run nothing here, and use
// next to nothing.
type metricsServer struct {
	client *client // of the API server
	http   *http.Server
}

// serveMetrics runs a metricsServer and has the API server pass requests on to it. The caller
// closes it, also after an error.
func serveMetrics(ctx context.Context, api *client, files keys.Dir) (*metricsServer, error) {
	m := &metricsServer{client: api}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return m, fmt.Errorf("serve metrics: %w", err)
	}
	ca, err := os.ReadFile(files.Path(keys.CACert))
	if err != nil {
		return m, errors.Join(fmt.Errorf("read authority: %w", err), listener.Close())
	}
	callers := x509.NewCertPool()
	callers.AppendCertsFromPEM(ca)
	m.http = &http.Server{
		Handler: http.HandlerFunc(m.answer), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: callers, MinVersion: tls.VersionTLS12},
	}
	cert, key := files.Path(keys.ServerCert), files.Path(keys.ServerKey)
	go func() { _ = m.http.ServeTLS(listener, cert, key) }() // ends with Close
	if err := m.register(ctx, listener.Addr()); err != nil {
		return m, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// close ends the server, if there is one.
func (m *metricsServer) close() {
	if m != nil && m.http != nil {
		_ = m.http.Close() // the listener's error is of no use
	}
}

// register leads the API server to the address. An earlier start registered another one.
func (m *metricsServer) register(ctx context.Context, address net.Addr) error {
	const registrations, name = "/apis/apiregistration.k8s.io/v1/apiservices", "v1beta1.metrics.k8s.io"
	service := object{"name": "simulated-metrics", "namespace": "kube-system"}
	err := m.client.create(ctx, "/api/v1/namespaces/kube-system/services", object{
		"apiVersion": "v1", "kind": "Service", "metadata": service, "spec": object{"type": "ExternalName", "externalName": "127.0.0.1"},
	})
	if err != nil {
		return err
	}
	err = m.client.do(ctx, http.MethodDelete, registrations+"/"+name, nil, nil)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusNotFound {
		err = nil
	}
	if err != nil {
		return err
	}
	port := 0
	if tcp, ok := address.(*net.TCPAddr); ok {
		port = tcp.Port
	}
	return m.client.create(ctx, registrations, object{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": object{"name": name},
		"spec": object{
			"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
			"service":               object{"name": service["name"], "namespace": service["namespace"], "port": port},
			"insecureSkipTLSVerify": true, // it is asked for by a name that its certificate does not have
		},
	})
}

// measured is the part of a pod, of a node or of a list of them that metrics repeat.
type measured struct {
	Metadata object
	Spec     struct{ Containers []struct{ Name string } }
	Items    []measured
}

// answer answers with what the core API has at the same place, in the form of metrics.
func (m *metricsServer) answer(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, metricsAPI)
	switch {
	case r.Method == http.MethodGet && path == "":
		sendJSON(w, metricsResources)
		return
	case r.Method != http.MethodGet || !measuredPath.MatchString(path):
		http.NotFound(w, r)
		return
	}
	asked, query := r.URL.Query(), url.Values{}
	for _, parameter := range []string{"labelSelector", "fieldSelector"} {
		query.Set(parameter, asked.Get(parameter))
	}
	var found measured
	err := m.client.do(r.Context(), http.MethodGet, "/api/v1"+path+"?"+query.Encode(), nil, &found)
	if status := (*statusError)(nil); errors.As(err, &status) {
		http.Error(w, status.message, status.code)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	kind := "NodeMetrics"
	if strings.Contains(path, "/pods") {
		kind = "PodMetrics"
	}
	sendJSON(w, found.metrics(kind))
}

// metrics returns the usage of one object, or of each of a list.
func (m measured) metrics(kind string) object {
	if m.Metadata["name"] == nil {
		items := make([]object, len(m.Items))
		for i, item := range m.Items {
			items[i] = item.metrics(kind)
		}
		return object{"apiVersion": metricsVersion, "kind": kind + "List", "metadata": object{}, "items": items}
	}
	usage := object{"cpu": "1m", "memory": "1Mi"}
	containers := make([]object, len(m.Spec.Containers))
	for i, c := range m.Spec.Containers {
		containers[i] = object{"name": c.Name, "usage": usage}
	}
	now := time.Now().UTC().Format(time.RFC3339)
	return object{
		"apiVersion": metricsVersion, "kind": kind, "timestamp": now, "window": "0s", "usage": usage, "containers": containers,
		"metadata": object{
			"name": m.Metadata["name"], "namespace": m.Metadata["namespace"], "labels": m.Metadata["labels"], "creationTimestamp": now,
		},
	}
}

func sendJSON(w http.ResponseWriter, answer object) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // fails when the caller is gone
}
