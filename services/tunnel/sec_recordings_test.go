// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/tunnel"
)

// castID is the id of the recording in these tests.
const castID = "0af7651916cd43dd8448eb211c80319c"

// TestSecDeletedAdministratorsSeeNothing uses a valid token of a user who is no longer an
// administrator. A recording that is already being sent must break off.
func TestSecDeletedAdministratorsSeeNothing(t *testing.T) {
	dir := t.TempDir()
	header := `{"version":2,"timestamp":1700000000,"leat":{"id":"` + castID + `","subject":"user:ada","cluster":"demo"}}` + "\n"
	path := filepath.Join(dir, castID+".cast")
	const size = 256 << 20 // far more than the connection buffers; the file is sparse
	if err := errors.Join(os.WriteFile(path, []byte(header), 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
	h := startHub(t, func(cfg *tunnel.Config) {
		cfg.Record.Dir, cfg.AccessMaxAge, cfg.RecheckInterval = dir, time.Nanosecond, time.Nanosecond
	})
	h.access.grant("root", "", "leat:admins")
	root := h.asking(h.user("root", "leat:admins"))
	if _, err := root.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{}); err != nil {
		t.Fatalf("an administrator: %v", err)
	}
	stream, err := root.GetRecording(t.Context(), &tunnelv1.GetRecordingRequest{Id: castID})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if !stream.Receive() {
		t.Fatalf("an administrator: got no recording: %v", stream.Err())
	}
	h.access.revoke("root", "")
	read := len(stream.Msg().GetData())
	for stream.Receive() {
		read += len(stream.Msg().GetData())
	}
	if connect.CodeOf(stream.Err()) != connect.CodePermissionDenied || read >= size {
		t.Errorf("got %d bytes and %v, want the recording to break off", read, stream.Err())
	}
	refused := map[string]error{}
	_, refused["ListSessions"] = root.ListSessions(t.Context(), &tunnelv1.ListSessionsRequest{})
	_, refused["ListRecordings"] = root.ListRecordings(t.Context(), &tunnelv1.ListRecordingsRequest{})
	if again, err := root.GetRecording(t.Context(), &tunnelv1.GetRecordingRequest{Id: castID}); err == nil {
		again.Receive()
		refused["GetRecording"] = again.Err()
		_ = again.Close()
	} else {
		refused["GetRecording"] = err
	}
	for name, err := range refused {
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	type entry struct{ phase, verb, name, allowed, outcome any }
	got := map[entry]int{}
	await.True(t, "the outcome", func() bool { return h.audited("outcome", "revoked") == 1 })
	for _, r := range h.audit.records(t) {
		if r["resource"] != "recordings" || r["subject"] != "user:root" || r["source_address"] == "" || r["api_group"] != "leat.tunnel.v1" {
			t.Errorf("got %v, want who has seen recordings", r)
		}
		got[entry{r["phase"], r["verb"], r["name"], r["allowed"], r["outcome"]}]++
	}
	for _, want := range []entry{
		{"decision", "get", castID, true, nil},
		{"outcome", "get", castID, true, "revoked"},
		{"decision", "list", "", false, nil},
		{"decision", "get", castID, false, nil},
	} {
		if got[want] != 1 {
			t.Errorf("got %v, want one %+v", got, want)
		}
	}
}

// TestSecWhatIsNotRecordedIsNotSeen requires that recordings are not shown while the audit log
// cannot be written.
func TestSecWhatIsNotRecordedIsNotSeen(t *testing.T) {
	full := &disk{}
	full.full.Store(true)
	h := startHub(t, func(cfg *tunnel.Config) { cfg.Record.Dir, cfg.Audit.Writer = t.TempDir(), full })
	h.access.grant("root", "", "leat:admins")
	_, err := h.asking(h.user("root", "leat:admins")).ListRecordings(t.Context(), &tunnelv1.ListRecordingsRequest{})
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	full.full.Store(false)
}
