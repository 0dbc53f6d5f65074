// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/services/tunnel"
	"github.com/leatdev/leat/services/tunnel/internal/agenttest"
)

// hostile lists headers with which a cluster would act on the hub's host, on what browsers keep for
// it, or on a reverse proxy in front of it.
var hostile = []string{
	"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Service-Worker-Allowed", "Refresh", "Nel", "Report-To",
	"Reporting-Endpoints", "X-Accel-Redirect", "X-Accel-Expires", "X-Sendfile", "X-Lighttpd-Send-File", "Access-Control-Allow-Origin",
	"Access-Control-Allow-Credentials", "x_accel_redirect", "X_Sendfile", "Leat-Error-Reason", "Leat-Hop-Error", "leat_hop_error",
}

// speakForTheHub is an API server that sends all of these headers: in hints, in the head, and in
// the trailer, announced or not.
func speakForTheHub(w http.ResponseWriter, r *http.Request) {
	say := func(prefix string) {
		for _, name := range hostile {
			w.Header()[prefix+name] = []string{"evil"}
		}
	}
	if strings.HasSuffix(r.URL.Path, "/hints") {
		say("")
		w.Header().Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	}
	say("")
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Content-Security-Policy", "script-src *")
	w.Header().Set("Content-Security-Policy-Report-Only", "report-uri https://evil.example")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	w.Header().Set("Trailer", "X-Good, Set-Cookie")
	if strings.HasSuffix(r.URL.Path, "/error") {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = io.WriteString(w, "<script>alert(document.domain)</script>")
	w.Header().Set("X-Good", "yes")
	w.Header().Set("Set-Cookie", "evil")
	say(http.TrailerPrefix)
}

// evilIn returns the names of the hostile headers that are left.
func evilIn(header http.Header) (left []string) {
	for name, values := range header {
		for _, value := range values {
			if value == "evil" {
				left = append(left, name)
			}
		}
	}
	return left
}

// TestSecAnswersDoNotSpeakForTheHub reads the answers of a hostile cluster, at the hub's host and
// at the cluster's own.
func TestSecAnswersDoNotSpeakForTheHub(t *testing.T) {
	h := startHub(t, func(c *tunnel.Config) { c.ClusterDomain = "clusters.example" })
	h.access.grant("ada", "demo", "leat:admins")
	evil := http.HandlerFunc(speakForTheHub)
	h.agentWith(agenttest.Options{ID: "c-demo", Handler: evil, Services: evil}, "demo")
	for _, http2 := range []bool{false, true} {
		for _, path := range []string{"/api/v1/pods", "/api/error", "/api/hints", "/api/v1/namespaces/a/services/x/proxy/", "/services/shop/web:80/", "/api/v1/pods?watch=1"} {
			for _, atHub := range []bool{true, false} {
				name := fmt.Sprintf("http2=%t %s hub=%t", http2, path, atHub)
				hints := 0
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
					if left := evilIn(http.Header(header)); len(left) > 0 {
						t.Errorf("%s: got %v in an answer %d", name, left, code)
					}
					hints++
					return nil
				}})
				req := h.request(ctx, http.MethodGet, "ada", "demo", path, nil)
				if !atHub {
					var err error
					if req.URL, err = url.Parse("http://" + h.addr + path); err != nil {
						t.Fatal(err)
					}
					req.Host = "demo.clusters.example"
				}
				res, body := h.do(client(t, http2), req)
				if !strings.Contains(body, "script") || strings.HasSuffix(path, "hints") && hints == 0 {
					t.Fatalf("%s: got %s %q and %d hints, want the cluster's answer", name, res.Status, body, hints)
				}
				if left := append(evilIn(res.Header), evilIn(res.Trailer)...); len(left) > 0 {
					t.Errorf("%s: got %v, want them removed", name, left)
				}
				if res.Trailer.Get("X-Good") != "yes" {
					t.Errorf("%s: got trailer %v, want what is harmless", name, res.Trailer)
				}
				policy, resource := "sandbox; default-src 'none'", "same-origin"
				if !atHub {
					policy, resource = "script-src *", "cross-origin" // the cluster's own
				}
				if res.Header.Get("Content-Security-Policy") != policy || len(res.Header["Content-Security-Policy"]) != 1 ||
					res.Header.Get("Cross-Origin-Resource-Policy") != resource || res.Header.Get("X-Content-Type-Options") != "nosniff" ||
					(res.Header.Get("Content-Security-Policy-Report-Only") == "") != atHub {
					t.Errorf("%s: got %v", name, res.Header)
				}
			}
		}
	}
}

// TestSecUpgradedAnswersDoNotSpeakForTheHub does the same for the head of a 101.
func TestSecUpgradedAnswersDoNotSpeakForTheHub(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "demo")
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) {
		for _, name := range hostile {
			w.Header()[name] = []string{"evil"}
		}
		switching(func(s *stream) { _, _ = io.Copy(io.Discard, s) })(w, r)
	})
	c := h.upgraded("websocket", "ada", "demo")
	if left := evilIn(c.res.Header); len(left) > 0 {
		t.Errorf("got %v, want them removed", left)
	}
}

// TestSecRequestsCarryNoAddressOfTheirOwn sends headers from which servers and proxies behind the
// hub would read the caller's address or name.
func TestSecRequestsCarryNoAddressOfTheirOwn(t *testing.T) {
	h := startHub(t, nil)
	h.access.set("ada", "demo", &distributorv1.CheckAccessResponse{Allowed: true, User: "ada", Groups: []string{"leat:admins"}})
	h.agentWith(agenttest.Options{ID: "c-demo", Handler: http.HandlerFunc(seen), Services: http.HandlerFunc(seen)}, "demo")
	var lines strings.Builder
	for _, name := range []string{
		"X-Real-Ip", "X-Client-Ip", "X-Original-Forwarded-For", "X-Original-Url", "True-Client-Ip", "CF-Connecting-IP", "Forwarded", "X-Forwarded-For",
		"X-Envoy-External-Address", "X-Remote-User", "X-Auth-Request-User", "X-Rewrite-Url", "X-Http-Method-Override", "Client-Ip", "X-Cluster-Client-Ip",
		"x_real_ip", "X_Forwarded_For", "TRUE_CLIENT_IP", "x.real.ip", "Remote-User",
	} {
		fmt.Fprintf(&lines, "%s: evil\r\n", name)
	}
	for _, path := range []string{"/api/v1/pods", "/services/shop/web:80/"} {
		request := fmt.Sprintf("POST /clusters/demo%s HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n"+
			"Trailer: X-Real-Ip\r\n%s\r\n2\r\n{}\r\n0\r\nX-Real-Ip: evil\r\n\r\n", path, h.user("ada"), lines.String())
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, request)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		var header http.Header
		err = json.NewDecoder(res.Body).Decode(&header)
		_ = conn.Close()
		if left := evilIn(header); err != nil || res.StatusCode != http.StatusOK || len(left) > 0 {
			t.Errorf("%s: got %s, %v, %v, want none of them", path, res.Status, left, err)
		}
	}
}
