// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/leatdev/leat/internal/testkit/await"
)

// route is how requests reach the cluster.
type route string

const (
	routePath route = "path" // at the replica that has the agent
	routeHost route = "host" // at the cluster's own host
	routeHop  route = "hop"  // by the path, at the replica that has to pass the request on
)

// wire sends requests to the hub. It follows no redirect.
type wire struct {
	rig *rig
	// two speaks HTTP/2, and one HTTP/1.1, for upgrades.
	two, one *http.Client
}

func newWire(t *testing.T, r *rig) *wire {
	t.Helper()
	client := func(http2 bool) *http.Client {
		config := r.ca.client()
		config.ServerName = ""
		protocols := new(http.Protocols)
		protocols.SetHTTP1(!http2)
		protocols.SetHTTP2(http2)
		transport := &http.Transport{
			TLSClientConfig: config, Protocols: protocols,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if strings.Contains(address, clusterDomain) { // which no name server knows
					address = r.hub
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return &wire{rig: r, two: client(true), one: client(false)}
}

// at returns the URL of a cluster.
func (w *wire) at(way route, cluster, host string) string {
	switch way {
	case routeHost:
		return "https://" + host + "." + clusterDomain
	case routeHop:
		return "https://" + w.rig.far + "/clusters/" + cluster
	case routePath:
	}
	return "https://" + w.rig.hub + "/clusters/" + cluster
}

// answer is all that a caller can see, but the time of day and what names the request alone.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request, and reads at most the beginning of an answer that does not end.
func (w *wire) ask(t *testing.T, base string, q question, header map[string]string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(await.Context(t), q.method, base+q.path, bytes.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []map[string]string{q.header, header} {
		for key, value := range more {
			request.Header.Set(key, value)
		}
	}
	client := w.two
	if q.header["Upgrade"] != "" || header["Upgrade"] != "" {
		client = w.one
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", q.method, base+q.path, err)
	}
	defer response.Body.Close()
	a := answer{status: response.StatusCode, header: response.Header.Clone()}
	a.header.Del("Date")
	if q.isEndless && response.StatusCode == http.StatusOK && !isStreamOfRPC(response) || response.StatusCode == http.StatusSwitchingProtocols {
		return a
	}
	a.body = w.read(t, q, response)
	return a
}

func isStreamOfRPC(response *http.Response) bool {
	return strings.HasPrefix(response.Header.Get("Content-Type"), "application/connect+")
}

// read reads a body: of an endless stream, the frame that refuses it, if that is the first one.
func (w *wire) read(t *testing.T, q question, response *http.Response) string {
	t.Helper()
	if q.isEndless && isStreamOfRPC(response) && response.Header.Get("Leat-Error-Origin") == "" {
		return "" // the agent sends its headers at once, and messages when something happens
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// verdict names the answer as docs/reference/rights.md does.
func (a answer) verdict() string {
	origin := a.header.Get("Leat-Error-Origin")
	isHub := origin == "hub"
	switch {
	case isHub && a.reason() == "TOKEN_INVALID":
		return unauthenticated
	case isHub && strings.Contains(a.body, "does not exist or you may not reach it"):
		return "hidden"
	case isHub && a.reason() == "ACCESS_DENIED":
		return "no"
	case origin == "cluster" && a.status == http.StatusForbidden:
		return "cluster"
	case origin == "" && a.status < http.StatusBadRequest:
		return "yes"
	}
	return fmt.Sprintf("%d from %q: %.300s", a.status, origin, a.body)
}

const unauthenticated = "unauthenticated"

func (a answer) reason() string { return a.header.Get("Leat-Error-Reason") }

// traceIDs distinguish two equal answers.
var traceIDs = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// without returns the answer as a text, with the name of the cluster and the ids of the request left
// out.
func (a answer) without(t *testing.T, names ...string) string {
	t.Helper()
	header := a.header.Clone()
	body := a.readable(t)
	for _, name := range names {
		body = strings.ReplaceAll(body, name, "NAME")
	}
	header.Del("Content-Length") // the same for names of the same length; checked by the length of the body
	for name := range header {
		if strings.EqualFold(name, "Traceparent") {
			header.Del(name)
		}
	}
	return fmt.Sprint(a.status, header, len(a.body), traceIDs.ReplaceAllString(body, "ID"))
}

// readable decodes the details of an RPC's error.
func (a answer) readable(t *testing.T) string {
	t.Helper()
	start := strings.IndexByte(a.body, '{')
	if start < 0 || !strings.Contains(a.body, `"details":[`) {
		return a.body
	}
	type problem struct {
		Code, Message string
		Details       []struct{ Type, Value string }
	}
	var p problem
	if err := json.Unmarshal([]byte(a.body[start:]), &p); err != nil || len(p.Details) == 0 {
		var framed struct{ Error problem }
		if err := json.Unmarshal([]byte(a.body[start:]), &framed); err != nil {
			return a.body
		}
		p = framed.Error
	}
	text := p.Code + " " + p.Message
	for _, detail := range p.Details {
		raw, err := base64.RawStdEncoding.DecodeString(detail.Value)
		if err != nil {
			t.Fatal(err)
		}
		if detail.Type != "google.rpc.ErrorInfo" {
			text += " " + detail.Type + " " + detail.Value
			continue
		}
		var info errdetails.ErrorInfo
		if err := proto.Unmarshal(raw, &info); err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprint(" ", info.GetReason(), info.GetDomain(), info.GetMetadata())
	}
	return text
}
