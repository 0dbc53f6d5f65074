// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

const (
	callers = 8
	refs    = 10_000
)

// BenchmarkResolveWarm asks for the digest of a folder that did not change, of a branch among ten
// thousand, by eight callers at once: "handler" by calling what answers, "rpc" through a generated
// client, HTTP/2 over memory and all interceptors.
func BenchmarkResolveWarm(b *testing.B) {
	many := newBackend()
	many.fetch = func(context.Context) (mirror.Content, error) {
		list := []mirror.Ref{{Name: "refs/heads/main", Object: "c", Commit: "c"}}
		for n := range refs {
			list = append(list, mirror.Ref{Name: fmt.Sprintf("refs/heads/feature-%05d", n), Object: "c", Commit: "c"})
		}
		return mirror.Content{Refs: mirror.NewRefs(list), FreshAt: time.Now()}, nil
	}
	request := &gitcachev1.ResolveSnapshotRequest{Source: &typev1.Source{
		Repository: "demo", Path: "app", Ref: &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: "main"}},
	}}
	type resolve func(context.Context, *gitcachev1.ResolveSnapshotRequest) (*gitcachev1.ResolveSnapshotResponse, error)
	for name, call := range map[string]resolve{
		"handler": newService(b, many).ResolveSnapshot, "rpc": serve(b, many).ResolveSnapshot,
	} {
		b.Run(name, func(b *testing.B) {
			warm(b, func(ctx context.Context) error { _, err := call(ctx, request); return err })
			measure(b, func(ctx context.Context) error { _, err := call(ctx, request); return err })
		})
	}
}

// warm waits for the lease and the first fetch.
func warm(b *testing.B, call func(context.Context) error) {
	b.Helper()
	policy := backoff.Policy{Initial: 5 * time.Millisecond, Max: 50 * time.Millisecond}
	if err := backoff.Retry(b.Context(), policy, call); err != nil {
		b.Fatal(err)
	}
}

// measure reports the 99th percentile beside the mean.
func measure(b *testing.B, call func(context.Context) error) {
	b.Helper()
	b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	var mu sync.Mutex
	var all []time.Duration
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var own []time.Duration
		for pb.Next() {
			begun := time.Now()
			if err := call(b.Context()); err != nil {
				b.Error(err)
				return
			}
			own = append(own, time.Since(begun))
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, own...)
	})
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1e3, "p99-µs")
}
