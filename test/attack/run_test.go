// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package attack_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

const (
	// peerShare is the factor for net/http's memory that a service may use, in addition to its own.
	peerShare = 1.5
	// floor is how much a service may use in any case: its handlers do more than net/http's, and
	// the time of garbage collections varies.
	floor = 96 << 20
)

// headroom returns how much a program's heap may grow beyond its own size before a collection: see
// their main functions.
func headroom(program string) int64 {
	if program == "distributor" {
		return 256 << 20
	}
	return 0
}

// longForm returns how long each attack of the long form takes. Zero: this is the short form.
func longForm(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("LEAT_ATTACK")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("LEAT_ATTACK: got %q, want a duration such as 30s", text)
	}
	return d
}

// outcome is the effect of an attack on a server.
type outcome struct {
	server       *server
	before, peak int64         // resident bytes
	cpu          time.Duration // of the server
	sent         int64         // bytes of the attack
	conns        int64         // that were opened
	beside       *probes
	after        error // of a normal request right after the attack
	diedOf       string
}

// TestSecAttacks attacks every service as an unauthenticated caller could, and the peer in the same
// way. In the short form all servers are attacked at once. In the long form they are attacked one
// after the other, each in a new process.
func TestSecAttacks(t *testing.T) {
	long := longForm(t)
	r := startRig(t)
	table := &table{}
	for _, a := range attacks() {
		t.Run(a.name, func(t *testing.T) {
			var mu sync.Mutex
			var outcomes []outcome
			for _, s := range r.targets(&a) {
				if s.service != "peer" {
					s.fresh(t, long > 0)
				}
			}
			t.Run("at", func(t *testing.T) {
				for _, s := range r.targets(&a) {
					t.Run(s.name, func(t *testing.T) {
						if long == 0 {
							t.Parallel()
						}
						o := r.strike(t, &a, s, long)
						mu.Lock()
						defer mu.Unlock()
						outcomes = append(outcomes, o)
					})
				}
			})
			table.add(&a, outcomes)
			judge(t, &a, outcomes)
		})
	}
	t.Logf("the servers under attack, and normal requests beside it:\n%s", table)
}

// targets returns the servers to attack.
func (r *rig) targets(a *attack) []*server {
	var chosen []*server
	for _, s := range r.all() {
		wanted := len(a.only) == 0 || slices.Contains(a.only, s.service) || s.service == "peer" && !a.absolute
		if s.service == "peer" && a.absolute {
			wanted = false
		}
		if wanted && s.secure == a.secure && (s.service != "agent" || a.ports&internal != 0) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// strike attacks one server.
func (r *rig) strike(t *testing.T, a *attack, s *server, long time.Duration) outcome {
	t.Helper()
	lasts := max(a.lasts, 300*time.Millisecond)
	megabytes := a.megabytes
	if long > 0 {
		megabytes *= int64(max(1, long/lasts))
		lasts = long
	}
	probe := a.probe
	if probe == nil || s.service == "peer" {
		probe = func(t *testing.T, r *rig, s *server) ask { t.Helper(); return r.normal(t, s) }
	}
	normal := probe(t, r, s)
	if err := normal(t.Context()); err != nil {
		t.Fatalf("a normal request before the attack: %v", err)
	}
	o := outcome{server: s, cpu: s.cpu()}
	o.before, _ = s.memory()
	watched := s.watch()
	o.beside = begin(t.Context(), normal)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var ports sync.WaitGroup
	var victims []*victim
	for _, addr := range s.attacked(a) {
		v := &victim{attack: a, server: s, addr: addr}
		v.left.Store(megabytes << 20)
		if s.hasTLS(addr) {
			v.tls = anyCertificate()
		}
		if a.asAgent {
			v.agentToken, v.personToken = r.agentToken(t, r.hostile, "tunnel"), r.personToken(t, adminToken, "tunnel")
		}
		victims = append(victims, v)
		ports.Go(func() { a.run(ctx, v) })
	}
	ports.Wait()
	o.beside.stop()
	o.after = normal(t.Context())
	o.peak, o.cpu = watched.stop(), s.cpu()-o.cpu
	for _, v := range victims {
		o.sent += v.sent.Load()
		o.conns += v.conns.Load()
	}
	if !s.alive() {
		o.diedOf = fmt.Sprintf("%s; its log ends so:\n%s", s.cmd.ProcessState, tail(s.log))
	}
	return o
}

// attacked returns the addresses of the attacked ports.
func (s *server) attacked(a *attack) []string {
	if s.public == s.internal {
		return []string{s.public}
	}
	var addrs []string
	if a.ports&public != 0 {
		addrs = append(addrs, s.public)
	}
	if a.ports&internal != 0 {
		addrs = append(addrs, s.internal)
	}
	return addrs
}

// judge fails the test if an attack had an effect that is not allowed.
func judge(t *testing.T, a *attack, outcomes []outcome) {
	t.Helper()
	var bare int64
	for _, o := range outcomes {
		if o.server.service == "peer" {
			bare = o.peak
		}
	}
	for _, o := range outcomes {
		name := o.server.name
		switch {
		case o.server.service == "peer":
			continue
		case o.diedOf != "":
			t.Errorf("%s ended under the attack: %s", name, o.diedOf)
			continue
		case o.after != nil:
			t.Errorf("%s: a normal request right after the attack: %v; want an answer within %s", name, o.after, answerWithin)
		case a.during && len(o.beside.took) <= o.beside.failed:
			t.Errorf("%s: of normal requests beside the attack %d failed, the last with: %v; %d were answered, want more than half",
				name, o.beside.failed, o.beside.last, len(o.beside.took))
		}
		if o.peak >= o.server.limit {
			t.Errorf("%s: got %s of memory, want less than the pod's limit of %s", name, mebibytes(o.peak), mebibytes(o.server.limit))
		}
		spare := floor + headroom(o.server.service)
		if most := o.before + int64(peerShare*float64(bare)) + spare; !a.absolute && o.peak > most {
			t.Errorf("%s: got %s of memory, want at most %s: %s before the attack, %g times net/http's %s, and %s",
				name, mebibytes(o.peak), mebibytes(most), mebibytes(o.before), peerShare, mebibytes(bare), mebibytes(spare))
		}
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// table formats outcomes for readers.
type table struct{ rows []string }

func (tb *table) add(a *attack, outcomes []outcome) {
	slices.SortFunc(outcomes, func(x, y outcome) int { return strings.Compare(x.server.name, y.server.name) })
	for _, o := range outcomes {
		limit, ended := "none", ""
		if o.server.limit > 0 {
			limit = mebibytes(o.server.limit)
		}
		if o.diedOf != "" {
			ended = ", ENDED"
		}
		tb.rows = append(tb.rows, strings.Join([]string{
			a.name, o.server.name + ended, mebibytes(o.before), mebibytes(o.peak), limit, o.cpu.Round(10 * time.Millisecond).String(),
			o.beside.percentile(50).Round(100 * time.Microsecond).String(), o.beside.percentile(99).Round(100 * time.Microsecond).String(),
			fmt.Sprintf("%d of %d", len(o.beside.took), len(o.beside.took)+o.beside.failed), fmt.Sprintf("%.1f MB", float64(o.sent)/1e6),
			fmt.Sprint(o.conns),
		}, "\t"))
	}
}

// String implements fmt.Stringer.
func (tb *table) String() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "attack\tserver\tbefore\tpeak\tlimit\tCPU\tp50\tp99\tanswered\tsent\tconnections")
	for _, row := range tb.rows {
		_, _ = fmt.Fprintln(w, row)
	}
	_ = w.Flush()
	return out.String()
}
