// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/audit"
)

// TestSecRefusedRequestsDoNotFillTheLog has one person make many refused requests while another one
// works. The summary must count every refused request of the first, and every request of the other
// must have its records.
func TestSecRefusedRequestsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &memory{}
		queue, _ := start(t, audit.QueueParams{Output: out})
		damper := audit.NewDamper(queue, slog.New(slog.DiscardHandler))
		decide := func(subject, id string, allowed bool) {
			t.Helper()
			trail := audit.Begin(damper, audit.Request{ID: id, Subject: subject})
			if err := trail.Decide(t.Context(), audit.Decision{Allowed: allowed, Reason: reason.AccessDenied}); err != nil {
				t.Fatal(err)
			}
		}
		const refused = 5000
		for i := range refused {
			decide("user:eve", fmt.Sprint("refused-", i), false)
			if i%100 == 0 {
				decide("user:eve", fmt.Sprint("allowed-", i), true)
				decide("user:ada", fmt.Sprint("ada-", i), i%200 == 0)
			}
		}
		began := time.Now()
		<-time.After(2 * time.Minute)
		decide("user:eve", "later", false)
		damper.Close() // writes nothing: no refusal was only counted
		<-time.After(time.Second)
		synctest.Wait()
		var own, allowed, ada int
		var summaries []*audit.Record
		for _, r := range out.all() {
			switch {
			case r.Phase == audit.PhaseSummary:
				summaries = append(summaries, r)
			case r.Subject == "user:ada":
				ada++
			case r.Allowed:
				allowed++
			default:
				own++
			}
		}
		if allowed != refused/100 || ada != refused/100 {
			t.Errorf("got %d decisions that let eve's requests pass and %d of ada's, want %d each", allowed, ada, refused/100)
		}
		if own > 100 {
			t.Errorf("got %d records of refused requests, want at most 100", own)
		}
		if len(summaries) != 1 || summaries[0].Count != int64(refused-(own-1)) || summaries[0].Subject != "user:eve" ||
			summaries[0].Reason != reason.AccessDenied || !summaries[0].Since.Equal(began) || summaries[0].Time.Sub(began) != time.Minute {
			t.Errorf("got summaries %+v, want one after a minute of the other %d", summaries, refused-(own-1))
		}
	})
}

// TestSecSummariesAreWrittenAtTheEnd closes the damper within the minute.
func TestSecSummariesAreWrittenAtTheEnd(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	damper := audit.NewDamper(audit.NewLog(&out), slog.New(slog.DiscardHandler))
	for range 1000 {
		if err := audit.Begin(damper, audit.Request{Subject: "user:eve"}).Decide(t.Context(), audit.Decision{}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Count(out.String(), "\n")
	damper.Close()
	if want := fmt.Sprintf(`"count":%d,"since":"`, 1000-lines); lines > 100 || !strings.Contains(out.String(), want) {
		t.Errorf("got %d lines and %q, want at most 100 and a summary with %s", lines, out.String()[max(0, out.Len()-500):], want)
	}
}

// TestSecRecordsAreBounded fills every field that a caller chooses with the text that takes the
// most bytes in the log.
func TestSecRecordsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]string{"letters": "a", "escaped": "&\"", "control": "\x01", "not UTF-8": "\xff", "two bytes": "é"} {
		long := strings.Repeat(c, 60_000/len(c))
		var out bytes.Buffer
		trail := audit.Begin(audit.NewLog(&out), audit.Request{
			ID: "1", Subject: "user:eve", Cluster: long, Method: long, URI: long, UserAgent: long, SourceAddress: long,
			Attributes: audit.Attributes{Verb: long, APIGroup: long, APIVersion: long, Resource: long, Subresource: long, Namespace: long, Name: long},
		})
		if err := trail.Decide(t.Context(), audit.Decision{}); err != nil {
			t.Fatal(err)
		}
		if out.Len() > 14<<10 {
			t.Errorf("%s: got a record of %d bytes, want at most 14 KiB", name, out.Len())
		}
		if want := fmt.Sprintf("(cut: %d bytes, sha256 %x)", len(long), sha256.Sum256([]byte(long))); strings.Count(out.String(), want) != 12 {
			t.Errorf("%s: got %s, want every field to end in %s", name, out.String(), want)
		}
	}
	var out bytes.Buffer
	short := "/api/v1/namespaces/a/pods?labelSelector=" + strings.Repeat("a", 1900)
	if err := audit.Begin(audit.NewLog(&out), audit.Request{URI: short}).Decide(t.Context(), audit.Decision{}); err != nil || !strings.Contains(out.String(), short+`"`) {
		t.Errorf("got %s, %v, want an ordinary URI whole", out.String(), err)
	}
}
