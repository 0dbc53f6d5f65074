// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
)

// received is the request that the API server got.
type received struct {
	Header, Trailer http.Header
	Host            string
}

// smuggled answers with everything that came.
func smuggled(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_ = json.NewEncoder(w).Encode(received{r.Header, r.Trailer, r.Host})
}

// startSmuggling starts a hub at which ada is a viewer with everything that can be impersonated.
func startSmuggling(t *testing.T) *hub {
	t.Helper()
	h := startHub(t, nil)
	h.agent("demo", smuggled)
	h.access.set("ada", "demo", &distributorv1.CheckAccessResponse{
		Allowed: true, User: "ada", Uid: "uid-ada", Groups: []string{"leat:viewers"},
		Extra: []*distributorv1.ExtraAttribute{{Key: "leat.dev/bindings", Values: []string{"look"}}},
	})
	return h
}

// checkReceived wants exactly what was decided, whatever the spelling of what came along.
func checkReceived(t *testing.T, name, body string) {
	t.Helper()
	var got received
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Errorf("%s: %v in %q", name, err, body)
		return
	}
	want := map[string][]string{
		"impersonate-user": {"ada"}, "impersonate-uid": {"uid-ada"}, "impersonate-group": {"leat:viewers"}, "impersonate-extra-leat.dev%2fbindings": {"look"},
	}
	for key, values := range got.Header {
		plain := strings.ReplaceAll(strings.ToLower(key), "_", "-")
		if expected, ok := want[plain]; ok && slices.Equal(values, expected) && !strings.Contains(key, "_") {
			delete(want, plain)
			continue
		}
		for _, reserved := range []string{"impersonate", "authorization", "proxy-authorization", "cookie", "x-remote-", "leat-", "x-forwarded", "forwarded"} {
			if strings.HasPrefix(plain, reserved) {
				t.Errorf("%s: the cluster got %s: %q", name, key, values)
			}
		}
	}
	if len(want) > 0 || len(got.Trailer) > 0 || got.Host != "kubernetes" {
		t.Errorf("%s: the cluster got %+v; missing is %v", name, got, want)
	}
}

// TestSmuggledHeadersOverHTTP1 sends by hand what a client of net/http would not.
func TestSmuggledHeadersOverHTTP1(t *testing.T) {
	h := startSmuggling(t)
	for name, lines := range map[string]string{
		"plain":               "Impersonate-User: root\r\nImpersonate-Group: system:masters\r\nImpersonate-Uid: 0\r\n",
		"twice":               "Impersonate-User: root\r\nImpersonate-User: admin\r\n",
		"another case":        "impersonate-user: root\r\nIMPERSONATE-GROUP: system:masters\r\niMPERSONATE-uID: 0\r\n",
		"underscores":         "Impersonate_User: root\r\nimpersonate_group: system:masters\r\nImpersonate_Extra_a: b\r\n",
		"listed":              "Connection: Impersonate-User, close\r\nImpersonate-User: root\r\n",
		"listed ours":         "Connection: Impersonate-Group\r\nConnection: impersonate-user, Impersonate-Uid, Authorization\r\n",
		"folded":              "X-A: b\r\n Impersonate-User: root\r\n",
		"folded by a tab":     "X-A: b\r\n\tImpersonate-User: root\r\n",
		"folded name":         "Impersonate-User:\r\n root\r\n",
		"a space in the name": "Impersonate-User : root\r\n",
		"a bare line feed":    "X-A: b\nImpersonate-User: root\r\n",
		"a bare return":       "X-A: b\rImpersonate-User: root\r\n",
		"a zero byte":         "Impersonate-User\x00: root\r\n",
		"an extra":            "Impersonate-Extra-scopes: all\r\nImpersonate-Extra-leat.dev%2Fbindings: root\r\n",
		"an escaped extra":    "Impersonate-Extra-leat.dev%2fbindings: root\r\nImpersonate-Extra-%6c%65at.dev%2fbindings: root\r\nImpersonate-Extra-%25%2F: x\r\n",
		"an escaped name":     "Impersonate-%55ser: root\r\nImpersonate-Use%72: root\r\n",
		"a later header":      "Impersonate-Something-New: root\r\n",
		"front proxy":         "X-Remote-User: root\r\nX_Remote_Group: system:masters\r\nX-Remote-Extra-A: b\r\n",
		"our own":             "Leat-Subject: user:root\r\nleat_error_origin: agent\r\nLeat-Upgrade: websocket\r\n",
		"credentials":         "Cookie: session=1\r\nProxy-Authorization: Basic eDp5\r\nAuthorization: Bearer second\r\n",
		"forwarded":           "X-Forwarded-User: root\r\nForwarded: for=root\r\nX-Forwarded-Host: x\r\n",
		"a pseudo header":     ":authority: other\r\n",
		"a trailer announced": "Trailer: Impersonate-User\r\n",
		"a token of a socket": "Sec-WebSocket-Protocol: v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.cm9vdA\r\n",
	} {
		request := "GET /clusters/demo/api/v1/pods HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer " + h.user("ada") + "\r\n" + lines + "\r\n"
		status, body := h.raw(t, request)
		if status != http.StatusBadRequest {
			checkReceived(t, name, body)
		} else if malformed := []string{"a space in the name", "a bare return", "a zero byte", "a pseudo header"}; !slices.Contains(malformed, name) {
			t.Errorf("%s: got %d %s, want it carried out as ada", name, status, body)
		}
		if strings.Contains(body, "cm9vdA") {
			t.Errorf("%s: the cluster got the token", name)
		}
	}
	chunked := "POST /clusters/demo/api/v1/pods HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer " + h.user("ada") + "\r\nTransfer-Encoding: chunked\r\n" +
		"Trailer: Impersonate-User\r\n\r\n2\r\n{}\r\n0\r\nImpersonate-User: root\r\nImpersonate_Group: system:masters\r\n\r\n"
	if status, body := h.raw(t, chunked); status != http.StatusBadRequest {
		checkReceived(t, "trailers", body)
	}
}

// raw sends bytes and reads one answer.
func (h *hub) raw(t *testing.T, request string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%v for %q", err, request)
	}
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(content)
}

// TestSmuggledHeadersOverHTTP2 writes the frames by hand.
func TestSmuggledHeadersOverHTTP2(t *testing.T) {
	h := startSmuggling(t)
	for name, test := range map[string]struct{ header, trailer [][2]string }{
		"plain":               {header: [][2]string{{"impersonate-user", "root"}, {"impersonate-group", "system:masters"}, {"impersonate-uid", "0"}}},
		"twice":               {header: [][2]string{{"impersonate-user", "root"}, {"impersonate-user", "admin"}}},
		"upper case":          {header: [][2]string{{"Impersonate-User", "root"}}},
		"underscores":         {header: [][2]string{{"impersonate_user", "root"}, {"x_remote_user", "root"}}},
		"an unknown pseudo":   {header: [][2]string{{":impersonate-user", "root"}}},
		"a late pseudo":       {header: [][2]string{{"x-a", "b"}, {":authority", "other"}}},
		"a second path":       {header: [][2]string{{":path", "/clusters/other/api"}}},
		"listed":              {header: [][2]string{{"connection", "impersonate-user"}, {"impersonate-user", "root"}}},
		"a line in a value":   {header: [][2]string{{"x-a", "b\r\nImpersonate-User: root"}}},
		"a line in a name":    {header: [][2]string{{"x-a: b\r\nimpersonate-user", "root"}}},
		"an escaped extra":    {header: [][2]string{{"impersonate-extra-leat.dev%2fbindings", "root"}, {"impersonate-extra-scopes", "all"}}},
		"cookies in pieces":   {header: [][2]string{{"cookie", "a=b"}, {"cookie", "c=d"}}},
		"trailers":            {trailer: [][2]string{{"impersonate-user", "root"}, {"impersonate_group", "system:masters"}}},
		"announced trailers":  {header: [][2]string{{"trailer", "Impersonate-User"}}, trailer: [][2]string{{"impersonate-user", "root"}}},
		"pseudos in trailers": {trailer: [][2]string{{":path", "/other"}}},
	} {
		body, ok := h.frames(t, test.header, test.trailer)
		if ok {
			checkReceived(t, name, body)
		}
		if wellFormed := []string{"plain", "twice", "underscores", "an escaped extra", "cookies in pieces", "announced trailers"}; !ok && slices.Contains(wellFormed, name) {
			t.Errorf("%s: got %s, want it carried out as ada", name, body)
		}
	}
}

// frames makes one request of frames. ok is false when the hub did not take it: it reset the
// stream, closed the connection, or answered 400.
func (h *hub) frames(t *testing.T, header, trailer [][2]string) (body string, ok bool) {
	t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.AllowIllegalWrites = true
	_ = framer.WriteSettings()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	write := func(fields [][2]string, end bool) {
		block.Reset()
		for _, field := range fields {
			_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
	}
	write(append([][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":authority", "hub"}, {":path", "/clusters/demo/api/v1/pods"}, {"authorization", "Bearer " + h.user("ada")},
	}, header...), false)
	_ = framer.WriteData(1, trailer == nil, []byte("{}"))
	if trailer != nil {
		write(trailer, true)
	}
	return readAnswer(t, framer)
}

func readAnswer(t *testing.T, framer *http2.Framer) (body string, ok bool) {
	t.Helper()
	var content bytes.Buffer
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return fmt.Sprint(err), false
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return "", false
		case *http2.MetaHeadersFrame:
			if status := f.PseudoValue("status"); status != "" && status != "200" {
				return status, false
			}
		case *http2.DataFrame:
			content.Write(f.Data())
			if f.StreamEnded() {
				return content.String(), true
			}
		}
		if head, isHead := frame.(*http2.MetaHeadersFrame); isHead && head.StreamEnded() {
			return content.String(), true
		}
	}
}
