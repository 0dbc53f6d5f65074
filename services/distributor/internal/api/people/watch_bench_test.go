// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// The size of BenchmarkWatch: projects of benchServices services, and the viewers of each.
const (
	watchedProjects   = 5
	viewersPerProject = 20
)

// watchedService is a service of BenchmarkWatch. isShared has all services run in the first project's
// cluster.
func watchedService(project, i int, isShared bool) *catalog.Service {
	service := benchService(project, i, 1)
	if isShared {
		service.Spec.Cluster = benchService(0, i, 1).Spec.Cluster
	}
	return service
}

// watched returns the hub of BenchmarkWatch, whose services are resolved and healthy. The viewers hold a
// binding for their project, or half of them one for clusters by label if each project has its own.
func watched(b *testing.B, isShared bool) *hub {
	b.Helper()
	h := newHub(b)
	var all catalog.Changes
	for p := range watchedProjects {
		owner := project(p)
		cluster := objectname.Join(owner, "main")
		all.Projects = append(all.Projects, &catalog.Project{Metadata: catalog.Metadata{Name: owner, UID: "uid-" + owner}})
		all.Clusters = append(all.Clusters, &catalog.Cluster{Metadata: catalog.Metadata{Name: cluster, UID: "uid-" + cluster, Labels: map[string]string{"team": owner}}})
		for r := range 10 {
			name := objectname.Join(owner, fmt.Sprintf("repository-%d", r))
			all.Repositories = append(all.Repositories, &catalog.Repository{Metadata: catalog.Metadata{Name: name, UID: "uid-" + name}})
		}
		for i := range benchServices {
			all.Services = append(all.Services, watchedService(p, i, isShared))
		}
		byProject := &catalog.AccessBinding{Metadata: catalog.Metadata{Name: "p-" + owner, UID: "uid-p-" + owner}, Spec: catalog.AccessBindingSpec{
			Role: catalog.RoleViewer, Projects: catalog.ProjectScope{Names: []string{owner}},
		}}
		byLabel := &catalog.AccessBinding{Metadata: catalog.Metadata{Name: "l-" + owner, UID: "uid-l-" + owner}, Spec: catalog.AccessBindingSpec{
			Role: catalog.RoleViewer, Clusters: catalog.ClusterSelection{Labels: &catalog.LabelSelector{MatchLabels: map[string]string{"team": owner}}},
		}}
		for i := range viewersPerProject {
			binding := byProject
			if i%2 == 1 && !isShared {
				binding = byLabel
			}
			binding.Spec.Users = append(binding.Spec.Users, viewer(p, i))
		}
		all.Bindings = append(all.Bindings, byProject, byLabel)
	}
	h.apply(b, all)
	for _, source := range h.view.Catalog.Sources() {
		content := digest.FromBytes([]byte(source.Repository + source.Path))
		h.view.Resolved(b.Context(), source.Normal(), catalog.Resolution{Snapshot: &catalog.Snapshot{Commit: "c1", Digest: content}}, nil)
	}
	return h
}

func viewer(project, i int) string { return fmt.Sprintf("viewer-%d-%d", project, i) }

// reported is a report of a service whose objects are as many as its round.
func reported(service *catalog.Service, round int) catalog.Changes {
	return catalog.Changes{Reports: []catalog.StoredReport{{
		Service: service.Name, ServiceUID: service.UID, ObservedGeneration: 1,
		Report: &catalog.ServiceReport{Phase: catalog.PhaseHealthy, Counts: catalog.Counts{Total: int32(round), Healthy: int32(round)}},
	}}}
}

// BenchmarkWatch has 100 viewers with a stream each, of whom each sees 200 of 1,000 services, while an
// agent reports a change of each service, one after the other: until each viewer has seen all changes
// of what they see. It reports the processor time for one service that is shown to one viewer.
func BenchmarkWatch(b *testing.B) {
	for name, isShared := range map[string]bool{"clusters=5": false, "clusters=1": true} {
		b.Run(name, func(b *testing.B) { benchWatch(b, isShared) })
	}
}

func benchWatch(b *testing.B, isShared bool) {
	b.Helper()
	h := watched(b, isShared)
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	var synced, ended sync.WaitGroup
	arrived := make(chan struct{}, watchedProjects*viewersPerProject)
	for p := range watchedProjects {
		for i := range viewersPerProject {
			synced.Add(1)
			ended.Go(func() {
				isSynced := sync.OnceFunc(synced.Done)
				defer isSynced()
				stream, err := h.person(viewer(p, i)).Watch(ctx, &fleetv1.WatchRequest{})
				if err != nil {
					b.Error(err)
					return
				}
				defer func() { _ = stream.Close() }()
				follow(stream.Receive, stream.Msg, isSynced, arrived)
				if ctx.Err() == nil {
					b.Error(stream.Err())
				}
			})
		}
	}
	defer ended.Wait()
	defer cancel()
	synced.Wait()
	runtime.GC()
	round, used := 1, processorTime(b)
	for b.Loop() {
		round++
		for i := range benchServices {
			for p := range watchedProjects {
				h.apply(b, reported(watchedService(p, i, isShared), round))
			}
		}
		for range watchedProjects * viewersPerProject {
			select {
			case <-arrived:
			case <-ctx.Done():
				b.Fatal("not every viewer has seen all changes")
			}
		}
	}
	used = processorTime(b) - used
	b.ReportMetric(float64(used.Microseconds())/float64(b.N*watchedProjects*benchServices*viewersPerProject), "cpu-us/shown")
	b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/op")
}

// follow reads a viewer's stream, and reports each time that it has shown all services of one
// round.
func follow(receive func() bool, message func() *fleetv1.WatchResponse, isSynced func(), arrived chan<- struct{}) {
	rounds, complete := map[string]int32{}, map[int32]int{}
	for receive() {
		if message().GetSynced() {
			isSynced()
		}
		service := message().GetDocument().GetService()
		round := service.GetStatus().GetReport().GetCounts().GetTotal()
		name := service.GetMetadata().GetName()
		if service == nil || round <= 1 || rounds[name] == round {
			continue
		}
		rounds[name] = round
		if complete[round]++; complete[round] == benchServices {
			arrived <- struct{}{}
		}
	}
}

// processorTime returns what this process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
