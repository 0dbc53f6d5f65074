// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/testkit/redistest"
	"github.com/leatdev/leat/services/tunnel"
)

// bearer sends a token with every request.
type bearer string

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(req)
}

func (h *hub) asking(token string) tunnelv1connect.TunnelServiceClient {
	return tunnelv1connect.NewTunnelServiceClient(&http.Client{Transport: bearer(token)}, "http://"+h.addr)
}

// TestEverybodyMayReadRecordingRules asks hubs that record in different ways, as a person without any
// binding.
func TestEverybodyMayReadRecordingRules(t *testing.T) {
	for name, tc := range map[string]struct {
		record tunnel.RecordConfig
		want   *tunnelv1.GetRecordingRulesResponse
	}{
		"nothing":             {want: &tunnelv1.GetRecordingRulesResponse{}},
		"output":              {tunnel.RecordConfig{Dir: t.TempDir()}, &tunnelv1.GetRecordingRulesResponse{Output: true}},
		"input, and required": {tunnel.RecordConfig{Dir: t.TempDir(), Input: true, Required: true}, &tunnelv1.GetRecordingRulesResponse{Output: true, Input: true, Required: true}},
	} {
		t.Run(name, func(t *testing.T) {
			h := startHub(t, func(cfg *tunnel.Config) {
				cfg.Record.Dir, cfg.Record.Input, cfg.Record.Required = tc.record.Dir, tc.record.Input, tc.record.Required
			})
			got, err := h.asking(h.user("eve")).GetRecordingRules(t.Context(), &tunnelv1.GetRecordingRulesRequest{})
			if err != nil || !proto.Equal(got, tc.want) {
				t.Errorf("got %v, %v, want %v", got, err, tc.want)
			}
			if _, err := h.asking("guessed").GetRecordingRules(t.Context(), &tunnelv1.GetRecordingRulesRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Errorf("without a token: got %v, want a refusal", err)
			}
		})
	}
}

// TestReplicasAnswerForAll asks one replica for what the other one has.
func TestReplicasAnswerForAll(t *testing.T) {
	redis := redistest.Start(t)
	dir := t.TempDir()
	const id, text = "0af7651916cd43dd8448eb211c80319c", `{"version":2,"timestamp":1700000000,"leat":{"id":"0af7651916cd43dd8448eb211c80319c","subject":"user:ada","cluster":"demo"}}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, id+".cast"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	first := &replica{address: redis.Addr(), redis: redis}
	join := first.join(t)
	first.hub = startHub(t, func(cfg *tunnel.Config) { join(cfg); cfg.Record.Dir = dir })
	first.settle()
	second := first.another()
	first.agent("demo", echo)
	second.access.grant("ada", "demo")
	second.access.grant("root", "", "leat:admins")
	second.reaches("ada", "demo")

	admin := second.asking(second.user("root", "leat:admins"))
	sessions, err := admin.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{})
	if err != nil || len(sessions.GetSessions()) != 1 || sessions.GetSessions()[0].GetReplica() == "" || len(sessions.GetUnanswered()) != 0 {
		t.Errorf("sessions: got %v, %v, want the one of the other replica", sessions, err)
	}
	if own, err := admin.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{Local: true}); err != nil || len(own.GetSessions()) != 0 {
		t.Errorf("own sessions: got %v, %v, want none", own, err)
	}
	recordings, err := admin.ListRecordings(t.Context(), &tunnelv1.ListRecordingsRequest{Cluster: "demo"})
	if err != nil || len(recordings.GetRecordings()) != 1 || recordings.GetRecordings()[0].GetId() != id {
		t.Errorf("recordings: got %v, %v, want the one of the other replica", recordings, err)
	}
	if stat, err := os.Stat(filepath.Join(dir, id+".cast")); err != nil || !recordings.GetRecordings()[0].GetWrittenAt().AsTime().Equal(stat.ModTime()) {
		t.Errorf("got %v, want the time of the file's last byte", recordings)
	}
	get := func(c tunnelv1connect.TunnelServiceClient, id string) (string, error) {
		stream, err := c.GetRecording(t.Context(), &tunnelv1.GetRecordingRequest{Id: id})
		if err != nil {
			return "", err
		}
		defer func() { _ = stream.Close() }()
		var all strings.Builder
		for stream.Receive() {
			all.Write(stream.Msg().GetData())
		}
		return all.String(), stream.Err()
	}
	if got, err := get(admin, id); err != nil || got != text {
		t.Errorf("got %q, %v, want the recording", got, err)
	}
	for id, want := range map[string]connect.Code{"none": connect.CodeNotFound, "../x": connect.CodeInvalidArgument} {
		if _, err := get(admin, id); connect.CodeOf(err) != want {
			t.Errorf("%s: got %v, want %v", id, err, want)
		}
	}
	viewer := second.asking(second.user("ada", "leat:viewers"))
	if _, err := get(viewer, id); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("viewer: got %v, want a refusal", err)
	}
	if _, err := viewer.ListRecordings(t.Context(), &tunnelv1.ListRecordingsRequest{Local: true}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("viewer: got %v, want a refusal", err)
	}

	first.peers.kill()
	sessions, err = admin.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{})
	if err != nil || len(sessions.GetUnanswered()) != 1 {
		t.Errorf("one replica gone: got %v, %v, want it named", sessions, err)
	}
	if _, err := get(admin, id); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("one replica gone: got %v, want Unavailable", err)
	}
}
