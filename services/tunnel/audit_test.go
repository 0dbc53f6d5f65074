// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moby/spdystream/spdy"

	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
	"github.com/leatdev/leat/services/tunnel"
)

// TestF38TraceIDLeadsToTheAuditRecord goes from what kubectl prints to who did what, also when the
// caller chose the trace.
func TestF38TraceIDLeadsToTheAuditRecord(t *testing.T) {
	h := startHub(t, nil)
	h.access.grant("ada", "offline")
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	pattern := regexp.MustCompile(`origin: (\w+), trace id: ([0-9a-f]{32})`)
	ids := map[any]bool{}
	for _, tc := range []struct{ user, cluster, traceparent, origin, phase string }{
		{user: "eve", cluster: "demo", origin: "hub", phase: "decision"},
		{user: "ada", cluster: "offline", origin: "tunnel", phase: "outcome"},
		{user: "ada", cluster: "offline", traceparent: traceparent, origin: "tunnel", phase: "outcome"},
		{user: "ada", cluster: "offline", traceparent: traceparent, origin: "tunnel", phase: "outcome"},
	} {
		req := h.request(t.Context(), http.MethodGet, tc.user, tc.cluster, "/api/v1/namespaces/n/pods/p/log", nil)
		if tc.traceparent != "" {
			req.Header.Set("Traceparent", tc.traceparent)
		}
		_, body := h.do(client(t, false), req)
		said := pattern.FindStringSubmatch(body)
		if said == nil || said[1] != tc.origin {
			t.Fatalf("got %s, want an error of the %s with a trace id", body, tc.origin)
		}
		if tc.traceparent != "" && !strings.Contains(tc.traceparent, said[2]) {
			t.Errorf("got trace id %s, want the caller's", said[2])
		}
		found := false
		await.True(t, "the audit record", func() bool {
			for _, record := range h.audit.records(t) {
				if record["trace_id"] != said[2] || record["phase"] != tc.phase || ids[record["id"]] {
					continue
				}
				found, ids[record["id"]] = true, true
				if (record["id"] == said[2]) != (tc.traceparent == "") {
					t.Errorf("got id %v for trace %s, want another one when the caller chose the trace, and only then", record["id"], said[2])
				}
				if record["verb"] != "get" || record["resource"] != "pods" || record["subresource"] != "log" ||
					record["namespace"] != "n" || record["name"] != "p" || record["subject"] != "user:"+tc.user {
					t.Errorf("got %v, want who asked for what", record)
				}
				return true
			}
			return false
		})
		if !found {
			t.Errorf("no record for trace id %s", said[2])
		}
	}
}

// disk is a writer that may be full.
type disk struct {
	auditLog

	full atomic.Bool
}

func (d *disk) Write(p []byte) (int, error) {
	if d.full.Load() {
		return 0, errors.New("no space left on device")
	}
	return d.auditLog.Write(p)
}

func TestFullAuditDiskRefusesRequestsAndRecovers(t *testing.T) {
	log := &disk{}
	h := startHub(t, func(cfg *tunnel.Config) { cfg.Audit.Writer = log })
	h.access.grant("ada", "demo")
	var served atomic.Int64
	h.agent("demo", func(w http.ResponseWriter, r *http.Request) { served.Add(1); echo(w, r) })
	c := client(t, false)
	log.full.Store(true)
	if status, body := h.get(c, "ada", "demo", "/api"); status != http.StatusServiceUnavailable || !strings.Contains(body, "audit log") {
		t.Errorf("got %d %s, want 503 with the reason", status, body)
	}
	if served.Load() != 0 {
		t.Error("a request was carried out whose decision is not on record")
	}
	log.full.Store(false)
	if status, body := h.get(c, "ada", "demo", "/api"); status != http.StatusOK {
		t.Errorf("got %d %s, want 200 when there is room again", status, body)
	}
}

func TestFailingOpenCarriesOut(t *testing.T) {
	log := &disk{}
	log.full.Store(true)
	h := startHub(t, func(cfg *tunnel.Config) { cfg.Audit.Writer, cfg.Audit.FailClosed = log, false })
	h.access.grant("ada", "demo")
	h.agent("demo", echo)
	if status, body := h.get(client(t, false), "ada", "demo", "/api"); status != http.StatusOK {
		t.Errorf("got %d %s, want 200", status, body)
	}
	log.full.Store(false) // kept records are written at the end
}

func TestAuditConfigIsChecked(t *testing.T) {
	t.Parallel()
	for text, args := range map[string][]string{
		"got disk, want stdout": {"--tunnel-audit-output=disk"},
		"twice":                 {"--tunnel-audit-output=stdout,stdout"},
		"want none alone":       {"--tunnel-audit-output=stdout,none"},
		"want a file":           {"--tunnel-audit-output=file"},
		"and only then":         {"--tunnel-audit-file=x.log"},
		"record-dir":            {"--tunnel-record-required"},
	} {
		var cfg tunnel.Config
		set := config.New("tunnel", func(string) (string, bool) { return "", false })
		cfg.Bind(set)
		err := set.Parse(append(args, "--distributor-url=http://d", "--service-secret="+hubkeys.Secret(identity.ServiceTunnel), "--service-keys="+strings.Join(hubkeys.List(), ",")))
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: got %v, want an error with %q", args, err, text)
		}
	}
}

// TestSessionIsRecorded records a session over SPDY from end to end.
func TestSessionIsRecorded(t *testing.T) {
	dir := t.TempDir()
	h := startHub(t, func(cfg *tunnel.Config) { cfg.Record.Dir, cfg.Record.Required = dir, true })
	h.access.grant("ada", "demo")
	h.agent("demo", switching(func(s *stream) {
		framer, err := spdy.NewFramer(s, s)
		if err != nil {
			t.Error(err)
			return
		}
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			syn, ok := frame.(*spdy.SynStreamFrame)
			if !ok || syn.Headers.Get("Streamtype") != "stdout" {
				continue
			}
			if err := framer.WriteFrame(&spdy.DataFrame{StreamId: syn.StreamId, Data: []byte("seen\r\n")}); err != nil {
				t.Error(err)
			}
			return
		}
	}))
	c := h.upgrade("SPDY/3.1", "ada", "demo", "/api/v1/namespaces/n/pods/p/exec?command=sh&tty=true&stdout=true", "")
	if c.res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %s, want 101", c.res.Status)
	}
	framer, err := spdy.NewFramer(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range []string{"error", "stdout"} {
		if err := framer.WriteFrame(&spdy.SynStreamFrame{StreamId: spdy.StreamId(2*i + 1), Headers: http.Header{"Streamtype": {kind}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := io.ReadAll(c); err != nil || !bytes.HasSuffix(got, []byte("seen\r\n")) {
		t.Errorf("got %q, %v, want the session as it is without a recording", got, err)
	}
	_ = c.Conn.(*net.TCPConn).CloseWrite()
	id, _ := h.outcome()["id"].(string)
	path := filepath.Join(dir, id+".cast")
	var text []byte
	await.True(t, "the recording", func() bool { text, _ = os.ReadFile(path); return bytes.Contains(text, []byte("seen")) })
	if !bytes.HasPrefix(text, []byte(`{"version":2,`)) || !bytes.Contains(text, []byte(`"subject":"user:ada","cluster":"demo","namespace":"n","pod":"p"`)) {
		t.Errorf("got %s, want who was where", text)
	}
}
