// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/testkit/await"
)

// content returns what the service of the real cluster has there.
func (u *upgrade) content(t *testing.T) string {
	t.Helper()
	body, err := contentOf(t, u.cluster)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func contentOf(t *testing.T, cluster *localkube.ControlPlane) (string, error) {
	t.Helper()
	return fetch(t.Context(), cluster.HTTPClient(), cluster.Host()+"/api/v1/namespaces/"+ownSpace+"/configmaps/serial", "")
}

// runbook requires that the page to which an alert links has a section for it that says what to do.
func runbook(t *testing.T, alert firing) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### "+alert.Labels["alertname"]+"\n")
	section, _, _ = strings.Cut(section, "\n### ")
	if !strings.Contains(section, "**Do:**") || !strings.HasSuffix(alert.Annotations["runbook_url"], "#"+strings.ToLower(alert.Labels["alertname"])) {
		t.Errorf("%s links to %s, whose section is %q", alert.Labels["alertname"], alert.Annotations["runbook_url"], section)
	}
}

// figures are how long the parts of a disaster took.
type figures struct {
	disaster

	seen, lasts, fired, arrived, recovered, quiet time.Duration
}

// strikes has a disaster happen, waits until its alert fires, and repairs it.
func (u *upgrade) strikes(t *testing.T, p *prometheus, d disaster) figures {
	t.Helper()
	f := figures{disaster: d, lasts: p.lasts(t, d.alert)}
	before := u.content(t)
	began := time.Now()
	d.strike(t, u)
	if d.delivers {
		u.arrive(t)
		f.arrived = time.Since(began)
	}
	alert := p.awaitFiring(t, d.alert)
	f.seen, f.fired = alert.ActiveAt.Sub(began), time.Since(began)
	runbook(t, alert)
	if !d.delivers {
		u.commitWith(t, u.repos[0], d.files)
	}
	if d.meanwhile != nil {
		d.meanwhile(t, u)
	}
	if !d.delivers {
		if after := u.content(t); after != before {
			t.Errorf("the cluster has %s, want what it had: %s", after, before)
		}
	}
	repaired := time.Now()
	d.repair(t, u)
	u.arrive(t)
	f.recovered = time.Since(repaired)
	var firing []string
	for _, alert := range p.alerts(t) {
		firing = append(firing, alert.Labels["alertname"])
	}
	p.awaitQuiet(t)
	f.quiet = time.Since(repaired)
	t.Logf("%s: %s, its condition after %s, fired here after %s; after the repair a commit arrived in %s, and the alerts %v ended in %s",
		d.name, d.alert, f.seen, f.fired, f.recovered, firing, f.quiet)
	return f
}

// gameDay is what the hub of a game day has.
var gameDay = scale{disk: 64, standby: true}

// TestSlowGameDay has disasters befall a whole hub with an agent in a real cluster, one after the other, under
// a real Prometheus with the rules as they are shipped, in haste. With LEAT_GAMEDAY, it writes the page of
// that name.
func TestSlowGameDay(t *testing.T) {
	if os.Getenv("LEAT_SLOW") == "" {
		t.Skip("LEAT_SLOW is not set: the game day is left to `make slow`")
	}
	var programs string
	for _, service := range []string{"gitcache", "distributor", "tunnel", "agent"} {
		programs = filepath.Dir(build(t, service))
	}
	collectTraces(t)
	clock := buildWithClock(t, "../../services/distributor/cmd/distributor")
	u := newUpgrade(t, programs, gameDay)
	u.addGuarded(t)
	p := startPrometheus(t, slices.Concat(u.replicas, u.distributors, u.tunnels, []*process{u.agent}))
	u.arrive(t)
	p.awaitExemplar(t, u.trace(t))
	p.awaitQuiet(t)
	var all []figures
	for _, d := range disasters(clock) {
		all = append(all, u.strikes(t, p, d))
	}
	if page := os.Getenv("LEAT_GAMEDAY"); page != "" && !t.Failed() {
		if err := os.WriteFile(page, []byte(gameDayPage(all, time.Now())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// collectTraces has the processes of the test send their traces to a collector, which discards them.
// A process that exports traces samples each one that it begins.
func collectTraces(t *testing.T) {
	t.Helper()
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.URL+"/v1/traces")
}

// trace waits until the real cluster's services are healthy with the last commit, and returns the
// trace of that commit.
func (u *upgrade) trace(t *testing.T) (id string) {
	t.Helper()
	u.wantHealthy(t, 0)
	await.Poll(t, "the revision of the last commit", pause, func() (bool, string) {
		answer, err := u.admin(t, 0).ListRevisions(t.Context(), &fleetv1.ListRevisionsRequest{Service: "own"})
		if err != nil {
			return false, err.Error()
		}
		for _, revision := range answer.GetRevisions() {
			if slices.Contains(revision.GetCommits(), u.head(u.repos[0])) {
				id = revision.GetTraceId()
			}
		}
		return id != "", answer.String()
	})
	return id
}

// gameDayPage is the page of a game day.
func gameDayPage(all []figures, now time.Time) string {
	page := new(strings.Builder)
	fmt.Fprintf(page, `# Game day

<!-- Written by `+"`make gameday`"+`.
     Edit test/fault/gameday_test.go, not this page. -->

`+"`make gameday`"+` starts a whole hub, with two replicas of each part on disks of %d MiB, a PostgreSQL with a synchronous standby, an agent in a real cluster, and a Prometheus with the [rules](../../deploy/prometheus/rules.yaml).
It breaks one thing after the other, waits for the alert, does to the processes what the [runbook](runbooks.md) says, and writes this page.
Commands of the runbooks are not run: there is no Kubernetes below this hub.
Each time it requires that the cluster keeps what it has, that a commit arrives, and that every alert ends but those of the objective, which look back for days.

The run of %s divided all durations of the rules and the hour of the Git host by %d, leases lasted 3 s instead of 15 s, and mirrors were polled every 5 s.
*Seen after* is how long the condition of the alert took to hold, as measured, and *alert after* adds for how long it has to hold in the rules as they are shipped.
*During it* is how long a commit took to arrive that was pushed at the beginning, and *after the repair* one that was pushed then, as measured, the start of what was broken included.
The distributor whose clock is ahead is compiled for this page, because nothing outside of a program can change its clock alone.
Not broken so far: two things at once, and a Redis that fails over.

| disaster | alert | seen after | alert after | during it | after the repair | what people see |
|---|---|---|---|---|---|---|
`, gameDay.disk, now.UTC().Format(time.DateOnly), haste)
	for _, f := range all {
		during := "does not"
		if f.delivers {
			during = f.arrived.Round(time.Second / 10).String()
		}
		fmt.Fprintf(page, "| %s | [%s](runbooks.md#%s) | %s | %s | %s | %s | %s |\n", f.name, f.alert, strings.ToLower(f.alert),
			f.seen.Round(time.Second), (f.seen + f.lasts).Round(time.Second), during, f.recovered.Round(time.Second/10), f.users)
	}
	return page.String()
}
