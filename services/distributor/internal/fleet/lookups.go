// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/leatdev/leat/services/distributor/internal/spine/lookup"
)

const (
	// learnPause is the least time between two reads of the store on behalf of one cluster.
	learnPause = 50 * time.Millisecond
	// missPause is how often a cluster may cause a read because of digests that its plans do not
	// name.
	missPause = time.Second
)

// lookups bound the reads of the store that each cluster may cause, so that an agent that makes up
// versions or digests costs no more than an honest one. It is safe for concurrent use.
type lookups struct {
	mu    sync.Mutex
	byUID map[string]*clusterLookups
}

// clusterLookups are the lookups of one cluster: the read that its callers share, and how often a
// missing digest may cause one.
type clusterLookups struct {
	learning *lookup.Flight
	misses   *rate.Limiter
}

// of returns a cluster's lookups. learn is the read that they share.
func (l *lookups) of(clusterUID string, learn func(context.Context) error) *clusterLookups {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.byUID[clusterUID]
	if !ok {
		c = &clusterLookups{learning: lookup.NewFlight(learnPause, learn), misses: rate.NewLimiter(rate.Every(missPause), 1)}
		l.byUID[clusterUID] = c
	}
	return c
}

// forget drops the lookups of deleted clusters.
func (l *lookups) forget(clusterUIDs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uid := range clusterUIDs {
		delete(l.byUID, uid)
	}
}
