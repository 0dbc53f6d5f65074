// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

const (
	// maxPairs bounds the pairs of configurations that are compared for people, and maxKeys the keys that
	// they are shown.
	maxPairs = 32
	maxKeys  = 16
)

// stage stores the configurations that a new rollout brings, and notes the keys in which they differ from those
// before. The next edit may change the services' own.
func (w *Work) stage(ctx context.Context, record *Record, members []Seen) error {
	start := &record.Start
	var wishes []ConfigWish
	var pairs [][2]string
	seen, wished := map[[2]string]bool{}, map[string]bool{}
	byUID := make(map[string]*Seen, len(members))
	for i := range members {
		byUID[members[i].Service.UID] = &members[i]
	}
	for _, member := range start.Members {
		pair := [2]string{start.ConfigOf[member.From], start.ConfigOf[member.To]}
		if pair[0] == pair[1] {
			continue
		}
		if !seen[pair] && len(pairs) < maxPairs {
			pairs = append(pairs, pair)
		}
		seen[pair] = true
		// The release that a member goes back to is stored: it is held there, or a rollout that was
		// replaced names it.
		if m := byUID[member.UID]; m != nil && m.Config == pair[1] && !wished[pair[1]] {
			wished[pair[1]] = true
			wishes = append(wishes, ConfigWish{Name: pair[1], Service: m.Service, Cluster: w.p.Fleet.ClusterOf(m.Service)})
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	if err := w.keep(ctx, wishes); err != nil {
		return err
	}
	keys, err := w.p.Store.ChangedKeys(ctx, pairs)
	if len(keys) > maxKeys {
		keys = append(keys[:maxKeys:maxKeys], "more")
	}
	start.ConfigKeys = keys
	return err
}

// keep stores configurations. While one of them cannot be stored, its services are taken for ones whose
// configuration cannot be staged. Error: ErrMoved if there is one, so that the next round decides again.
func (w *Work) keep(ctx context.Context, wishes []ConfigWish) error {
	if len(wishes) == 0 {
		return nil
	}
	lacking, err := w.p.Store.KeepConfigs(ctx, w.term, wishes)
	if err != nil || len(lacking) == 0 {
		return err
	}
	if len(w.lacking) > maxGranted {
		clear(w.lacking)
	}
	for _, name := range lacking {
		w.lacking[name] = time.Now()
	}
	w.looked = time.Time{}
	return ErrMoved
}

// hideLacking returns a function that lets a policy's members with a configuration that cannot be
// stored be seen as if they had none that can be staged. As long as there are any, and in the round
// after, all members are read.
func (w *Work) hideLacking() func(*memory) {
	if len(w.lacking) == 0 {
		return func(*memory) {}
	}
	maps.DeleteFunc(w.lacking, func(_ string, at time.Time) bool { return time.Since(at) >= wishRetry })
	return func(known *memory) {
		known.isAll, known.members = true, slices.Clone(known.members)
		for i := range known.members {
			if _, isLacking := w.lacking[known.members[i].Config]; isLacking {
				known.members[i].Config = ""
			}
		}
	}
}

// wishesOf returns the configurations that admissions name, each once.
func wishesOf(fleet Fleet, admissions []catalog.Admission, members []Seen) []ConfigWish {
	byUID := make(map[string]*catalog.Service, len(members))
	for _, m := range members {
		byUID[m.Service.UID] = m.Service
	}
	var wishes []ConfigWish
	wished := map[string]bool{"": true, catalog.NoConfig: true}
	for _, a := range admissions {
		if service := byUID[a.ServiceUID]; service != nil && !wished[a.Config] {
			wished[a.Config] = true
			wishes = append(wishes, ConfigWish{Name: a.Config, Service: service, Cluster: fleet.ClusterOf(service)})
		}
	}
	return wishes
}
