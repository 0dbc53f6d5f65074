// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package recording_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/spdystream/spdy"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/services/tunnel/internal/recording"
)

const execPath = "/api/v1/namespaces/n/pods/p/exec"

func begin(tb testing.TB, change func(*recording.Params)) (r *recording.Recording, path string) {
	tb.Helper()
	params := recording.Params{Dir: tb.TempDir(), MaxSize: 1 << 20, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&params)
	}
	store, err := recording.NewStore(params)
	if err != nil {
		tb.Fatal(err)
	}
	info, ok := recording.Describe("POST", execPath, "command=sh&command=-l&tty=true&container=c")
	if !ok {
		tb.Fatal("a session with a terminal is not recorded")
	}
	info.ID, info.Subject, info.Cluster = "1", "user:ada", "demo"
	r, err = store.Begin(tb.Context(), info)
	if err != nil {
		tb.Fatal(err)
	}
	return r, filepath.Join(params.Dir, "1.cast")
}

// events returns the file's header, and each event as kind and text.
func events(tb testing.TB, path string) (header map[string]any, got []string) {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	last := 0.0
	for line := range bytes.Lines(text) {
		if header == nil {
			if err := json.Unmarshal(line, &header); err != nil {
				tb.Fatalf("header %q: %v", line, err)
			}
			continue
		}
		var event []any
		if err := json.Unmarshal(line, &event); err != nil || len(event) != 3 {
			tb.Fatalf("event %q: %v", line, err)
		}
		at, _ := event[0].(float64)
		if at < last {
			tb.Errorf("event %q is earlier than the one before", line)
		}
		last = at
		got = append(got, fmt.Sprint(event[1], " ", event[2]))
	}
	return header, got
}

// frame is a WebSocket frame. The first byte holds FIN and the opcode.
func frame(first byte, mask []byte, payload string) []byte {
	out, bit := []byte{first}, byte(0)
	if mask != nil {
		bit = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		out = append(out, bit|byte(n))
	case n < 1<<16:
		out = binary.BigEndian.AppendUint16(append(out, bit|126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, bit|127), uint64(n))
	}
	if mask == nil {
		return append(out, payload...)
	}
	out = append(out, mask...)
	for i := range len(payload) {
		out = append(out, payload[i]^mask[i%4])
	}
	return out
}

const binaryMessage = 0x82

// session holds the bytes of both sides, in one protocol.
type session struct {
	protocol        string
	header          http.Header
	caller, cluster []byte
}

func webSocketSession(version string) session {
	mask := []byte{1, 2, 3, 4}
	long := strings.Repeat("y", 70000)
	return session{
		protocol: "websocket", header: http.Header{"Sec-Websocket-Protocol": {version}},
		caller: slicesConcat(
			frame(binaryMessage, mask, "\x04"+`{"Width":120,"Height":40}`+"\n"), frame(binaryMessage, mask, "\x00secret\r"),
			frame(0x89, mask, "ping"), frame(binaryMessage, mask, "\xff\x00"),
		),
		cluster: slicesConcat(
			frame(binaryMessage, nil, "\x01"), frame(binaryMessage, nil, "\x01hello "),
			frame(0x02, nil, "\x01w"), frame(0x8a, nil, "pong"), frame(0x00, nil, "\xc3"), frame(0x80, nil, "\xb6rld"),
			frame(binaryMessage, nil, "\x02"+strings.Repeat("e", 300)), frame(binaryMessage, nil, "\x01"+long),
			frame(binaryMessage, nil, "\x03{}"), frame(0x88, nil, "\x03\xe8"),
		),
	}
}

func spdySession(tb testing.TB) session {
	tb.Helper()
	var caller, cluster bytes.Buffer
	up, err := spdy.NewFramer(&caller, nil)
	if err != nil {
		tb.Fatal(err)
	}
	down, err := spdy.NewFramer(&cluster, nil)
	if err != nil {
		tb.Fatal(err)
	}
	write := func(framer *spdy.Framer, f spdy.Frame) {
		if err := framer.WriteFrame(f); err != nil {
			tb.Fatal(err)
		}
	}
	for i, kind := range []string{"error", "stdin", "stdout", "resize"} {
		id := spdy.StreamId(2*i + 1)
		write(up, &spdy.SynStreamFrame{StreamId: id, Headers: http.Header{"Streamtype": {kind}}})
		write(down, &spdy.SynReplyFrame{StreamId: id, Headers: http.Header{}})
	}
	write(up, &spdy.PingFrame{Id: 1})
	write(up, &spdy.DataFrame{StreamId: 7, Data: []byte(`{"Width":120,"Height":40}`)})
	write(up, &spdy.DataFrame{StreamId: 3, Data: []byte("secret\r")})
	write(down, &spdy.DataFrame{StreamId: 5, Data: []byte("hello w\xc3")})
	write(down, &spdy.DataFrame{StreamId: 5, Data: []byte("\xb6rld")})
	write(down, &spdy.DataFrame{StreamId: 5, Data: []byte(strings.Repeat("e", 300) + strings.Repeat("y", 70000))})
	write(down, &spdy.DataFrame{StreamId: 1, Data: []byte("{}")})
	return session{protocol: "SPDY/3.1", header: http.Header{}, caller: caller.Bytes(), cluster: cluster.Bytes()}
}

func slicesConcat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// feed hands the bytes over in pieces.
func feed(tb testing.TB, tap func([]byte) error, p []byte, size int) {
	tb.Helper()
	for len(p) > 0 {
		n := min(size, len(p))
		piece := bytes.Clone(p[:n])
		if err := tap(piece); err != nil {
			tb.Fatal(err)
		}
		clear(piece) // it is lent
		p = p[n:]
	}
}

func TestSessionsInAllProtocols(t *testing.T) {
	t.Parallel()
	sessions := map[string]session{
		"v4": webSocketSession("v4.channel.k8s.io"), "v5": webSocketSession("v5.channel.k8s.io"), "SPDY": spdySession(t),
	}
	for name, s := range sessions {
		for _, size := range []int{1 << 20, 4096, 1000} {
			for _, input := range []bool{false, true} {
				r, path := begin(t, func(p *recording.Params) { p.Input, p.Required, p.MaxSize = input, true, 16<<20 })
				r.Upgraded(s.protocol, s.header)
				feed(t, r.FromCaller, s.caller, size)
				feed(t, r.FromCluster, s.cluster, size)
				r.End(audit.OutcomeCompleted)
				header, got := events(t, path)
				if header["version"] != 2.0 || header["command"] != "sh -l" || header["title"] != "user:ada at demo: n/p" {
					t.Errorf("%s: got header %v", name, header)
				}
				var output, rest strings.Builder
				for _, event := range got {
					if text, ok := strings.CutPrefix(event, "o "); ok {
						output.WriteString(text)
					} else {
						rest.WriteString(event + ";")
					}
				}
				if want := "hello wörld" + strings.Repeat("e", 300) + strings.Repeat("y", 70000); output.String() != want {
					t.Errorf("%s in pieces of %d: got %d bytes of output, want %d", name, size, output.Len(), len(want))
				}
				want := "r 120x40;"
				if input {
					want += "i secret\r;"
				}
				if rest.String() != want {
					t.Errorf("%s in pieces of %d: got %q, want %q", name, size, rest.String(), want)
				}
			}
		}
	}
}

func TestWhatIsRecorded(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]bool{
		execPath + "?tty=true": true, execPath + "?tty=1": true, execPath + "?tty": true,
		execPath + "?tty=false": false, execPath + "?tty=0": false, execPath + "?command=sh": false,
		"/api/v1/namespaces/n/pods/p/attach?tty=true":      true,
		"/api/v1/namespaces/n/pods/p/portforward?tty=true": false,
		"/api/v1/namespaces/n/pods/p%2Fexec?tty=true":      true,
		"/apis/x/v1/namespaces/n/pods/p/exec?tty=true":     false,
	} {
		path, query, _ := strings.Cut(request, "?")
		if _, got := recording.Describe("GET", path, query); got != want {
			t.Errorf("%s: got %v, want %v", request, got, want)
		}
	}
}

func TestRecordingThatBreaksOffLeavesTheSession(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{false, true} {
		r, path := begin(t, func(p *recording.Params) { p.MaxSize, p.Required = 1000, required })
		r.Upgraded("websocket", http.Header{"Sec-Websocket-Protocol": {"v5.channel.k8s.io"}})
		var err error
		for range 100 {
			err = r.FromCluster(frame(binaryMessage, nil, "\x01"+strings.Repeat("x", 100)))
		}
		if (err != nil) != required {
			t.Errorf("required %v: got %v", required, err)
		}
		r.End(audit.OutcomeCompleted)
		if info, err := os.Stat(path); err != nil || info.Size() > 1000 {
			t.Errorf("got %v, %v, want a file of 1000 bytes at most", info, err)
		}
	}
}

func TestProtocolThatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{false, true} {
		for _, header := range []http.Header{
			{"Sec-Websocket-Protocol": {"base64.channel.k8s.io"}},
			{"Sec-Websocket-Protocol": {"v5.channel.k8s.io"}, "Sec-Websocket-Extensions": {"permessage-deflate"}},
		} {
			r, _ := begin(t, func(p *recording.Params) { p.Required = required })
			r.Upgraded("websocket", header)
			if err := r.FromCaller([]byte("x")); (err != nil) != required {
				t.Errorf("required %v: got %v", required, err)
			}
			r.End(audit.OutcomeCompleted)
		}
	}
}

func TestFolderThatIsGone(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "recordings")
		store, err := recording.NewStore(recording.Params{Dir: dir, Required: required, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		r, err := store.Begin(t.Context(), recording.Info{ID: "1"})
		if r != nil || (err != nil) != required {
			t.Errorf("required %v: got %v, %v", required, r, err)
		}
		if _, err := store.Begin(t.Context(), recording.Info{ID: "../1"}); err == nil {
			t.Error("got no error for an id that leaves the folder")
		}
	}
}

// FuzzRecording feeds any bytes in any pieces: nothing panics, and the file stays within its bound.
func FuzzRecording(f *testing.F) {
	ws, sp := webSocketSession("v4.channel.k8s.io"), spdySession(f)
	f.Add(false, ws.caller, ws.cluster[:200], 7)
	f.Add(true, sp.caller, sp.cluster[:200], 7)
	f.Add(false, []byte{0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, []byte{0x82, 0}, 1)
	f.Add(true, []byte{0x80, 3, 0, 1, 0, 0, 0, 0, 0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff}, []byte{0, 0, 0, 5, 0, 0, 0, 0}, 3)
	f.Fuzz(func(t *testing.T, overSPDY bool, caller, cluster []byte, size int) {
		r, path := begin(t, func(p *recording.Params) { p.MaxSize, p.Input = 10_000, true })
		if overSPDY {
			r.Upgraded("SPDY/3.1", nil)
		} else {
			r.Upgraded("websocket", http.Header{"Sec-Websocket-Protocol": {"v4.channel.k8s.io"}})
		}
		size = max(1, size%1000)
		feed(t, r.FromCaller, caller, size)
		feed(t, r.FromCluster, cluster, size)
		r.End(audit.OutcomeCompleted)
		events(t, path)
		if info, err := os.Stat(path); err != nil || info.Size() > 10_000 {
			t.Errorf("got %v, %v, want a file within its bound", info, err)
		}
	})
}
