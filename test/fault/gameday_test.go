// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/internal/testkit/loopback"
	"github.com/leatdev/leat/internal/testkit/selfsigned"
)

// disaster is what befalls the hub on a game day.
type disaster struct {
	name  string
	alert string // that has to fire
	users string // what they see meanwhile
	// strike breaks something, and repair does what the runbook of the alert says.
	strike, repair func(t *testing.T, u *upgrade)
	// delivers reports whether a commit arrives in the cluster before anybody repairs anything.
	delivers bool
}

func disasters() []disaster {
	frozen := func(of func(*testing.T, *upgrade) *process) (strike, repair func(*testing.T, *upgrade)) {
		var victim *process
		return func(t *testing.T, u *upgrade) {
				t.Helper()
				victim = of(t, u)
				victim.signal(t, syscall.SIGSTOP)
			}, func(t *testing.T, _ *upgrade) {
				t.Helper()
				victim.kill(t) // as kubectl delete pod --force does, after which another one starts
				victim.start(t)
			}
	}
	gitcacheFreezes, gitcacheEnds := frozen(func(t *testing.T, u *upgrade) *process { t.Helper(); return u.owner(t) })
	distributorFreezes, distributorEnds := frozen(func(_ *testing.T, u *upgrade) *process { return u.distributors[0] })
	var guarded *process
	var certificates string
	return []disaster{
		{
			name: "Redis is killed, and comes back empty", alert: "LeatDependencyUnreachable", users: "new commits wait, and arrive once Redis is back",
			strike: func(t *testing.T, u *upgrade) { t.Helper(); u.redis.Kill(t) },
			repair: func(t *testing.T, u *upgrade) { t.Helper(); u.redis.Restart(t) },
		},
		{
			name: "the Git host is gone", alert: "LeatMirrorsOverdue", users: "new commits wait, and arrive once the host is back",
			strike: func(t *testing.T, u *upgrade) { t.Helper(); u.upstream.Stop() },
			repair: func(t *testing.T, u *upgrade) { t.Helper(); u.upstream.Start(t) },
		},
		{
			name: "PostgreSQL is killed, and comes back", alert: "LeatDependencyUnreachable", users: "new commits arrive; nobody can sign in or change anything",
			strike: func(_ *testing.T, u *upgrade) { u.postgres.Kill() },
			repair: func(t *testing.T, u *upgrade) { t.Helper(); u.postgres.Start(t) }, delivers: true,
		},
		{
			name: "the gitcache that owns the mirror freezes", alert: "LeatReplicaSilent", users: "new commits arrive, once another replica owns the mirror",
			strike: gitcacheFreezes, repair: gitcacheEnds, delivers: true,
		},
		{
			name: "a distributor freezes", alert: "LeatReplicaSilent", users: "new commits arrive, once the agent is at another replica",
			strike: distributorFreezes, repair: distributorEnds, delivers: true,
		},
		{
			name: "the certificate of a tunnel ends", alert: "LeatCertificateEnds", users: "`kubectl` and agents that connect again say that it has expired",
			strike: func(t *testing.T, u *upgrade) {
				t.Helper()
				guarded = u.tunnels[len(u.tunnels)-1]
				certificates = filepath.Dir(guarded.certificate)
				selfsigned.Until(t, time.Now().Add(-time.Minute)).Write(t, certificates)
			},
			repair: func(t *testing.T, _ *upgrade) {
				t.Helper()
				err := guarded.greet(t)
				if invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err); !isInvalid || invalid.Reason != x509.Expired {
					t.Errorf("got %v, want that the certificate has expired", err)
				}
				selfsigned.Until(t, time.Now().Add(90*24*time.Hour)).Write(t, certificates)
				await.Success(t, "the new certificate", func(context.Context) error { return guarded.greet(t) })
			}, delivers: true,
		},
	}
}

// owner returns the replica of gitcache that holds the lease of the repository.
func (u *upgrade) owner(t *testing.T) *process {
	t.Helper()
	if u.owners(t, 0)[u.repos[0]] == "http://"+u.replicas[1].door.addr() {
		return u.replicas[1]
	}
	return u.replicas[0]
}

// addGuarded starts one more tunnel, alone, which serves with a certificate of its own.
func (u *upgrade) addGuarded(t *testing.T) {
	t.Helper()
	certificate, key := selfsigned.Until(t, time.Now().Add(90*24*time.Hour)).Write(t, t.TempDir())
	p := &process{name: "guarded tunnel", binary: u.tunnels[0].binary, addr: loopback.Addr(t), log: filepath.Join(t.TempDir(), "log"), certificate: certificate}
	p.env = append(slices.Clone(u.tunnels[0].env), "LEAT_LISTEN_ADDR="+p.addr, "LEAT_REDIS_URL=", "LEAT_TUNNEL_ADVERTISE_URL=",
		"LEAT_TUNNEL_PEER_LISTEN_ADDR="+loopback.Addr(t), "LEAT_TLS_CERT_FILE="+certificate, "LEAT_TLS_KEY_FILE="+key)
	u.tunnels = append(u.tunnels, p)
	p.start(t)
}

// greet makes a connection with TLS, and trusts the certificate of the process as it is on disk.
func (p *process) greet(t *testing.T) error {
	t.Helper()
	text, err := os.ReadFile(p.certificate)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp", p.addr)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// content returns what the service of the real cluster has there.
func (u *upgrade) content(t *testing.T) string {
	t.Helper()
	body, err := fetch(t.Context(), u.cluster.HTTPClient(), u.cluster.Host()+"/api/v1/namespaces/"+ownSpace+"/configmaps/serial", "")
	if err != nil {
		t.Fatal(err)
	}
	return body
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
		u.commit(t, u.repos[0])
		if after := u.content(t); after != before {
			t.Errorf("the cluster has %s, want what it had: %s", after, before)
		}
	}
	repaired := time.Now()
	d.repair(t, u)
	u.arrive(t)
	f.recovered = time.Since(repaired)
	p.awaitQuiet(t)
	f.quiet = time.Since(repaired)
	t.Logf("%s: %s, its condition after %s, fired here after %s; after the repair a commit arrived in %s, and the alert ended in %s",
		d.name, d.alert, f.seen, f.fired, f.recovered, f.quiet)
	return f
}

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
	u := newUpgrade(t, programs)
	u.addGuarded(t)
	p := startPrometheus(t, slices.Concat(u.replicas, u.distributors, u.tunnels, []*process{u.agent}))
	u.arrive(t)
	p.awaitQuiet(t)
	var all []figures
	for _, d := range disasters() {
		all = append(all, u.strikes(t, p, d))
	}
	if page := os.Getenv("LEAT_GAMEDAY"); page != "" && !t.Failed() {
		if err := os.WriteFile(page, []byte(gameDayPage(all, time.Now())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// gameDayPage is the page of a game day.
func gameDayPage(all []figures, now time.Time) string {
	page := new(strings.Builder)
	fmt.Fprintf(page, `# Game day

<!-- Written by `+"`make gameday`"+`.
     Edit test/fault/gameday_test.go, not this page. -->

`+"`make gameday`"+` starts a whole hub, with two replicas of each part, an agent in a real cluster, and a Prometheus with the [rules](../../deploy/prometheus/rules.yaml).
It breaks one thing after the other, waits for the alert, does to the processes what the [runbook](runbooks.md) says, and writes this page.
Commands of the runbooks are not run: there is no Kubernetes below this hub.
Each time it requires that the cluster keeps what it has, that a commit arrives, and that every alert ends.

The run of %s divided all durations of the rules by %d, leases lasted 3 s instead of 15 s, and mirrors were polled every 5 s.
*Seen after* is how long the condition of the alert took to hold, as measured, and *alert after* adds for how long it has to hold in the rules as they are shipped.
*During it* is how long a commit took to arrive that was pushed at the beginning, and *after the repair* one that was pushed then, as measured, the start of what was broken included.
Not broken so far: a disk that is full, a clock that is off, and a PostgreSQL whose standby takes over at another address.

| disaster | alert | seen after | alert after | during it | after the repair | what people see |
|---|---|---|---|---|---|---|
`, now.UTC().Format(time.DateOnly), haste)
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
