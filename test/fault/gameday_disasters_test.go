// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
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
	// meanwhile checks what the row says, once the alert fires. Nil: that the cluster keeps what it has is all.
	meanwhile func(t *testing.T, u *upgrade)
	// delivers reports whether a commit arrives in the cluster before anybody repairs anything.
	delivers bool
	// files are in the commit that does not arrive.
	files map[string]string
}

// disasters are the scenes of a game day. clock is the distributor of buildWithClock.
func disasters(clock string) []disaster {
	return slices.Concat(outages(), freezes(), []disaster{wrongClock(clock)}, certificateEnds(), fullDisks(), failovers(), longOutages())
}

// outages are of servers that the hub needs.
func outages() []disaster {
	return []disaster{
		{
			name: "Redis is killed, and comes back empty", alert: "LeatDependencyUnreachable", users: "new commits wait, and arrive once Redis is back",
			strike: func(t *testing.T, u *upgrade) { t.Helper(); u.redis.Kill(t) },
			repair: func(t *testing.T, u *upgrade) { t.Helper(); u.redis.Restart(t) },
		},
		{
			name: "PostgreSQL is killed, and comes back", alert: "LeatDependencyUnreachable", users: "new commits arrive; nobody can sign in or change anything",
			strike: func(_ *testing.T, u *upgrade) { u.postgres.Kill() },
			repair: func(t *testing.T, u *upgrade) { t.Helper(); u.postgres.Start(t) }, delivers: true,
		},
	}
}

// freezes are of replicas.
func freezes() []disaster {
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
	distributorFreezes, distributorEnds := frozen(func(t *testing.T, u *upgrade) *process { t.Helper(); return u.distributors[u.planner(t)] })
	return []disaster{
		{
			name: "the gitcache that owns the mirror freezes", alert: "LeatReplicaSilent", users: "new commits arrive, once another replica owns the mirror",
			strike: gitcacheFreezes, repair: gitcacheEnds, delivers: true,
		},
		{
			name: "the distributor with the agent freezes", alert: "LeatReplicaSilent", users: "new commits arrive, once the agent is at another replica",
			strike: distributorFreezes, repair: distributorEnds, delivers: true,
		},
		tunnelFreezes(),
	}
}

// tunnelFreezes freezes a tunnel that has the agent, and a watch of a person.
func tunnelFreezes() disaster {
	var victim, other *process
	var watching sync.WaitGroup
	var unwatch context.CancelFunc
	return disaster{
		name: "the tunnel with the agent freezes", alert: "LeatReplicaSilent",
		users: "requests through it and a watch of `kubectl` hang until it is ended; the other one serves the cluster, and a watch that begins there again misses nothing",
		strike: func(t *testing.T, u *upgrade) {
			t.Helper()
			victim, other = u.tunnels[0], u.tunnels[1]
			if other.metric(t, "leat_tunnel_session_active") > victim.metric(t, "leat_tunnel_session_active") {
				victim, other = other, victim
			}
			u.renewToken(t)
			// A door begins with its second replica.
			u.viewer = &viewer{url: newDoor(t, nil, other.addr, victim.addr).url() + "/clusters/" + realCluster + "/api/v1/namespaces/" + ownSpace + "/configmaps", token: u.person}
			var ctx context.Context
			ctx, unwatch = context.WithCancel(t.Context())
			watching.Go(func() { u.viewer.view(ctx) })
			await.True(t, "the watch through "+victim.name, func() bool { numbers, _, _ := u.viewer.seen(); return len(numbers) > 0 })
			victim.signal(t, syscall.SIGSTOP)
		},
		meanwhile: func(t *testing.T, u *upgrade) {
			t.Helper()
			await.Success(t, "the agent at "+other.name, func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, callTimeout)
				defer cancel()
				_, err := fetch(ctx, http.DefaultClient, other.url()+"/clusters/"+realCluster+"/api/v1/namespaces/default/pods/box", u.person())
				return err
			})
			await.True(t, "the hub to forget "+victim.name, func() bool { return other.metric(t, "leat_tunnel_replica_count") == 1 })
		},
		repair: func(t *testing.T, u *upgrade) {
			t.Helper()
			victim.kill(t)
			victim.start(t)
			var numbers []int
			await.Poll(t, "the last commit in the watch", pause, func() (bool, string) {
				numbers, _, _ = u.viewer.seen()
				return slices.Contains(numbers, len(u.commits)-1), fmt.Sprint(numbers)
			})
			unwatch()
			watching.Wait()
			_, watches, failures := u.viewer.seen()
			if watches < 2 || len(failures) > 0 || slices.ContainsFunc(numbers, func(n int) bool { return n != numbers[0]+slices.Index(numbers, n) }) {
				t.Errorf("%d watches got the commits %v (%v), want two, and each commit once and in order", watches, numbers, failures)
			}
		}, delivers: true,
	}
}

// wrongClock moves the distributor that has the agent to a machine whose clock is five minutes ahead,
// and, as the runbook has it, to another machine afterwards. buildWithClock compiled the program.
func wrongClock(program string) disaster {
	const ahead = 5 * time.Minute
	var victim int
	var back func(*testing.T)
	return disaster{
		name: "the clock of the distributor with the agent is five minutes ahead", alert: "LeatClockOff",
		users: "new commits wait until the agent has come to the other replica; this one asks it to connect again every half a minute or so; " +
			"this replica answers `HUB_TOKEN_REFUSED` where it needs gitcache, and the other one answers",
		strike: func(t *testing.T, u *upgrade) {
			t.Helper()
			victim = u.planner(t)
			replica, other := u.distributors[victim], u.distributors[1-victim]
			back = replica.moveTo(t, program, ahead)
			shown := time.Duration(replica.metric(t, "leat_clock_time_seconds") * float64(time.Second))
			if off := shown - time.Duration(time.Now().UnixNano()); off < ahead-time.Minute {
				t.Fatalf("the clock of %s is %s ahead, want %s", replica.name, off, ahead)
			}
			await.Poll(t, replica.name+" to count the cluster as connected, whose agent is at "+other.name, pause, func() (bool, string) {
				at, counted := other.metric(t, "leat_plan_watchers"), replica.metric(t, "leat_fleet_clusters", `state="connected"`)
				return at > 0 && counted == 1, fmt.Sprintf("%v agents there, %v clusters connected; %v here", at, counted, replica.metric(t, "leat_plan_watchers"))
			})
			// The agent returns, as if the clock had gone wrong while it was there.
			other.stop(t)
			await.True(t, "the agent at "+replica.name, func() bool { return replica.metric(t, "leat_plan_watchers") > 0 })
			other.start(t)
		},
		meanwhile: func(t *testing.T, u *upgrade) {
			t.Helper()
			deliveries := &fleetv1.ListWebhookDeliveriesRequest{Name: u.repos[0]} // which gitcache has
			_, err := u.admin(t, victim).ListWebhookDeliveries(t.Context(), deliveries)
			if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_HUB_TOKEN_REFUSED || !strings.Contains(err.Error(), "clock") {
				t.Errorf("%s: got %v, want HUB_TOKEN_REFUSED that names the clock", u.distributors[victim].name, err)
			}
			if _, err := u.admin(t, 1-victim).ListWebhookDeliveries(t.Context(), deliveries); err != nil {
				t.Errorf("%s, whose clock is right: %v", u.distributors[1-victim].name, err)
			}
			if n := u.distributors[victim].metric(t, "leat_plan_watchers"); n != 0 {
				t.Errorf("%s has %v agents, want it to have sent them away", u.distributors[victim].name, n)
			}
		},
		repair: func(t *testing.T, _ *upgrade) { t.Helper(); back(t) }, delivers: true,
	}
}

func certificateEnds() []disaster {
	var guarded *process
	var certificates string
	return []disaster{{
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
	}}
}

// fullDisks have another program fill the disk of a replica. The commits that do not arrive are larger than all that
// the replicas could evict.
func fullDisks() []disaster {
	ballast := func(bytes int) map[string]string {
		content := make([]byte, bytes)
		_, _ = rand.Read(content)
		return map[string]string{"app/ballast": string(content)}
	}
	var owner int
	var had answer
	return []disaster{
		{
			name: "the disk of the gitcache that owns the mirror is full", alert: "LeatDiskFull",
			users: "new commits wait; the repository has the reason `STORAGE_FULL`, and mirrored content is served",
			files: ballast(1 << 20),
			strike: func(t *testing.T, u *upgrade) {
				t.Helper()
				owner = slices.Index(u.replicas, u.owner(t))
				var err error
				if had, err = u.ask(t, owner, u.repos[0]); err != nil {
					t.Fatal(err)
				}
				u.replicas[owner].disk.fill(t)
			},
			meanwhile: func(t *testing.T, u *upgrade) {
				t.Helper()
				await.Poll(t, "the repository to say that the disk is full", pause, func() (bool, string) {
					found, err := u.client(t, owner).GetRepository(t.Context(), &gitcachev1.GetRepositoryRequest{Name: u.repos[0]})
					problem := found.GetState().GetProblem()
					return err == nil && problem.GetReason().String() == "REASON_STORAGE_FULL" && strings.Contains(problem.GetMessage(), "an operator must give it room"), problem.String()
				})
				if got, err := u.ask(t, owner, u.repos[0]); err != nil || got.digest != had.digest {
					t.Errorf("got %+v, %v, want what is mirrored: %+v", got, err, had)
				}
			},
			repair: func(t *testing.T, u *upgrade) { t.Helper(); u.replicas[owner].disk.grow(t) },
		},
		{
			name: "the disks of the distributors are full", alert: "LeatDiskFull",
			users: "new content that needs more room than can be evicted waits; its services report that the disk is full",
			files: ballast(4 << 20),
			strike: func(t *testing.T, u *upgrade) {
				t.Helper()
				for _, p := range u.distributors {
					p.disk.fill(t)
				}
			},
			meanwhile: func(t *testing.T, u *upgrade) {
				t.Helper()
				u.awaitProblems(t, 0, "its disk is full", "an operator must give it room")
			},
			repair: func(t *testing.T, u *upgrade) {
				t.Helper()
				for _, p := range u.distributors {
					p.disk.grow(t)
				}
			},
		},
	}
}

// failovers have a standby take over.
func failovers() []disaster {
	var acknowledged atomic.Int64
	name := func(number int64) string { return fmt.Sprintf("acknowledged-%04d", number) }
	return []disaster{{
		name: "PostgreSQL is lost, and its standby takes over at another address", alert: "LeatDependencyUnreachable",
		users: "new commits arrive; nobody can sign in or change anything until the standby is promoted, and no change that was acknowledged is lost",
		strike: func(t *testing.T, u *upgrade) {
			t.Helper()
			var editing sync.WaitGroup
			admin, ctx := u.admin(t, 0), t.Context()
			editing.Go(func() {
				for {
					_, err := admin.Apply(ctx, &fleetv1.ApplyRequest{Documents: []*fleetv1.Document{serviceOf(clusterName(0), name(acknowledged.Load()), u.repos[0], "app")}})
					if err != nil {
						return
					}
					acknowledged.Add(1)
				}
			})
			await.True(t, "some edits", func() bool { return acknowledged.Load() > 10 })
			u.postgres.Kill()
			editing.Wait()
		},
		repair: func(t *testing.T, u *upgrade) {
			t.Helper()
			u.standby.Promote(t)
			await.Poll(t, "all edits that were acknowledged", pause, func() (bool, string) {
				documents, err := find(t.Context(), u.queries(t, 1), &fleetv1.FleetQuery{Kind: "Service", Cluster: clusterName(0)})
				if err != nil {
					return false, err.Error()
				}
				for number := range acknowledged.Load() {
					if !slices.ContainsFunc(documents, func(d *fleetv1.Document) bool {
						return d.GetService().GetMetadata().GetName() == clusterName(0)+"-"+name(number)
					}) {
						return false, name(number)
					}
				}
				return true, ""
			})
			u.apply(t, serviceOf(clusterName(0), "after-the-failover", u.repos[0], "app"))
		}, delivers: true,
	}}
}

// longOutages are of an hour, in haste.
func longOutages() []disaster {
	const newCluster = "newcomer"
	joins := func(t *testing.T, u *upgrade) {
		t.Helper()
		cluster := kubetest.Start(t)
		u.apply(t,
			&fleetv1.Document{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: newCluster}}}},
			&fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
				Metadata: &typev1.Metadata{Name: newCluster},
				Spec: &fleetv1.ServiceSpec{Cluster: newCluster, Namespace: ownSpace, Sources: []*typev1.Source{{
					Repository: u.repos[0], Path: "app", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
				}}},
			}}})
		u.startAgent(t, newCluster, u.agent.binary, cluster)
		last := fmt.Sprintf(`"number":"%d"`, len(u.commits)-2) // the last one was pushed after the host was gone
		await.Poll(t, "the commit before the outage in "+newCluster, pause, func() (bool, string) {
			body, err := contentOf(t, cluster)
			return err == nil && strings.Contains(body, last), body
		})
	}
	return []disaster{{
		name: "the Git host is gone for an hour, in which a cluster joins", alert: "LeatMirrorsOverdue",
		users:  "new commits wait, and arrive once the host is back; the new cluster gets what was pushed before",
		strike: func(t *testing.T, u *upgrade) { t.Helper(); u.upstream.Stop() },
		meanwhile: func(t *testing.T, u *upgrade) {
			t.Helper()
			joins(t, u)
			await.Poll(t, "an hour in haste", pause, func() (bool, string) {
				age := time.Duration(u.owner(t).metric(t, "leat_mirror_staleness_seconds", `leat_mirror_role="owner"`) * float64(time.Second))
				return age > time.Hour/haste, age.String()
			})
		},
		repair: func(t *testing.T, u *upgrade) { t.Helper(); u.upstream.Start(t) },
	}}
}

// metric returns the sum of the series at /metrics that have the name and the labels.
func (p *process) metric(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	body, err := fetch(t.Context(), http.DefaultClient, "http://"+p.internal+"/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		isOther := func(label string) bool { return !strings.Contains(lines.Text(), label) }
		if strings.HasPrefix(lines.Text(), name) && !slices.ContainsFunc(labels, isOther) {
			value, err := strconv.ParseFloat(lines.Text()[strings.LastIndex(lines.Text(), " ")+1:], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += value
		}
	}
	return sum
}

// owner returns the replica of gitcache that holds the lease of the repository.
func (u *upgrade) owner(t *testing.T) *process {
	t.Helper()
	if u.owners(t, 0)[u.repos[0]] == "http://"+u.replicas[1].door.addr() {
		return u.replicas[1]
	}
	return u.replicas[0]
}

// planner returns the number of the distributor from which the agent follows its plan.
func (u *upgrade) planner(t *testing.T) (number int) {
	t.Helper()
	await.True(t, "the agent to follow its plan", func() bool {
		number = slices.IndexFunc(u.distributors, func(p *process) bool { return p.metric(t, "leat_plan_watchers") > 0 })
		return number >= 0
	})
	return number
}

// awaitProblems waits until a replica of the distributor shows a problem of both services of the real
// cluster whose message has these parts.
func (u *upgrade) awaitProblems(t *testing.T, replica int, parts ...string) {
	t.Helper()
	await.Poll(t, fmt.Sprintf("the services to have a problem with %q", parts), pause, func() (bool, string) {
		documents, err := find(t.Context(), u.queries(t, replica), &fleetv1.FleetQuery{Kind: "Service", Cluster: realCluster})
		with := 0
		for _, document := range documents {
			message := document.GetService().GetStatus().GetProblem().GetMessage()
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(message, part) }) {
				with++
			}
		}
		return err == nil && with == 2, fmt.Sprint(documents, err)
	})
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
