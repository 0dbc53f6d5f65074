// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/reason"
)

// TestEncoderWritesWhatSlogWrites compares the two, for values that need care and for others.
func TestEncoderWritesWhatSlogWrites(t *testing.T) {
	t.Parallel()
	odd := "a \"quoted\" \\ <tag> & é \x00 \xff \u2028 \n"
	request := Request{
		ID: "id", TraceID: "trace", Subject: "user:ada", SubjectUID: odd, TokenID: "token", Claims: map[string]string{"run": "1", odd: odd}, Cluster: "edge", Method: "GET", URI: "/api?a=b&c=<d>",
		Attributes:    Attributes{Verb: "get", APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Subresource: "scale", Namespace: "shop", Name: odd},
		SourceAddress: "[::1]:4711", UserAgent: odd,
	}
	for name, record := range map[string]Record{
		"empty":    {Time: time.Unix(0, 0)},
		"decision": {Request: request, Phase: PhaseDecision, Time: time.Date(2026, 11, 21, 1, 2, 3, 4000, time.FixedZone("", 3600)), Allowed: true},
		"outcome": {
			Request: request, Phase: PhaseOutcome, Time: time.Unix(1, 1), Reason: reason.AgentOffline, ImpersonatedUser: "ada", ImpersonatedUID: "1",
			ImpersonatedGroups: []string{"leat:admins", odd}, ImpersonatedExtra: map[string][]string{"b": {"1", odd}, "a": nil, odd: {}},
			Connection: "c", Status: 200, BytesIn: 1 << 53, BytesOut: -1, Duration: 123456789 * time.Nanosecond, Outcome: OutcomeCompleted,
		},
		"change": {
			Request: request, Phase: PhaseChange, Time: time.Unix(3, 1), Allowed: true,
			Change: &Change{
				RequestID: "r", Kind: "Service", ObjectUID: odd, Credential: "api.1", TokenLimit: odd, StatedReason: odd, Omitted: 3,
				Fields: []FieldChange{
					{Path: odd, Old: json.RawMessage(`"<a>"`), New: json.RawMessage(`{}`)}, {Path: "p", Secret: true, Effect: "set"},
				},
			},
		},
		"failed change": {Request: request, Phase: PhaseOutcome, Time: time.Unix(3, 1), Outcome: OutcomeFailed, Change: &Change{}},
		"summary":       {Request: request, Phase: PhaseSummary, Time: time.Unix(2, 1), Count: 7, Since: time.Unix(1, 5000)},
		"fast":          {Time: time.Unix(0, 1), Phase: PhaseOutcome, Duration: time.Nanosecond, ImpersonatedGroups: []string{}, ImpersonatedExtra: map[string][]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			line := appendLine(nil, &record)
			if !bytes.HasSuffix(line, []byte("}\n")) || bytes.IndexByte(line, '\n') != len(line)-1 {
				t.Errorf("got %q, want one line", line)
			}
			if diff := cmp.Diff(bySlog(t, record), decoded(t, line)); diff != "" {
				t.Errorf("record (-slog +ours):\n%s", diff)
			}
		})
	}
}

// bySlog is a record as slog's handler writes it.
func bySlog(t *testing.T, record Record) map[string]any {
	t.Helper()
	var b bytes.Buffer
	entry := slog.NewRecord(record.Time, slog.LevelInfo, "audit", 0)
	entry.AddAttrs(record.Attrs()...)
	if err := slog.NewJSONHandler(&b, nil).Handle(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	return decoded(t, b.Bytes())
}

func decoded(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		t.Fatalf("decode %q: %v", line, err)
	}
	return fields
}
