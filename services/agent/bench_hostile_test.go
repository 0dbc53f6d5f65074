// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/contract/syncpolicy"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
	"github.com/leatdev/leat/internal/runtime/localkube"
	"github.com/leatdev/leat/internal/runtime/localkube/kubetest"
	"github.com/leatdev/leat/render/rendertest"
)

var (
	hostileWorkers = flag.Int("hostile.workers", 2, "render workers of the agent in BenchmarkHostile")
	hostileCount   = flag.Int("hostile.services", 2, "services that attack at once in BenchmarkHostile")
	hostileTimeout = flag.Duration("hostile.timeout", 5*time.Second, "time of one render in BenchmarkHostile; an agent's default is 30s")
)

const (
	// ordinaryServices are the services that render beside the attacks.
	ordinaryServices = 20
	// quietRounds is how often all of them change before the attack begins.
	quietRounds = 5
	// workersRest is longer than idle workers live.
	workersRest = 40 * time.Second
)

// BenchmarkHostile deploys content that attacks the renderers, one attack after the other, each as two
// services at once, while 20 ordinary services change again and again. It prints how each attack ended,
// and measures the memory of the agent before, during and after the attack, and how long the ordinary
// services take from the arrival of a plan to the report, with the attack and without.
func BenchmarkHostile(b *testing.B) {
	cp := kubetest.Start(b, func(p *localkube.Params) { p.APIServerOnly = true })
	for b.Loop() {
		agent := startLeat(b, cp, "LEAT_AGENT_REFRESH_INTERVAL=5m", "GOMEMLIMIT=180MiB", "LEAT_AGENT_RENDER_MEMORY=256MiB",
			"LEAT_AGENT_RENDER_TIMEOUT="+hostileTimeout.String(), "LEAT_AGENT_RENDER_WORKERS="+strconv.Itoa(*hostileWorkers), "LEAT_LOG_LEVEL=error")
		for i := range ordinaryServices {
			createNamespace(b, cp, ordinaryName(i))
		}
		var quiet, attacked []time.Duration
		for round := range quietRounds {
			quiet = append(quiet, agent.changeAll(b, round)...)
		}
		<-time.After(workersRest)
		before := memoryOf(b, agent.process.Process.Pid).anonymous

		most := agent.watchMemory(b)
		ended := make(chan struct{})
		var rows []string
		go func() {
			defer close(ended)
			for _, attack := range rendertest.Attacks() {
				_, _ = most.take()
				row := agent.suffer(b, attack)
				_, worker := most.take()
				rows = append(rows, fmt.Sprintf("%s %.0f MiB |\n", row, mebibytes(worker)))
			}
		}()
		for round, underAttack := quietRounds, true; underAttack; round++ {
			attacked = append(attacked, agent.changeAll(b, round)...)
			select {
			case <-ended:
				underAttack = false
			default:
			}
		}
		ownPeak, workersPeak := most.stop()
		<-time.After(workersRest)
		after := memoryOf(b, agent.process.Process.Pid).anonymous

		fmt.Fprintf(os.Stderr, "| attack | ends as | after | most memory of workers |\n|---|---|---|---|\n%s", strings.Join(rows, ""))
		b.ReportMetric(mebibytes(before), "MiB-before")
		b.ReportMetric(mebibytes(ownPeak), "MiB-peak")
		b.ReportMetric(mebibytes(after), "MiB-after")
		b.ReportMetric(mebibytes(workersPeak), "workers-MiB-peak")
		for name, took := range map[string][]time.Duration{"quiet": quiet, "attacked": attacked} {
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms-"+name)
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms-"+name)
		}
		b.ReportMetric(0, "ns/op")
	}
}

func ordinaryName(i int) string { return fmt.Sprintf("ordinary-%02d", i) }

// ordinary returns a small service of one of several languages, in its given version. Every fourth
// is plain.
func ordinary(i, version int) (files map[string]string, step renderstep.Step) {
	object := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: %s}\ndata: {version: \"%d\"}\n", ordinaryName(i), version)
	switch i % 4 {
	case 0:
		return map[string]string{"Chart.yaml": "{apiVersion: v2, name: a, version: 1.0.0}", "templates/a.yaml": object}, renderstep.Step{Renderer: renderstep.Helm}
	case 1:
		return map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": object}, renderstep.Step{Renderer: renderstep.Kustomize}
	case 2:
		return map[string]string{"a.yaml.liquid": object}, renderstep.Step{Renderer: renderstep.Liquid}
	default:
		return map[string]string{"a.yaml": object}, renderstep.Step{Renderer: renderstep.Plain}
	}
}

// changeAll changes every ordinary service, and returns how long each took to be applied.
func (l *leat) changeAll(b *testing.B, version int) []time.Duration {
	b.Helper()
	took := make([]time.Duration, ordinaryServices)
	var group sync.WaitGroup
	for i := range ordinaryServices {
		files, step := ordinary(i, version)
		began := time.Now()
		digest := l.deployStep(b, ordinaryName(i), files, step)
		group.Go(func() {
			if l.reported(ordinaryName(i), func(r *distributorv1.ServiceReport) bool {
				return slices.Equal(r.GetAppliedDigests(), []string{digest})
			}) == nil {
				b.Errorf("%s was not applied in %v", ordinaryName(i), hostilePatience)
			}
			took[i] = time.Since(began)
		})
	}
	group.Wait()
	return took
}

// hostilePatience bounds what the benchmark waits for: ordinary services may wait behind attacks.
const hostilePatience = 10 * time.Minute

// suffer deploys an attack as several services, whose content differs in a meaningless file. It
// returns the row about how the last of them ended.
func (l *leat) suffer(b *testing.B, attack rendertest.Attack) string {
	b.Helper()
	began := time.Now()
	digests := map[string]string{}
	for i := range *hostileCount {
		name, files := fmt.Sprintf("hostile-%d", i), maps.Clone(attack.Files)
		files["number.txt"] = name
		digests[name] = l.deployStep(b, name, files, attack.Step)
	}
	var problem *typev1.Problem
	for name, digest := range digests {
		report := l.reported(name, func(r *distributorv1.ServiceReport) bool {
			return r.GetProblem() != nil && r.GetPhase() == typev1.ServicePhase_SERVICE_PHASE_FAILED && slices.Contains(r.GetObservedDigests(), digest)
		})
		if report == nil {
			b.Errorf("%s of %s did not end", attack.Name, name)
			return ""
		}
		problem = report.GetProblem()
	}
	message := strings.NewReplacer("\n", " ", "|", "\\|").Replace(problem.GetMessage())
	return fmt.Sprintf("| %s | %s: %.120s | %.1f s |", attack.Name, problem.GetReason(), message, time.Since(began).Seconds())
}

// deployStep deploys a service with one render step.
func (l *leat) deployStep(b *testing.B, service string, files map[string]string, step renderstep.Step) string {
	b.Helper()
	return l.hub.deployAs(b, service, files, policywire.PlanMessage(syncpolicy.Options{Render: []renderstep.Step{step}}))
}

// reported waits until a service's report is as wanted, and returns it. It returns nil if that takes
// too long. Unlike hub.await it may be called by any goroutine.
func (l *leat) reported(service string, want func(*distributorv1.ServiceReport) bool) *distributorv1.ServiceReport {
	timeout := time.After(hostilePatience)
	for {
		l.hub.mu.Lock()
		report, changed := l.hub.reports[service], l.hub.changed
		l.hub.mu.Unlock()
		if report != nil && want(report) {
			return report
		}
		select {
		case <-changed:
		case <-timeout:
			return nil
		}
	}
}

// peaks are the most memory of an agent, and of all its workers together.
type peaks struct {
	done, ended chan struct{}

	mu           sync.Mutex // guards what follows
	own, workers int        // since the beginning
	ownTaken     int        // since take was called
	workersTaken int
}

// watchMemory samples the memory of the agent and of all its workers until stop is called.
func (l *leat) watchMemory(b *testing.B) *peaks {
	b.Helper()
	p := &peaks{done: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-p.done:
				return
			case <-tick.C:
			}
			sum := 0
			for _, pid := range childrenOf(l.process.Process.Pid) {
				sum += memoryOf(b, pid).anonymous
			}
			p.add(memoryOf(b, l.process.Process.Pid).anonymous, sum)
		}
	}()
	return p
}

func (p *peaks) add(own, workers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own, p.workers = max(p.own, own), max(p.workers, workers)
	p.ownTaken, p.workersTaken = max(p.ownTaken, own), max(p.workersTaken, workers)
}

// take returns the most since the last call.
func (p *peaks) take() (own, workers int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, workers = p.ownTaken, p.workersTaken
	p.ownTaken, p.workersTaken = 0, 0
	return own, workers
}

// stop ends the sampling, and returns the most of all.
func (p *peaks) stop() (own, workers int) {
	close(p.done)
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own, p.workers
}

// childrenOf returns the child processes of all threads of a process.
func childrenOf(pid int) (children []int) {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		for field := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}
