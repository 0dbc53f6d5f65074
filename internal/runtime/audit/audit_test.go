// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/runtime/audit"
)

func TestTrail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		trail := audit.Begin(audit.NewLog(&out), audit.Request{
			ID: "1", TraceID: "2", Subject: "user:ada", SubjectUID: "u", TokenID: "t", Cluster: "demo", Method: "GET", URI: "/api?x=1\n",
			SourceAddress: "127.0.0.1:1", UserAgent: "kubectl",
			Attributes: audit.Attributes{Verb: "create", APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Subresource: "scale", Namespace: "n", Name: "d"},
		})
		if err := trail.Decide(t.Context(), audit.Decision{Allowed: true, User: "ada", UID: "iu", Groups: []string{"leat:viewers"}, Extra: map[string][]string{"leat.dev/bindings": {"look"}}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(1500 * time.Millisecond)
		err := trail.End(t.Context(), audit.Result{
			Connection: "c", Status: 200, BytesIn: 1, BytesOut: 2, Outcome: audit.OutcomeCompleted,
		})
		if err != nil {
			t.Fatal(err)
		}
		common := map[string]any{
			"level": "INFO", "msg": "audit", "id": "1", "trace_id": "2", "subject": "user:ada", "subject_uid": "u", "token_id": "t",
			"cluster": "demo", "method": "GET", "uri": "/api?x=1\n", "source_address": "127.0.0.1:1", "user_agent": "kubectl",
			"verb": "create", "api_group": "apps", "api_version": "v1", "resource": "deployments", "subresource": "scale",
			"namespace": "n", "name": "d",
			"allowed": true, "reason": "", "impersonated_user": "ada", "impersonated_groups": []any{"leat:viewers"},
			"impersonated_uid": "iu", "impersonated_extra": map[string]any{"leat.dev/bindings": []any{"look"}},
		}
		decision := map[string]any{"phase": "decision", "time": "2000-01-01T00:00:00Z"}
		outcome := map[string]any{
			"phase": "outcome", "time": "2000-01-01T00:00:01.5Z", "connection": "c", "status": 200.0, "bytes_in": 1.0,
			"bytes_out": 2.0, "duration_seconds": 1.5, "outcome": "completed",
		}
		for key, value := range common {
			decision[key], outcome[key] = value, value
		}
		var got []map[string]any
		for line := range bytes.Lines(out.Bytes()) {
			var record map[string]any
			if err := json.Unmarshal(line, &record); err != nil {
				t.Fatal(err)
			}
			instant, err := time.Parse(time.RFC3339Nano, fmt.Sprint(record["time"]))
			if err != nil {
				t.Fatal(err)
			}
			record["time"] = instant.UTC().Format(time.RFC3339Nano)
			got = append(got, record)
		}
		if diff := cmp.Diff([]map[string]any{decision, outcome}, got); diff != "" {
			t.Errorf("records differ (-want +got):\n%s", diff)
		}
	})
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestFailureToWriteIsTold(t *testing.T) {
	trail := audit.Begin(audit.NewLog(full{}), audit.Request{})
	if err := trail.Decide(t.Context(), audit.Decision{}); err == nil {
		t.Error("a record that was not written is no error")
	}
}
